/**
 * One of several writers: appends its own numbers from `first` on and flushes, again and again; prints each flushed
 * number. Killed by its parent.
 */

const [, , path, entry, first] = process.argv;
const { edit } = await import(entry);
const array = await edit(path, { shared: { lease: 1 }, threads: 0 });
process.stdout.write("open\n");
let next = Number(first);
let random = process.pid;
for (;;) {
  random = (random * 48271) % 2147483647;
  const rows = random % 5 === 0 ? 16 : 1 + (random % 23);
  await array.append(Int32Array.from({ length: rows }, () => next++));
  await array.flush();
  process.stdout.write(`flushed ${next}\n`);
}
