/** Reads carrays and tables by the rules of bcolz 1.2 and nothing else: what its users would see at a moment. */

import { decodeHeader } from "../../../src/codec/header.ts";
import { decodeSync, prepare } from "../../../src/codec/index.ts";
import type { ReadableStore } from "../../../src/store/types.ts";

/** What bcolz sees of a carray. */
export interface Seen {
  readonly rows: number;
  readonly hex: string;
}

async function json(store: ReadableStore, key: string): Promise<Record<string, unknown>> {
  const bytes = await store.get(key);
  if (bytes === undefined) throw new Error(`bcolz finds no ${key}`);
  return JSON.parse(new TextDecoder().decode(bytes).replaceAll("NaN", "null")) as Record<string, unknown>;
}

/** Chunk files by number; of the last one the rows that `sizes` counts. */
export async function seeCarray(store: ReadableStore, path: string, itemSize: number): Promise<Seen> {
  const key = (name: string): string => (path === "" ? name : `${path}/${name}`);
  const { shape } = (await json(store, key("meta/sizes"))) as { shape: number[] };
  const { chunklen } = (await json(store, key("meta/storage"))) as { chunklen: number };
  await json(store, key("__attrs__"));
  const [rows = 0, ...rest] = shape;
  const rowBytes = rest.reduce((product, n) => product * n, itemSize);
  const parts: Uint8Array[] = [];
  for (let i = 0; i < Math.ceil(rows / chunklen); i++) {
    const file = await store.get(key(`data/__${i}.blp`));
    if (file === undefined) throw new Error(`bcolz finds no chunk ${i}`);
    const chunk = file.subarray(16);
    const header = decodeHeader(chunk);
    await prepare(header.compressor);
    const data = decodeSync(chunk);
    if (data.length > chunklen * rowBytes) throw new Error(`bcolz fails on chunk ${i}: it does not fit`);
    const wanted = Math.min(chunklen, rows - i * chunklen) * rowBytes;
    if (data.length < wanted)
      throw new Error(`bcolz reads rubbish behind the ${data.length} bytes of chunk ${i}`);
    parts.push(data.subarray(0, wanted));
  }
  return { rows, hex: Buffer.concat(parts).toString("hex") };
}

/** The columns by name, as long as the first one. */
export async function seeTable(
  store: ReadableStore,
  path: string,
  itemSizes: Readonly<Record<string, number>>,
): Promise<Record<string, string>> {
  const { names } = (await json(store, path === "" ? "__rootdirs__" : `${path}/__rootdirs__`)) as {
    names: string[];
  };
  const seen: Record<string, string> = {};
  let length: number | undefined;
  for (const name of names) {
    const itemSize = itemSizes[name] ?? 0;
    const { rows, hex } = await seeCarray(store, path === "" ? name : `${path}/${name}`, itemSize);
    length ??= rows;
    if (rows < length) throw new Error(`column ${name} is shorter than the table`);
    seen[name] = hex.slice(0, 2 * length * itemSize);
  }
  return seen;
}
