/** Runs `convert --to zarr3-transformer`: one archive into shards that zarr 2.13 to 2.18 read. */

import { SuperchunkError } from "../../src/errors.ts";
import { locateTarget, openArchive } from "../../src/node/index.ts";
import { exportToTransformer } from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";
import { refuseOverlap } from "./conversion.ts";

/** Options of `convert` that this way has no use for. */
const ELSEWHERE = {
  shardSize: "--shard-size",
  grid: "--grid",
  portable: "--portable",
  dtype: "--dtype",
  shape: "--shape",
  dimensionNames: "--dimension-names",
  concat: "--concat",
  dryRun: "--dry-run",
  resume: "--resume",
  overwrite: "--overwrite",
  report: "--report",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

/** Converts one archive. */
export async function convertToTransformer(
  sources: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const [source] = sources;
  if (source === undefined || sources.length > 1) {
    throw new SuperchunkError("BAD_ARGUMENT", "--to zarr3-transformer takes one archive at a time", {
      field: "src",
    });
  }
  for (const [name, option] of Object.entries(ELSEWHERE)) {
    if (flags[name as keyof typeof ELSEWHERE] === undefined) continue;
    throw new SuperchunkError("BAD_ARGUMENT", `${option} is not for --to zarr3-transformer`, {
      field: option,
    });
  }
  await refuseOverlap(source, destination);
  const archive = await openArchive(source, { signal: context.signal });
  const { store } = locateTarget(destination);
  const bar = startProgress(context.io, "convert");
  try {
    const result = await exportToTransformer(archive, store, "", "", {
      chunksPerShard: flags.chunksPerShard,
      columns: flags.column,
      verify: flags.verify,
      signal: context.signal,
      onProgress: bar.onProgress,
    });
    bar.finish();
    if (flags.json === true) {
      await context.json({ source, destination, format: "zarr3-transformer", ...result });
      return;
    }
    const { arrays, copied, padded, verified } = result;
    await context.out.line(
      `converted ${formatPlural(arrays, "array")}, ${formatPlural(copied, "chunk")} copied, ${formatCount(padded)} padded${verified ? ", verified" : ""}`,
    );
  } finally {
    bar.finish();
    await archive.close();
    await store.close?.();
  }
}
