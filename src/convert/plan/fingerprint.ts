/**
 * What makes a source the same source: enough to refuse going on with a conversion of something else.
 *
 * Knows which objects hold the metadata of each dialect. A chunk replaced without any metadata changing is not
 * noticed; its header and digest are checked when it is copied all the same.
 */
import type { OpenOptions } from "../../archive/kinds/types.ts";
import { formatDType } from "../../format/dtype.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { SourceArray } from "../sources/source-array.ts";
import type { ConversionJobs } from "./conversion-jobs.ts";
import type { LayoutOptions } from "./convert-options.ts";

/** Objects whose change means that an archive has changed; those that exist count. */
const METADATA = ["", "meta/sizes", "meta/storage", "meta/attributes", "__attrs__"];

/** The fingerprint of an archive and all its arrays. */
export async function fingerprintSource(
  jobs: ConversionJobs,
  options: OpenOptions = {},
): Promise<JsonObject> {
  const { archive } = jobs;
  const arrays: JsonObject[] = [];
  for (const { node, source } of [...jobs.arrays, ...jobs.refused]) {
    arrays.push({ node, ...(await fingerprintArray(source, options)) });
  }
  return {
    location: archive.store.describe(archive.path),
    dialect: archive.dialect,
    kind: archive.kind,
    arrays,
  };
}

async function fingerprintArray(
  { archive, dtype, shape }: SourceArray,
  { signal }: OpenOptions,
): Promise<JsonObject> {
  const objects: Record<string, string> = {};
  for (const { store, path } of archive.joinedFrom ?? [archive]) {
    for (const name of METADATA) {
      const key = joinKey(path, name);
      if (key === "") continue;
      const info = await store.stat(key, { signal });
      const own = archive.joinedFrom === undefined ? name : store.describe(key);
      if (info !== undefined) objects[own] = `${info.size} ${info.version}`;
    }
  }
  return { dtype: formatDType(dtype), shape, nchunks: archive.nchunks, nbytes: archive.nbytes, objects };
}

/** The options that decide the bytes of the result, as the record keeps them. */
export function recordOptions(options: LayoutOptions): JsonObject {
  const { shardSize, chunksPerShard, portable, dtype, shape, dimensionNames, recode, columns, grid } =
    options;
  return {
    shardSize: shardSize ?? null,
    chunksPerShard: chunksPerShard ?? null,
    portable: portable === true,
    dtype: dtype === undefined ? null : formatDType(dtype),
    shape: shape ?? null,
    dimensionNames: dimensionNames ?? null,
    recode: recode !== false,
    columns: columns ?? null,
    ...(grid === "rectilinear" ? { grid } : {}),
  };
}
