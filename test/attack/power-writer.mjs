/** Writes long files that bypass the page cache: an array that grows, and a conversion of it. Runs under power-recorder.mjs. */
const [, , path, zarr, entry] = process.argv;
const { convert, createArray, locateTarget, open } = await import(entry);

/** Numbers that do not compress. */
function itemOf(row) {
  const mixed = Math.imul(row + 1, 2654435761);
  const again = Math.imul(mixed ^ (mixed >>> 15), 2246822519);
  return again ^ (again >>> 13);
}
const valuesFrom = (first, count) => Int32Array.from({ length: count }, (_, i) => itemOf(first + i));
const array = await createArray(path, {
  dtype: "<i4",
  chunkLength: 1 << 17,
  superchunkLength: 8,
  threads: 0,
});
globalThis.noteMoment("rows 0");
for (const rows of [700_000, 1_300_000, 10, 900_001]) {
  globalThis.noteMoment(`appending ${array.length + rows}`);
  await array.append(valuesFrom(array.length, rows));
  await array.flush();
  globalThis.noteMoment(`rows ${array.length}`);
}
await array.compact();
await array.close();
const source = await open(path, { threads: 0 });
await convert(source, { store: locateTarget(zarr).store }, { to: "zarr" });
globalThis.noteMoment("converted");
