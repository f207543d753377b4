/** Two or three bytes of a Bloscpack file changed, mostly in its header and its offsets: chunks that are intact come back, and no row is lost without a word. */
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { type RepairReport, repairArray } from "../../src/convert/run/repair.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";

const FILE = "archive.blp";
const CHUNK = 1504;

interface Layout {
  readonly version: 1 | 2 | 3;
  readonly offsets: boolean;
  readonly typed: boolean;
  readonly checksum: "None" | "adler32" | "md5";
  readonly nchunks: number;
}

interface Made {
  readonly file: Uint8Array;
  readonly bytes: Uint8Array;
  /** First byte of each chunk, and of what follows the last. */
  readonly starts: readonly number[];
}

/** A file of a layout. Versions 1 and 2 are made from version 3: the header and the offsets differ, and the chunks do not. */
async function make({ version, offsets, typed, checksum, nchunks }: Layout): Promise<Made> {
  const rows = nchunks * 188 - 40;
  const bytes = new Uint8Array(new Float64Array(rows).map((_, i) => Math.floor(i ** 1.5)).buffer);
  const store = new MemoryStore();
  const metadata = { container: "numpy", dtype: "<f8", shape: [rows], order: "C" };
  const options = { chunkSize: CHUNK, checksum, offsets, ...(typed ? { metadata } : {}) };
  await compressBytes(bytes, store, FILE, options);
  const whole = (await store.get(FILE)) ?? new Uint8Array(0);
  const archive = (await open(store, FILE)) as ArrayArchive;
  const found: number[] = [];
  for await (const { offset } of archive.listChunks()) found.push(offset);
  const first = found[0] ?? 0;
  if (version === 3) return { file: whole, bytes, starts: [...found, whole.length] };
  const head = version === 1 ? 16 : 32 + (offsets ? 8 * nchunks : 0);
  const file = new Uint8Array(whole.length - first + head);
  file.set(whole.subarray(0, head));
  file.set(whole.subarray(first), head);
  const view = new DataView(file.buffer);
  file.set(version === 1 ? [1, 0, 0, 0] : [2], 4);
  view.setBigInt64(version === 1 ? 8 : 24, BigInt(version === 1 ? nchunks : 0), true);
  const starts = [...found, whole.length].map((start) => start - first + head);
  if (version === 2 && offsets)
    for (let i = 0; i < nchunks; i++) view.setBigInt64(32 + 8 * i, BigInt(starts[i] ?? 0), true);
  return { file, bytes, starts };
}

async function repair(
  file: Uint8Array,
  told: object,
): Promise<{ readonly report: RepairReport; readonly values: Uint8Array }> {
  const target = new MemoryStore();
  const report = await repairArray(new MemoryStore(new Map([[FILE, file]])), FILE, {
    into: { store: target, path: FILE },
    holes: "fill",
    scan: true,
    ...told,
  });
  const copy = (await open(target, FILE)) as ArrayArchive;
  return { report, values: await copy.readBytes(0, copy.nbytes) };
}

const LAYOUTS: readonly Layout[] = [
  { version: 1, offsets: false, typed: false, checksum: "None", nchunks: 5 },
  ...[true, false].flatMap((offsets) => [
    { version: 2, offsets, typed: false, checksum: "adler32", nchunks: 3 } as const,
    { version: 2, offsets, typed: false, checksum: "md5", nchunks: 12 } as const,
    { version: 3, offsets, typed: false, checksum: "md5", nchunks: 7 } as const,
    { version: 3, offsets, typed: true, checksum: "adler32", nchunks: 12 } as const,
    { version: 3, offsets, typed: true, checksum: "None", nchunks: 2 } as const,
  ]),
];

describe.each(LAYOUTS)("%j", (layout) => {
  const name = JSON.stringify(layout);

  test("chunks that are intact come back at their places, and a loss is always reported", async () => {
    const { file, bytes, starts } = await make(layout);
    const random = randomFrom(name.length);
    const below = (limit: number): number => Math.floor(random() * limit);
    let saved = 0;
    let savable = 0;
    for (let round = 0; round < sweep(600, 10); round++) {
      const damaged = file.slice();
      const changed = new Set<number>();
      for (let i = 0; i < 2 + (round % 2); i++) {
        // Without checksums, a changed chunk is not always seen.
        const inChunk = layout.checksum !== "None" && random() < 0.25;
        const at = inChunk ? (starts[below(layout.nchunks)] ?? 0) + below(16) : below(starts[0] ?? 0);
        damaged[at] = random() < 0.4 ? (file[at] ?? 0) ^ (1 << below(8)) : below(256);
        if (damaged[at] !== file[at]) changed.add(at);
      }
      const where = `${name}, bytes ${[...changed].map((at) => `${at}: ${damaged[at]}`).join(", ")}`;
      const isWhole = (chunk: number): boolean =>
        ![...changed].some((at) => at >= (starts[chunk] ?? 0) && at < (starts[chunk + 1] ?? 0));
      const told = layout.typed ? { dtype: "<f8", shape: [bytes.length / 8] } : { dtype: "|u1" };
      let result: Awaited<ReturnType<typeof repair>>;
      try {
        result = await repair(damaged, {}).catch((error: unknown) => {
          if (isSuperchunkError(error) && error.details.field === "metadata") return repair(damaged, told);
          throw error;
        });
      } catch (error) {
        // A refusal is an error of its own, and loses nothing without a word.
        if (!isSuperchunkError(error)) throw error;
        for (let i = 0; i < layout.nchunks; i++) if (isWhole(i)) savable++;
        continue;
      }
      const { report, values } = result;
      if (report.lost.length === 0) expect(Buffer.from(values).equals(bytes), where).toBe(true);
      for (let i = 0; i < layout.nchunks; i++) {
        if (!isWhole(i)) continue;
        const wanted = bytes.subarray(i * CHUNK, (i + 1) * CHUNK);
        savable++;
        if (Buffer.from(values.subarray(i * CHUNK, i * CHUNK + wanted.length)).equals(wanted)) saved++;
      }
    }
    // Where the number of chunks and a chunk are damaged, no place may be certain.
    expect(saved / savable, name).toBeGreaterThan(0.97);
  });
});

test("three changed bytes that hide the number of chunks and a chunk's length are no repair without a loss", async () => {
  const layout = { version: 2, offsets: true, typed: false, checksum: "adler32", nchunks: 3 } as const;
  const { file } = await make(layout);
  const damaged = file.slice();
  damaged[20] = 207;
  damaged[56 + 7] = 128;
  const { report } = await repair(damaged, {});
  expect(report.lost).not.toEqual([]);
  expect(report.rows).toBeGreaterThan(0);
});
