/**
 * Zarr arrays of every kind that we write are read by the readers of Zarr v3, and what they write is read by us.
 *
 * The same for the storage transformer of zarr 2.18 (`transformer-arrays.ts`, `transformer.ts`).
 */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSuperchunkError } from "../../src/errors.ts";
import { stringifyJson } from "../../src/format/json.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr, zarrDocument } from "../../src/zarr/write/create.ts";
import type { Job } from "./answers.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { proveTransformerCalls, proveTransformerExport } from "./transformer.ts";
import { proveTransformerArrays } from "./transformer-arrays.ts";
import { proveConversions } from "./zarr-conversions.ts";
import { listMatrix, listUncovered, type MatrixCase } from "./zarr-matrix.ts";
import { proveText } from "./zarr-text.ts";

const READERS = ["zarr-python", "zarrs", "tensorstore"] as const;
type Reader = (typeof READERS)[number];

export const zarrArrays: Suite = {
  name: "zarr",
  peers: [...READERS, "zarr 2.18"],
  async run(context) {
    const cases = listMatrix();
    context.checks.equal("every two kinds meet in some case", listUncovered(cases.filter(isOfProduct)), []);
    await proveWriting(context, cases);
    await proveReading(context, cases);
    await proveText(context);
    await proveTransformerArrays(context);
    await proveTransformerCalls(context);
    await proveTransformerExport(context);
    await proveConversions(context);
  },
};

/** A case of the product, not one of the special kinds. */
function isOfProduct({ name }: MatrixCase): boolean {
  return /^\d-d,/.test(name);
}

/** zarrs 0.2 swaps the parts of big-endian complex numbers (see `product-limits.ts`), so it is not used. */
function isFaulty(reader: Reader, { isBigComplex }: MatrixCase): boolean {
  return reader === "zarrs" && isBigComplex;
}

/** Why a reader does not accept an array. */
function refusalOf(reader: Reader, { isRectilinear, isExtension }: MatrixCase): string | undefined {
  if (isExtension && reader !== "zarr-python") return "it has no such type";
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
    for (const [index, { spec, bytes }] of cases.entries()) {
      const array = await createZarr(store, String(index), spec, {
        chunkOrder: index % 2 === 0 ? "morton" : "row-major",
        strategy: (["append", "fixed", "rewrite"] as const)[index % 3],
        writeEmptyChunks: index % 5 === 0,
      });
      if (strategy === "whole") await array.setBytes(null, bytes);
      else {
        // Odd rows, then even ones: every chunk is written twice.
        const [rows = 1] = spec.shape;
        const length = bytes.length / rows;
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
        if (tried === undefined || isFaulty(reader, tried)) continue;
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
    const able = [...cases.entries()].filter(
      ([, tried]) => refusalOf(writer, tried) === undefined && !isFaulty(writer, tried),
    );
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

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
