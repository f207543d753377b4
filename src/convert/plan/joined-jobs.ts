/**
 * The conversion of several archives as one: arrays of the same name become one, along the first dimension.
 *
 * Chunks are copied where they lie on the borders of one grid, and recoded where a short one before them has
 * moved them off. Must not write.
 */

import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { LayoutOptions } from "../pipeline.ts";
import { JoinedSource } from "../sources/joined-source.ts";
import type { SourceArchive, SourceArray } from "../sources/source-array.ts";
import { type ArrayJob, planArray } from "./array-job.ts";
import { assertConvertible, type ConversionJobs, planJobs } from "./conversion-jobs.ts";
import { findJoinedCuts } from "./joined-cuts.ts";

/**
 * Plans the conversion of archives of one store as one, in their order.
 *
 * Throws `BAD_ARGUMENT` where they have other arrays, types or further dimensions than the first, `UNSUPPORTED` for
 * arrays without dimensions or in Fortran order, and for chunks that do not fit with `recode: false`.
 */
export async function planJoined(
  archives: readonly Archive[],
  options: LayoutOptions & OpenOptions,
): Promise<ConversionJobs> {
  const planned: ConversionJobs[] = [];
  // Which chunks can be copied, and into which grid, is decided for all of them together.
  const alone = { ...options, recode: true, grid: "regular" } as const;
  for (const archive of archives) planned.push(await planJobs(archive, alone));
  for (const jobs of planned) assertConvertible(jobs);
  const [first] = planned;
  if (first === undefined)
    throw new SuperchunkError("BAD_ARGUMENT", "there are no archives to join", { field: "concat" });
  for (const { archive, arrays } of planned) {
    const wanted = namesOf(first.arrays);
    const found = namesOf(arrays);
    if (found !== wanted)
      throw unlike(archive.store.describe(archive.path), "has other arrays than the first", wanted, found);
  }
  const arrays: ArrayJob[] = [];
  for (const [i, job] of first.arrays.entries()) {
    const parts = planned.flatMap((each) => each.arrays[i]?.source ?? []);
    arrays.push(await joinJobs(job, parts, options));
  }
  return { ...first, arrays, notes: [...new Set(planned.flatMap(({ notes }) => notes))] };
}

function namesOf(arrays: readonly ArrayJob[]): string {
  return arrays.map(({ node }) => (node === "" ? "(the root)" : node)).join(", ");
}

async function joinJobs(
  first: ArrayJob,
  parts: readonly SourceArray[],
  options: LayoutOptions & OpenOptions,
): Promise<ArrayJob> {
  for (const part of parts) assertAlike(first.source, part);
  const filled = parts.filter(({ shape }) => at(shape, 0) > 0);
  const [head = first.source] = filled;
  const rows = filled.reduce((sum, { shape }) => sum + at(shape, 0), 0);
  const { uneven, chunkBytes } =
    filled.length === 0 ? { uneven: undefined, chunkBytes: head.archive.chunkBytes } : findJoinedCuts(filled);
  const joined: SourceArray = {
    ...first.source,
    archive: new JoinedSource(
      head.archive,
      filled.map(({ archive }) => archive),
      chunkBytes,
    ),
    shape: [rows, ...head.shape.slice(1)],
    chunkLength: head.chunkLength,
    ...(uneven === undefined ? {} : { uneven }),
  };
  const job = await planArray(first.node, joined, options);
  // The first plan knows names that had to be changed.
  const withAttributes = (document: JsonObject): JsonObject => {
    const { attributes } = first.document;
    return attributes === undefined ? document : { ...document, attributes };
  };
  return {
    ...job,
    document: withAttributes(job.document),
    chunkDocument: withAttributes(job.chunkDocument),
    notes: [...new Set([...job.notes, ...first.notes])],
  };
}

function assertAlike(first: SourceArray, part: SourceArray): void {
  const path = describe(part.archive);
  if (part.shape.length === 0 || (part.order === "F" && part.shape.length > 1)) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "its values do not lie row after row, so that it cannot be joined along the first dimension",
      { path, field: "concat" },
    );
  }
  if (part.archive.kind === "bytes") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it holds plain bytes without a data type, so that it cannot be joined; convert it by itself",
      { path, field: "concat" },
    );
  }
  const members: readonly (readonly [string, JsonValue, JsonValue])[] = [
    ["dtype", formatDType(first.dtype), formatDType(part.dtype)],
    ["further dimensions", first.shape.slice(1), part.shape.slice(1)],
    ["fill value", first.fillValue ?? null, part.fillValue ?? null],
  ];
  for (const [name, wanted, found] of members) {
    const [left, right] = [stringifyJson(wanted), stringifyJson(found)];
    if (left !== right)
      throw unlike(path, `has another ${name} than ${describe(first.archive)}`, left, right);
  }
}

function describe({ store, path }: Pick<SourceArchive, "store" | "path">): string {
  return store.describe(path);
}

function unlike(path: string, what: string, expected: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `it ${what}, so that they cannot be joined: ${expected} is expected, and ${found} is there`,
    { path, field: "concat", expected, found },
  );
}
