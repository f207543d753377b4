/**
 * Zarr that becomes Zarr v3, and shards that several workers filled: read by the readers of Zarr v3.
 *
 * The sources were written by zarr 2.18: arrays of version 2, and those of its storage transformer in the corpus.
 */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import {
  encodeInnerChunk,
  finishReserved,
  reserveShard,
  type WrittenSlot,
  writeReserved,
} from "../../src/zarr/write/reserve.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";
import { runCommand } from "./command.ts";
import { lastLines } from "./program.ts";
import type { SuiteContext } from "./suite.ts";
import { makeItems } from "./transformer-arrays.ts";

const READERS = ["zarr-python", "zarrs", "tensorstore"] as const;

/** An array of Zarr v3, and its contents. */
interface Made {
  readonly name: string;
  readonly path: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string;
}

/** All of it. */
export async function proveConversions(context: SuiteContext): Promise<void> {
  const made = [
    ...(await convertTransformers(context)),
    ...(await convertVersion2(context)),
    ...(await fillReserved(context)),
  ];
  for (const name of READERS) {
    const reader = context.peer(name);
    if (reader === undefined) continue;
    const answers = await reader.read(made.map(({ path, dtype }): Job => ({ path, dtype })));
    for (const [i, answer] of answers.entries()) {
      const each = made[i];
      if (each !== undefined) context.checks.values(`${name} reads ${each.name}`, answer, each);
    }
  }
}

/** The corpus's hierarchies of zarr 2.18, as the command converts them. */
async function convertTransformers({ checks, folder }: SuiteContext): Promise<Made[]> {
  const made: Made[] = [];
  for (const row of loadFixtures("zarr3-transformer")) {
    if (row.kind !== "array" || typeof row.dtype !== "string" || row.sha256 === null) continue;
    const target = join(folder, `from-${row.path.replaceAll("/", "-")}`);
    const result = await runCommand("convert", row.file, target);
    if (result.code !== 0) checks.fail(`convert ${row.path}`, lastLines(result));
    checks.equal(`${row.path}: chunks are copied`, / 0 recoded/.test(result.stdout), true);
    const { dtype, shape, sha256 } = row;
    const path = join(target, row.arrayPath ?? "");
    made.push({ name: `${row.path}, converted`, path, dtype, shape, sha256 });
  }
  return made;
}

/** Settings of arrays of version 2, as zarr 2.18 takes them; chunks of zlib are recompressed. */
const VERSION2 = [
  { dtype: "<f8", compressor: { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 } },
  { dtype: ">i4", compressor: { id: "blosc", cname: "zstd", clevel: 3, shuffle: 2, blocksize: 0 } },
  { dtype: "<u2", compressor: { id: "gzip", level: 3 } },
  { dtype: ">f4", compressor: { id: "zstd", level: 1 } },
  { dtype: "|b1", compressor: null },
  { dtype: "<i8", compressor: { id: "zlib", level: 3 } },
] as const;

async function convertVersion2({ checks, folder, peer }: SuiteContext): Promise<Made[]> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return [];
  const made: Made[] = [];
  for (const [index, { dtype, compressor }] of VERSION2.entries()) {
    for (const order of ["C", "F"] as const) {
      const separator: "." | "/" = (index + (order === "C" ? 0 : 1)) % 2 === 0 ? "." : "/";
      const name = `version 2, ${dtype}, ${compressor?.id ?? "no compressor"}, order ${order}, separator ${separator}`;
      const source = join(folder, `v2-${index}-${order}`);
      const shape = [13, 17];
      const bytes = makeItems(dtype, 13 * 17);
      const from = join(folder, `v2-items-${index}`);
      await writeFile(from, bytes);
      const expected = { shape, sha256: sha256(bytes) };
      const settings = { chunks: [4, 5], order, dimension_separator: separator, compressor };
      const job: Job = { path: source, dtype, make: "version 2", from, shape, version2: settings };
      const [written] = await zarr2.read([job]);
      if (written !== undefined) checks.values(`zarr 2.18 writes ${name}`, written, expected);
      const array = await openZarrArray(new FileStore(source));
      checks.equal(`we read ${name}`, sha256(await array.getBytes()), expected.sha256);
      const path = join(folder, `v3-${index}-${order}`);
      const result = await runCommand("convert", source, path);
      const recoded = compressor?.id === "zlib";
      checks.equal(
        `${name} becomes version 3, ${recoded ? "recoded" : "copied"}`,
        [result.code, / 0 recoded/.test(result.stdout)],
        [0, !recoded],
      );
      made.push({ name: `${name}, converted`, path, dtype, ...expected });
    }
  }
  return made;
}

/** A shard whose slots were written from the last to the first, some not at all; then the same without its gaps. */
async function fillReserved({ folder }: SuiteContext): Promise<Made[]> {
  const made: Made[] = [];
  const slots = [15, 12, 11, 9, 6, 5, 3, 0];
  const items = Int32Array.from({ length: 32 * 32 }, (_, at) => {
    const slot = Math.floor(at / 32 / 8) * 4 + Math.floor((at % 32) / 8);
    return slots.includes(slot) ? at * 7 : -1;
  });
  for (const isCompacted of [false, true]) {
    const path = join(folder, `reserved-${isCompacted}`);
    await mkdir(path);
    const store = new FileStore(path);
    const array = await createZarr(store, "", {
      ...{ shape: [32, 32], dataType: "int32", chunkShape: [8, 8], shardShape: [32, 32], fillValue: -1 },
      indexLocation: "start",
    });
    const reservation = await reserveShard(array, [0, 0]);
    const written: WrittenSlot[] = [];
    for (const slot of slots) {
      const chunk = Int32Array.from({ length: 64 }, (_, i) => {
        const row = Math.floor(slot / 4) * 8 + Math.floor(i / 8);
        return (row * 32 + (slot % 4) * 8 + (i % 8)) * 7;
      });
      const encoded = await encodeInnerChunk(array, new Uint8Array(chunk.buffer));
      written.push(await writeReserved(store, reservation, slot, encoded));
    }
    await finishReserved(store, reservation, written);
    if (isCompacted) await array.compactShard([0, 0]);
    const name = isCompacted ? "reserved slots, compacted" : "reserved slots, written in any order";
    made.push({ name, path, dtype: "<i4", shape: [32, 32], sha256: sha256(new Uint8Array(items.buffer)) });
  }
  return made;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
