/** What a page does with the package, for bundlers: reads a table in memory. */
import { MemoryStore, open } from "superchunk";
import { decode, encode } from "superchunk/blosc";
import { zarrView } from "superchunk/zarr";

export { createPool } from "superchunk/blosc";

/** The bytes of each column of a table, by name; `files` are those of its folder. */
export async function readTable(files) {
  const store = new MemoryStore();
  for (const [key, bytes] of Object.entries(files)) await store.put(key, bytes);
  const table = await open(store, "table");
  const columns = {};
  for (const name of table.names) {
    const { data } = await table.column(name).get();
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    columns[name] = await decode(await encode(bytes, { cname: "lz4", typesize: data.BYTES_PER_ELEMENT }));
  }
  return { columns, view: typeof zarrView };
}
