/**
 * Appends to an archive in another program's format, and cuts it, again and again; prints on stdout the length that
 * it is about to reach, and when it has reached it. Row i holds the number i. Killed by its parent.
 */

const [, , folder, entry, kind] = process.argv;
const { core, node } = await import(entry);
const store = new node.FileStore(folder);
const numbers = (first, count) =>
  new Uint8Array(Int32Array.from({ length: count }, (_, i) => first + i).buffer);
const doubles = (first, count) =>
  new Uint8Array(Float64Array.from({ length: count }, (_, i) => first + i).buffer);

async function changed(change) {
  const array = await core.edit(store, "a");
  await change(array);
  await array.close();
}

async function appended(source, options) {
  const file = await core.edit(store, "a.blp", { format: "bloscpack" });
  await file.appendBytes(source, options);
  await file.close();
}

const KINDS = {
  carray: {
    append: (first, count) => changed((array) => array.append(numbers(first, count))),
    resize: (rows) => changed((array) => array.resize(rows)),
  },
  ctable: {
    append: (first, count) =>
      changed((array) => array.append({ id: numbers(first, count), price: doubles(first, count) })),
    resize: (rows) => changed((array) => array.resize(rows)),
  },
  bloscpack: {
    append: (first, count) => appended(numbers(first, count), { grow: true }),
  },
  "in place": {
    append: (first, count) => appended(numbers(first, count), { inPlace: true }),
  },
};
const { append, resize } = KINDS[kind];

async function length() {
  const archive = await node.open(`${folder}/${kind === "carray" || kind === "ctable" ? "a" : "a.blp"}`);
  const rows = archive.kind === "bytes" ? archive.nbytes / 4 : (archive.length ?? archive.shape[0]);
  await archive.close();
  return rows;
}

let rows = await length();
process.stdout.write(`done ${rows}\n`);
let random = process.pid;
for (;;) {
  random = (random * 48271) % 2147483647;
  const isCut = resize !== undefined && random % 3 === 0;
  const next = isCut ? Math.max(0, rows - (random % 31)) : rows + 1 + (random % 37);
  process.stdout.write(`doing ${next}\n`);
  if (isCut) await resize(next);
  else await append(rows, next - rows);
  rows = next;
  process.stdout.write(`done ${rows}\n`);
}
