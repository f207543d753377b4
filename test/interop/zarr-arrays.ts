/**
 * Zarr arrays of every kind that we write are read by the readers of Zarr v3, and what they write is read by us.
 *
 * The same for the storage transformer of zarr 2.18.
 */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSuperchunkError } from "../../src/errors.ts";
import { stringifyJson } from "../../src/format/json.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/open.ts";
import { createTransformerArray, type TransformerSpecification } from "../../src/zarr/transformer-create.ts";
import { createZarr, zarrDocument } from "../../src/zarr/write/create.ts";
import { findFixture } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";
import { runCommand } from "./command.ts";
import { lastLines } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { listMatrix, type MatrixCase } from "./zarr-matrix.ts";

const READERS = ["zarr-python", "zarrs", "tensorstore"] as const;
type Reader = (typeof READERS)[number];

export const zarrArrays: Suite = {
  name: "zarr",
  peers: [...READERS, "zarr 2.18"],
  async run(context) {
    const cases = listMatrix();
    await proveWriting(context, cases);
    await proveReading(context, cases);
    await proveTransformer(context);
    await proveTransformerExport(context);
  },
};

/** Why a reader does not take an array. */
function refusalOf(reader: Reader, { isRectilinear }: MatrixCase): string | undefined {
  return reader === "tensorstore" && isRectilinear ? "it has no unequal chunks" : undefined;
}

async function proveWriting(
  { checks, folder, peer }: SuiteContext,
  cases: readonly MatrixCase[],
): Promise<void> {
  for (const strategy of ["whole", "parts"] as const) {
    const root = join(folder, strategy);
    await mkdir(root);
    const store = new FileStore(root);
    for (const [index, { spec, bytes, dtype }] of cases.entries()) {
      const array = await createZarr(store, String(index), spec, {
        chunkOrder: index % 2 === 0 ? "morton" : "row-major",
        strategy: (["append", "fixed", "rewrite"] as const)[index % 3],
        writeEmptyChunks: index % 5 === 0,
      });
      if (strategy === "whole") await array.setBytes(null, bytes);
      else {
        // Odd rows, then even ones: every chunk is written twice.
        const size = Number(dtype.slice(2));
        const [rows = 1, ...rest] = spec.shape;
        const length = rest.reduce((product, n) => product * n, size);
        for (const start of [1, 0]) {
          const parts: Uint8Array[] = [];
          for (let row = start; row < rows; row += 2)
            parts.push(bytes.subarray(row * length, (row + 1) * length));
          await array.setBytes([{ start, stop: rows, step: 2 }], new Uint8Array(Buffer.concat(parts)));
        }
      }
    }
    for (const reader of READERS) {
      const jobs = cases.map(({ dtype }, index): Job => ({ path: join(root, String(index)), dtype }));
      const answers = (await peer(reader)?.read(jobs)) ?? [];
      for (const [index, answer] of answers.entries()) {
        const tried = cases[index];
        if (tried === undefined) continue;
        const refusal = refusalOf(reader, tried);
        const name = `${reader} reads what we write (${strategy}): ${tried.name}`;
        if (refusal !== undefined) checks.refused(`${name} (${refusal})`, answer);
        else checks.values(name, answer, { shape: tried.spec.shape, sha256: sha256(tried.bytes) });
      }
    }
  }
}

async function proveReading(
  { checks, folder, peer }: SuiteContext,
  cases: readonly MatrixCase[],
): Promise<void> {
  const from = join(folder, "items");
  await mkdir(from);
  for (const [index, { bytes }] of cases.entries()) await writeFile(join(from, String(index)), bytes);
  for (const writer of READERS) {
    const root = join(folder, writer);
    const able = [...cases.entries()].filter(([, tried]) => refusalOf(writer, tried) === undefined);
    const jobs: Job[] = [];
    for (const [index, { spec, dtype }] of able) {
      const path = join(root, String(index));
      await mkdir(path, { recursive: true });
      await writeFile(join(path, "zarr.json"), stringifyJson(zarrDocument(spec)));
      jobs.push({ path, dtype, make: "zarr", from: join(from, String(index)), shape: spec.shape });
    }
    const answers = (await peer(writer)?.read(jobs)) ?? [];
    const store = new FileStore(root);
    for (const [at, answer] of answers.entries()) {
      const [index, tried] = able[at] ?? [];
      if (index === undefined || tried === undefined) continue;
      const name = `we read what ${writer} writes: ${tried.name}`;
      const expected = { shape: tried.spec.shape, sha256: sha256(tried.bytes) };
      checks.values(`${writer} writes: ${tried.name}`, answer, expected);
      if (answer.kind === "error") continue;
      try {
        const array = await openZarrArray(store, String(index));
        checks.equal(name, sha256(await array.getBytes()), expected.sha256);
        checks.equal(`${name}: every chunk`, (await array.verify()).findings, []);
      } catch (error) {
        checks.fail(name, isSuperchunkError(error) ? error.message : String(error));
      }
    }
  }
}

