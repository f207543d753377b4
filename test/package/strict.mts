/** Types as a strict user sees them: compiled with every TypeScript that is supported, the types of packages checked as well. */
import { MemoryStore, openArray, SuperchunkError, slice } from "superchunk";
import { decode } from "superchunk/blosc";
import { convert, create, open } from "superchunk/node";
import { zarrView } from "superchunk/zarr";

export async function first(path: string): Promise<number> {
  const archive = await open(path);
  if (archive.kind !== "table") throw new SuperchunkError("UNSUPPORTED", "not a table");
  await archive.close();
  const made = await create(path, { dtype: "float64" });
  await made.append(Float64Array.of(1, 2));
  await made.close();
  await convert(path, `${path}.zarr`, { verify: true });
  const array = await openArray(new MemoryStore(), "x", { dtype: "float64" });
  const { data }: { data: Float64Array } = await array.get([slice(0, 1)]);
  const bytes: Uint8Array = await decode(new Uint8Array(16));
  const value: number = await array.get([0]);
  return value + (data[0] ?? 0) + bytes.length + (typeof zarrView === "function" ? 1 : 0);
}
