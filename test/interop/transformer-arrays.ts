/** Arrays of the sharding storage transformer, all settings in all combinations, in both directions with zarr 2.18. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSuperchunkError } from "../../src/errors.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createTransformerArray, type TransformerSpecification } from "../../src/zarr/transformer.ts";
import type { Job } from "./answers.ts";
import type { SuiteContext } from "./suite.ts";
import { UnsyncedStore } from "./unsynced-store.ts";

const COMPRESSORS: readonly (NonNullable<TransformerSpecification["compressor"]> | null)[] = [
  null,
  { codec: "blosc", configuration: { cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 } },
  { codec: "blosc", configuration: { cname: "zstd", clevel: 3, shuffle: 2, blocksize: 0 } },
  { codec: "gzip", configuration: { level: 3 } },
  { codec: "zlib", configuration: { level: 3 } },
];

/** The draft's core types, without their byte order. */
const TYPES = ["b1", "i1", "u1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"] as const;

/** Arrays of one to three dimensions, the first of each whole shards, the other with edges within chunks. */
const SHAPES = [
  { shape: [12], chunkShape: [3], chunksPerShard: [2] },
  { shape: [11], chunkShape: [3], chunksPerShard: [2] },
  { shape: [8, 6], chunkShape: [2, 3], chunksPerShard: [2, 1] },
  { shape: [7, 5], chunkShape: [2, 3], chunksPerShard: [2, 1] },
  { shape: [4, 2, 4], chunkShape: [1, 2, 2], chunksPerShard: [2, 1, 2] },
  { shape: [3, 3, 3], chunkShape: [1, 2, 2], chunksPerShard: [2, 1, 2] },
] as const;

/** An array and its values. */
interface TransformerCase {
  readonly name: string;
  readonly spec: TransformerSpecification;
  /** Items in C order; the first third is the fill value. */
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

/** The full product; the byte order alternates such that it meets any combination of all settings but one. */
function listCases(): TransformerCase[] {
  const cases: TransformerCase[] = [];
  for (const [t, type] of TYPES.entries())
    for (const [s, shapes] of SHAPES.entries())
      for (const [k, separator] of (["/", "."] as const).entries())
        for (const [o, order] of (["C", "F"] as const).entries())
          for (const [c, compressor] of COMPRESSORS.entries()) {
            const byteOrder = (t + s + k + o + c) % 2 === 0 ? "<" : ">";
            const dataType = `${type.endsWith("1") ? "|" : byteOrder}${type}`;
            const fillValue = type === "b1" ? false : 0;
            const codec = compressor === null ? "no compressor" : JSON.stringify(compressor);
            const { shape } = shapes;
            const count = shape.reduce<number>((product, n) => product * n, 1);
            const bytes = makeItems(dataType, count);
            cases.push({
              name: `${shape.join(" x ")}, ${dataType}, separator ${separator}, order ${order}, ${codec}`,
              spec: { ...shapes, dataType, separator, order, compressor, fillValue },
              bytes,
              sha256: sha256(bytes),
            });
          }
  return cases;
}

/** Items in C order, the first third zero; exponents that are not NaN, and booleans that are 0 or 1. */
export function makeItems(dtype: string, count: number): Uint8Array {
  const size = Number(dtype.slice(2));
  return Uint8Array.from({ length: count * size }, (_, i) => {
    const item = Math.floor(i / size);
    if (item < count / 3) return 0;
    if (dtype === "|b1") return item % 2;
    return (item * 3 + (i % size) * 7) % 100;
  });
}

/** What we write is read by zarr 2.18, and what it writes into an array of ours is read by us. */
export async function proveTransformerArrays({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return;
  const cases = listCases();
  const ours = join(folder, "transformer");
  const theirs = join(folder, "transformer-theirs");
  const items = join(folder, "transformer-items");
  for (const path of [ours, theirs, items]) await mkdir(path);
  const jobs: Job[] = [];
  const theirStore = new UnsyncedStore(theirs);
  const ourStore = new UnsyncedStore(ours);
  for (const [i, { spec, bytes, sha256: name }] of cases.entries()) {
    const array = await createTransformerArray(ourStore, "", `g/${i}`, spec);
    if (i % 3 > 0) await array.setBytes(null, bytes);
    else {
      // Some in two parts, the second of which changes existing shards.
      const [rows = 1] = spec.shape;
      const cut = Math.floor(rows / 2);
      const at = (cut * bytes.length) / rows;
      await array.setBytes([{ start: 0, stop: cut, step: 1 }], bytes.subarray(0, at));
      await array.setBytes([{ start: cut, stop: rows, step: 1 }], bytes.subarray(at));
    }
    await createTransformerArray(theirStore, "", `g/${i}`, spec);
    const from = join(items, name);
    await writeFile(from, bytes);
    const common = { dtype: spec.dataType, arrayPath: `g/${i}` };
    jobs.push({ path: ours, ...common }, { path: theirs, ...common, make: "zarr", from, shape: spec.shape });
  }
  const answers = await zarr2.read(jobs);
  for (const [i, { name, spec, sha256: hash }] of cases.entries()) {
    const [read, written] = [answers[2 * i], answers[2 * i + 1]];
    if (read === undefined || written === undefined) continue;
    const expected = { shape: spec.shape, sha256: hash };
    checks.values(`zarr 2.18 reads our transformer shards: ${name}`, read, expected);
    checks.values(`zarr 2.18 writes transformer shards: ${name}`, written, expected);
    try {
      const found = await (await openZarrArray(theirStore, `g/${i}`)).getBytes();
      checks.equal(`we read transformer shards of zarr 2.18: ${name}`, sha256(found), hash);
    } catch (error) {
      checks.fail(
        `we read transformer shards of zarr 2.18: ${name}`,
        isSuperchunkError(error) ? error.message : String(error),
      );
    }
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