const TRANSFORMER: readonly TransformerSpecification[] = (["/", "."] as const).flatMap((separator) =>
  (["C", "F"] as const).flatMap((order) =>
    [
      null,
      { codec: "blosc", configuration: { cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 } } as const,
      { codec: "gzip", configuration: { level: 3 } } as const,
      { codec: "zlib", configuration: { level: 3 } } as const,
    ].map((compressor) => ({
      ...{ shape: [17, 13], chunkShape: [3, 4], chunksPerShard: [2, 2], dataType: "<i4", fillValue: 0 },
      ...{ separator, order, compressor },
    })),
  ),
);

/** Both ways with zarr 2.18: what we write in parts, and what it writes over ours. */
async function proveTransformer({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return;
  const items = Int32Array.from({ length: 17 * 13 }, (_, i) => (i < 70 ? 0 : i * 3));
  const bytes = new Uint8Array(items.buffer);
  const from = join(folder, "transformer-items");
  await writeFile(from, bytes);
  const expected = { shape: [17, 13], sha256: sha256(bytes) };
  for (const [index, spec] of TRANSFORMER.entries()) {
    const name = `separator ${spec.separator}, order ${spec.order}, ${spec.compressor?.codec ?? "no compressor"}`;
    const [ours, theirs] = [
      join(folder, `transformer-${index}`),
      join(folder, `transformer-theirs-${index}`),
    ];
    await mkdir(ours);
    await mkdir(theirs);
    const array = await createTransformerArray(new FileStore(ours), "", "g/a", spec);
    await array.set([{ start: 0, stop: 9, step: 1 }], items.subarray(0, 9 * 13));
    await array.set([{ start: 9, stop: 17, step: 1 }], items.subarray(9 * 13));
    await createTransformerArray(new FileStore(theirs), "", "g/a", spec);
    const common = { dtype: "<i4", arrayPath: "g/a" } as const;
    const [read, written] = await zarr2.read([
      { path: ours, ...common },
      { path: theirs, ...common, make: "zarr", from, shape: [17, 13] },
    ]);
    if (read !== undefined) checks.values(`zarr 2.18 reads our transformer shards: ${name}`, read, expected);
    if (written === undefined) continue;
    checks.values(`zarr 2.18 writes transformer shards: ${name}`, written, expected);
    if (written.kind === "error") continue;
    const found = await openZarrArray(new FileStore(theirs), "g/a");
    checks.equal(
      `we read transformer shards of zarr 2.18: ${name}`,
      sha256(await found.getBytes()),
      expected.sha256,
    );
  }
}

/** Archives that the command turns into transformer shards, read by zarr 2.18. */
async function proveTransformerExport({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return;
  const rows = [
    findFixture("bloscpack-3/array-f8.blp"),
    findFixture("carray/bcolz-f8-chunks"),
    findFixture("carray/bcolz-i8-2d-attrs"),
  ];
  for (const row of rows) {
    if (row.kind !== "array" || typeof row.dtype !== "string") throw new Error(row.path);
    const target = join(folder, `exported-${row.path.replaceAll("/", "-")}`);
    const result = await runCommand(
      ...(["convert", row.file, target, "--to", "zarr3-transformer", "--chunks-per-shard", "2"] as const),
    );
    if (result.code !== 0) checks.fail(`convert ${row.path} --to zarr3-transformer`, lastLines(result));
    const [answer] = await zarr2.read([{ path: target, dtype: row.dtype, arrayPath: "" }]);
    if (answer !== undefined)
      checks.values(`zarr 2.18 reads ${row.path} as transformer shards`, answer, {
        shape: row.shape,
        sha256: row.sha256,
      });
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
