/** Appends to an array and flushes, again and again; tells each acknowledged length on stdout. Killed by its parent. */

const [, , path, entry] = process.argv;
const { openWritable } = await import(entry);
const array = await openWritable(path, { threads: 0 });
process.stdout.write(`open ${array.length}\n`);
let random = process.pid;
for (;;) {
  random = (random * 48271) % 2147483647;
  const rows = random % 37;
  const first = array.length;
  await array.append(Int32Array.from({ length: rows }, (_, i) => first + i));
  await array.flush();
  process.stdout.write(`flushed ${array.length}\n`);
  if (random % 29 === 0) {
    await array.compact();
    process.stdout.write("compacted\n");
  }
}
