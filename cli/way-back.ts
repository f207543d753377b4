/** Runs `convert --to npy|bloscpack|bcolz|blz`: opens what is converted, finds where it goes, says what was done. */
import { open as openIn } from "../src/array/open.ts";
import {
  type BackFormat,
  type BackResult,
  type BackSource,
  convertBack,
  openZarr,
  zarrSource,
} from "../src/bridge/index.ts";
import { isSuperchunkError, SuperchunkError } from "../src/errors.ts";
import { parseDType } from "../src/format/dtype.ts";
import { decoderOf, encoderOf, locate, locateTarget } from "../src/node/index.ts";
import { locateFileTarget } from "../src/node/locate.ts";
import type { ReadableStore } from "../src/store/types.ts";
import type { ConvertFlags } from "./commands/convert.ts";
import type { Context } from "./context.ts";
import { refuseOverlap } from "./conversion.ts";
import { startProgress } from "./progress.ts";
import { formatCount, formatPlural, formatSize } from "./units.ts";

/** Options of `convert` that only Zarr has a use for. */
const ZARR_ONLY = {
  shardSize: "--shard-size",
  chunksPerShard: "--chunks-per-shard",
  grid: "--grid",
  portable: "--portable",
  dimensionNames: "--dimension-names",
  concat: "--concat",
  dryRun: "--dry-run",
  verify: "--verify",
  resume: "--resume",
  report: "--report",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

/** Converts one archive, or one Zarr array or group. */
export async function convertBackTo(
  sources: readonly string[],
  destination: string,
  format: BackFormat,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const [path] = sources;
  if (path === undefined || sources.length > 1) {
    throw new SuperchunkError("BAD_ARGUMENT", `--to ${format} takes one archive at a time`, { field: "src" });
  }
  for (const [name, option] of Object.entries(ZARR_ONLY)) {
    if (flags[name as keyof typeof ZARR_ONLY] === undefined) continue;
    throw new SuperchunkError("BAD_ARGUMENT", `${option} is for --to zarr, not for --to ${format}`, {
      field: option,
    });
  }
  await refuseOverlap(path, destination);
  const { store, path: key } = await locate(path);
  const bar = startProgress(context.io, "convert");
  try {
    const source = await openSource(store, key, context.signal);
    const isFolder = source.kind === "table" || format === "bcolz" || format === "blz";
    const { store: target, path: name } = isFolder
      ? locateTarget(destination)
      : locateFileTarget(destination);
    const result = await convertBack(source, target, name, format, {
      columns: flags.column,
      dtype: flags.dtype === undefined ? undefined : parseDType(flags.dtype, "--dtype"),
      shape: flags.shape,
      overwrite: flags.overwrite,
      encoder: encoderOf({}),
      signal: context.signal,
      onProgress: bar.onProgress,
    });
    bar.finish();
    if (flags.json === true) await context.json({ source: path, destination, format, ...result });
    else await printResult(result, context);
  } finally {
    bar.finish();
    await store.close?.();
  }
}

/** An archive; where there is none, a Zarr node. */
async function openSource(store: ReadableStore, key: string, signal: AbortSignal): Promise<BackSource> {
  try {
    return await openIn(store, key, { signal, decoder: decoderOf({}) });
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED") && !isSuperchunkError(error, "NOT_FOUND")) throw error;
    try {
      return await zarrSource(await openZarr(store, key, { signal }));
    } catch (zarrError) {
      throw isSuperchunkError(zarrError, "NOT_FOUND") ? error : zarrError;
    }
  }
}

async function printResult(result: BackResult, context: Context): Promise<void> {
  const { arrays, nbytes, chunksCopied, chunksRecoded, seconds, notes } = result;
  for (const note of notes) context.message(`note: ${note}`);
  const chunks =
    chunksCopied + chunksRecoded === 0
      ? ""
      : `, ${formatCount(chunksCopied)} chunks copied, ${formatCount(chunksRecoded)} compressed anew`;
  await context.out.line(
    `converted ${formatPlural(arrays, "array")}, ${formatSize(nbytes)}${chunks}, ${seconds.toFixed(2)} s`,
  );
}
