/** `superchunk compact`: restores the plain layout of an array, with other settings on request. */

import type { ChunkSettings, CompactPlan, LongOptions, MoveChoice } from "../../src/index.ts";
import type { MirrorCosts } from "../../src/node/index.ts";
import { movedText, moveTo, openRoot, withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { addCutOptions, type CutFlags, cutSettings, parseAge } from "../input/array-options.ts";
import { closing } from "../input/opening.ts";
import { formatPlural, formatSize } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

interface CompactFlags extends CutFlags, Switches<"dryRun" | "breakLock" | "json"> {
  readonly moveOlderThan?: MoveChoice;
  readonly to?: string;
}

export function addCompact(program: Command, context: Context): void {
  const command = program
    .command("compact")
    .description(
      "turn an array into a plain sequence of full superchunks again; with new settings, all of it is rewritten",
    )
    .argument("<root>", "folder of an array of superchunks")
    .option(
      "--move-older-than <n>",
      "for an array with places: afterwards move all superchunks except the last N, or those that are older (12h, 30d), to another place",
      parseAge,
    )
    .option("--to <place>", "with --move-older-than: the place (default: the last one)")
    .option("--dry-run", "show how much would be written; change nothing")
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
Without new settings, compressed chunks are copied, and only superchunks that
are in pieces or were changed are written. With new settings, everything is
rewritten, the shards of an array that is also a Zarr array (create --zarr) too.
Until that is done zarr.json is missing, and readers get right values or an
error. If it is interrupted, the next command that writes completes it.

Examples:
  superchunk compact prices --dry-run
  superchunk compact prices
  superchunk compact prices --codec zstd --clevel 9 --chunklen 65536
  superchunk compact ticks --move-older-than 100 --to cold --allow /data/ticks`);
  const kept = "as it is";
  addCutOptions(command, {
    chunklen: kept,
    superchunklen: "as it is; with another chunklen about 32 MiB, at most 512",
    checksum: kept,
    clevel: kept,
    codec: kept,
    shuffle: kept,
  }).action((root: string, flags: CompactFlags) => compact(root, flags, context));
}

async function compact(root: string, flags: CompactFlags, context: Context): Promise<void> {
  const changes = cutSettings(flags);
  const { moveOlderThan, to } = flags;
  if (to !== undefined && moveOlderThan === undefined) throw wrongUse("to", "--to is for --move-older-than");
  if (flags.dryRun === true) {
    await (await openRoot(root, context)).close();
    const plan = await withRoot(root, { readOnly: true }, context, (array) => array.planCompact(changes));
    return context.tell(flags.json, { path: root, dryRun: true, ...plan }, `${root}: ${describe(plan)}`);
  }
  const before = await cbytesOf(root, context);
  const mirrorCosts = { bytes: 0, shards: 0, publications: 0 };
  const { breakLock } = flags;
  const { bytesWritten, moved } = await withRoot(root, { breakLock, mirrorCosts }, context, async (array) => {
    await work(changes, context, (options) => array.compact(changes, options));
    const gone = moveOlderThan && (await moveTo(array, to, moveOlderThan, context));
    return { bytesWritten: array.bytesWritten ?? 0, moved: gone };
  });
  const after = await cbytesOf(root, context);
  await context.tell(
    flags.json,
    { path: root, dryRun: false, cbytesBefore: before, cbytes: after, bytesWritten, moved },
    `${root}: ${formatSize(bytesWritten)} written, ${formatSize(before)} before, ${formatSize(after)} now${describeCosts(mirrorCosts)}${moved === undefined ? "" : `; ${movedText(moved)}`}`,
  );
}

/** Shows progress: in bytes while everything is recompressed, then in chunks. */
async function work(
  changes: ChunkSettings,
  context: Context,
  run: (options: LongOptions) => Promise<void>,
): Promise<void> {
  const isRecoded = Object.values(changes).some((value) => value !== undefined);
  const bytes = startProgress(context.io, "compact");
  const chunks = startProgress(context.io, isRecoded ? "put in order" : "compact", { unit: "chunks" });
  try {
    await run({
      signal: context.signal,
      onProgress: (progress) => {
        const { done, total } = progress;
        (progress.label === "chunks" ? chunks : bytes).onProgress?.({ done, total });
      },
    });
  } finally {
    bytes.finish();
    chunks.finish();
  }
}

/** The cost of keeping the array a Zarr array too. */
function describeCosts({ bytes }: MirrorCosts): string {
  return bytes === 0
    ? ""
    : `; for its Zarr readers ${formatSize(bytes)} of shards of their own, which "superchunk unlink" and "superchunk link --live" save while no program reads`;
}

function describe(plan: CompactPlan): string {
  const { isRecoded, isShownAnew, superchunks, superchunksWritten, superchunksRenamed, cbytes } = plan;
  if (isRecoded)
    return `all of its ${formatPlural(superchunks, "superchunk")} (${formatSize(cbytes)}) would be decoded and rewritten${isShownAnew ? ", and shown as Zarr again: its shards are files of their own then, about as large" : ""}`;
  if (superchunksWritten + superchunksRenamed === 0) return "nothing to do";
  return `${superchunksWritten} of ${formatPlural(superchunks, "superchunk")} would be rewritten, and ${superchunksRenamed} renamed`;
}

async function cbytesOf(root: string, context: Context): Promise<number> {
  const { signal } = context;
  return closing(await openRoot(root, context), (archive) => archive.storedBytes({ signal }));
}
