/** `superchunk compact`: the plain layout of an array, and other settings on request. */
import type { Command } from "commander";
import type { LongOptions } from "../../src/array/types.ts";
import type { CutOptions } from "../../src/array/write/settings.ts";
import { addCutOptions, type CutFlags, cutSettings } from "../array-options.ts";
import { type CompactPlan, planCompact } from "../compact-plan.ts";
import type { Context } from "../context.ts";
import { startProgress } from "../progress.ts";
import { formatPlural, formatSize } from "../units.ts";
import { openRoot, withRoot } from "../writable-root.ts";

interface CompactFlags extends CutFlags {
  readonly dryRun?: boolean;
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Adds `compact ROOT`. */
export function addCompact(program: Command, context: Context): void {
  const command = program
    .command("compact")
    .description(
      "make an array a plain sequence of full superchunks again; with other settings all of it is written anew",
    )
    .argument("<root>", "folder of an array of superchunks")
    .option("--dry-run", "say how much would be written, and change nothing")
    .option("--break-lock", "take the lock from whoever holds it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Without other settings compressed chunks are copied as they are, and only the
superchunks are written that are in pieces or were changed.

Examples:
  superchunk compact prices --dry-run
  superchunk compact prices
  superchunk compact prices --codec zstd --clevel 9 --chunklen 65536`,
    );
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
  if (flags.dryRun === true) {
    await (await openRoot(root, context)).close();
    const plan = await planCompact(root, changes, context);
    if (flags.json === true) await context.json({ path: root, dryRun: true, ...plan });
    else context.message(`${root}: ${describe(plan)}`);
    return;
  }
  const before = await cbytesOf(root, context);
  const bytesWritten = await withRoot(root, { breakLock: flags.breakLock }, context, async (array) => {
    await work(changes, context, (options) => array.compact(changes, options));
    return array.bytesWritten;
  });
  const after = await cbytesOf(root, context);
  if (flags.json === true)
    await context.json({ path: root, dryRun: false, cbytesBefore: before, cbytes: after, bytesWritten });
  else
    context.message(
      `${root}: ${formatSize(bytesWritten)} written, ${formatSize(before)} before, ${formatSize(after)} now`,
    );
}

/** Shows how far it is: by bytes while all is encoded anew, then by chunks. */
async function work(
  changes: CutOptions,
  context: Context,
  run: (options: LongOptions) => Promise<void>,
): Promise<void> {
  const isRecoded = Object.values(changes).some((value) => value !== undefined);
  const bytes = startProgress(context.io, "compact");
  const chunks = startProgress(context.io, isRecoded ? "put in order" : "compact", "chunks");
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

function describe({
  isRecoded,
  superchunks,
  superchunksWritten,
  superchunksRenamed,
  cbytes,
}: CompactPlan): string {
  if (isRecoded)
    return `all of its ${formatPlural(superchunks, "superchunk")} (${formatSize(cbytes)}) would be decoded and written anew`;
  if (superchunksWritten + superchunksRenamed === 0) return "nothing to do";
  return `${superchunksWritten} of ${formatPlural(superchunks, "superchunk")} would be written anew, and ${superchunksRenamed} renamed`;
}

async function cbytesOf(root: string, context: Context): Promise<number> {
  const archive = await openRoot(root, context);
  try {
    return await archive.storedBytes({ signal: context.signal });
  } finally {
    await archive.close();
  }
}
