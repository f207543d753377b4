/** Compares a finished conversion with its source. */
import type { Archive, LongOptions } from "../../../src/archive/kinds/types.ts";
import type { LayoutOptions } from "../../../src/convert/pipeline.ts";
import { nbytesOf } from "../../../src/convert/plan/array-job.ts";
import { planJobs } from "../../../src/convert/plan/conversion-jobs.ts";
import { verifyArray } from "../../../src/convert/run/compare.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import { parseJson, stringifyJson } from "../../../src/format/json.ts";
import type { JsonObject } from "../../../src/format/types.ts";
import { joinKey } from "../../../src/store/key.ts";
import type { ReadableStore } from "../../../src/store/types.ts";

/** What a comparison covered. */
interface ConversionCheck {
  readonly arrays: number;
  readonly chunks: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
}

/**
 * Compares a finished conversion with its source: documents, shard indexes, and every value. `options` are those of the
 * conversion. Throws the codes of damage, and `BAD_FIELD` with array, chunk and byte if values differ.
 */
export async function verifyConversion(
  archive: Archive,
  store: ReadableStore,
  prefix: string,
  options: LayoutOptions & LongOptions = {},
): Promise<ConversionCheck> {
  const jobs = await planJobs(archive, options);
  const check = { arrays: 0, chunks: 0, nbytes: 0 };
  for (const job of jobs.arrays) {
    await checkDocument(store, joinKey(prefix, job.node, "zarr.json"), job.document);
    check.chunks += await verifyArray(job, store, prefix, options);
    check.nbytes += nbytesOf(job);
    check.arrays++;
  }
  for (const [node, document] of jobs.groups)
    await checkDocument(store, joinKey(prefix, node, "zarr.json"), document);
  return check;
}

async function checkDocument(store: ReadableStore, key: string, expected: JsonObject): Promise<void> {
  const path = store.describe(key);
  const bytes = await store.get(key);
  if (bytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "the document is not there; the conversion was not finished", {
      path,
    });
  const found = parseJson(bytes, path) as JsonObject;
  for (const [member, value] of Object.entries(expected)) {
    // Earlier versions named no dimensions.
    if (member === "dimension_names" && found[member] === undefined) continue;
    const wanted = stringifyJson(value);
    const stored = found[member] === undefined ? "nothing" : stringifyJson(found[member]);
    if (stored === stringifyJson(parseJson(new TextEncoder().encode(wanted), path))) continue;
    throw new SuperchunkError(
      "BAD_FIELD",
      `${member} is ${stored}, expected ${wanted}; convert again with the same options`,
      { path, field: member, expected: wanted, found: stored },
    );
  }
}
