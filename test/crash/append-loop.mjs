/**
 * Appends to an array and flushes, again and again; prints each acknowledged length on stdout. Killed by its parent.
 * With "in-place" it also negates all values in place. Fewer than `most` rows at a time.
 */

const [, , path, entry, modify, most = "37"] = process.argv;
const { edit } = await import(entry);
const array = await edit(path, { threads: 0, modify });
let sign = array.length > 0 && (await array.get([-1])) < 0 ? -1 : 1;
process.stdout.write(`open ${array.length}\n`);
let random = process.pid;
for (;;) {
  random = (random * 48271) % 2147483647;
  const rows = random % Number(most);
  const first = array.length;
  await array.append(Int32Array.from({ length: rows }, (_, i) => sign * (first + i + 1)));
  await array.flush();
  process.stdout.write(`flushed ${array.length}\n`);
  if (modify === "in-place" && random % 3 === 0) {
    sign = -sign;
    await array.set(
      null,
      Int32Array.from({ length: array.length }, (_, i) => sign * (i + 1)),
    );
    await array.flush();
    process.stdout.write(`set ${sign}\n`);
  }
  if (random % 29 === 0) {
    await array.compact();
    process.stdout.write("compacted\n");
  }
}
