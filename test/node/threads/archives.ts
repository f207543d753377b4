/** Archives for the tests of threads: carrays of many chunks, some of them damaged. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { encodeSync } from "../../../src/codec/index.ts";

/** How an archive is cut. */
export interface RampShape {
  readonly chunkItems: number;
  readonly nchunks: number;
}

/** Chunks of 32 KiB, several of which threads read together. */
export const SHAPE: RampShape = { chunkItems: 4096, nchunks: 300 };
/** Chunks of 128 KiB, which threads read one by one. */
export const LARGER: RampShape = { chunkItems: 16384, nchunks: 160 };

/** Bytes before a carray's chunk. */
const PROLOGUE = Uint8Array.of(0x62, 0x6c, 0x70, 0x6b, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);

/** The values `first`, `first + step`, … as int64, without millions of BigInts. The machine is little-endian. */
export function rampOf(first: number, count: number, step = 1): BigInt64Array<ArrayBuffer> {
  const words = new Uint32Array(2 * count);
  for (let i = 0; i < count; i++) words[2 * i] = first + step * i;
  return new BigInt64Array(words.buffer);
}

/** Writes a carray of int64 values 0, 1, 2, … and returns its path. */
export async function writeRamp(path: string, { chunkItems, nchunks }: RampShape = SHAPE): Promise<string> {
  const items = chunkItems * nchunks;
  await mkdir(join(path, "meta"), { recursive: true });
  await mkdir(join(path, "data"));
  for (let chunk = 0; chunk < nchunks; chunk++) {
    const chunkBytes = encodeChunk(rampOf(chunk * chunkItems, chunkItems));
    await writeFile(chunkPath(path, chunk), [PROLOGUE, chunkBytes]);
  }
  const sizes = { shape: [items], nbytes: items * 8, cbytes: items };
  const cparams = { clevel: 5, shuffle: 1, cname: "lz4", quantize: 0 };
  const storage = { dtype: "int64", cparams, chunklen: chunkItems, expectedlen: items, dflt: 0 };
  await writeFile(join(path, "meta", "sizes"), JSON.stringify(sizes));
  await writeFile(join(path, "meta", "storage"), JSON.stringify(storage));
  return path;
}

/** The file and offset of a carray's chunk. */
export function chunkPath(path: string, chunk: number): string {
  return join(path, "data", `__${chunk}.blp`);
}

function encodeChunk(values: BigInt64Array): Uint8Array {
  return encodeSync(new Uint8Array(values.buffer), { cname: "lz4", typesize: 8 });
}
