/** Arrays of a view, read with zarrita as bytes in C order. */
import * as zarr from "zarrita";
import type { ZarrView } from "../../src/zarr.ts";
import { type ArrayFixture, type FixtureDType, parseExactJson } from "../fixtures/manifest.ts";
import { type Strided, toCOrder } from "./c-order.ts";

export async function documentOf(
  view: Pick<ZarrView, "get">,
  node: string,
): Promise<Record<string, unknown>> {
  const bytes = await view.get(node === "" ? "/zarr.json" : `/${node}/zarr.json`);
  if (bytes === undefined) throw new Error(`no document of "${node}"`);
  return parseExactJson(new TextDecoder().decode(bytes)) as Record<string, unknown>;
}

export function isBig(dtype: FixtureDType | null): boolean {
  return typeof dtype === "string" && dtype.startsWith(">");
}

/** The values of an array, in the byte order of `dtype`. zarrita has no complex numbers: they are read as pairs. */
export async function readThroughView(
  view: Pick<ZarrView, "get">,
  node: string,
  dtype: FixtureDType | null,
): Promise<Uint8Array> {
  const isComplex = typeof dtype === "string" && dtype.includes("c16");
  const store = isComplex ? asPairs(view) : { get: (key: string) => view.get(key) };
  const array = await zarr.open.v3(zarr.root(store as never).resolve(`/${node}`), { kind: "array" });
  // zarrita 0.7.5 cannot select from a dimension without items.
  if (array.shape.includes(0)) return new Uint8Array();
  const read = array.shape.length === 0 ? array.getChunk([]) : zarr.get(array, null);
  return toCOrder((await read) as unknown as Strided, isBig(dtype));
}

function asPairs(view: Pick<ZarrView, "get">): { get(key: string): Promise<Uint8Array | undefined> } {
  return {
    async get(key) {
      if (!key.endsWith("zarr.json")) return view.get(key.replace(/\/0$/, ""));
      const document = await documentOf(view, key.slice(1).replace(/\/?zarr\.json$/, ""));
      const grid = document["chunk_grid"] as { configuration: { chunk_shape: number[] } };
      grid.configuration.chunk_shape.push(2);
      const pairs = {
        ...document,
        data_type: "float64",
        fill_value: 0,
        shape: [...(document["shape"] as number[]), 2],
      };
      return new TextEncoder().encode(JSON.stringify(pairs));
    },
  };
}

/** The rows of a nested array, put together from the columns that it is shown as. */
export async function readStruct(view: Pick<ZarrView, "get">, fixture: ArrayFixture): Promise<Uint8Array> {
  const fields = fixture.dtype as readonly (readonly [string, string])[];
  const columns = await Promise.all(fields.map(([name, dtype]) => readThroughView(view, name, dtype)));
  const [rows = 0] = fixture.shape;
  const parts: Uint8Array[] = [];
  for (let row = 0; row < rows; row++) {
    for (const column of columns)
      parts.push(column.subarray((row * column.length) / rows, ((row + 1) * column.length) / rows));
  }
  return new Uint8Array(Buffer.concat(parts));
}
