/** `superchunk link` and `superchunk unlink`: make an archive a Zarr array in place, and undo that. */

import { Option } from "commander";
import { parseDType } from "../../src/index.ts";
import { type LinkPlan, type LinkResult, link, planLinkAt, unlink } from "../../src/node/index.ts";
import type { Command, Context, Switches } from "../context.ts";
import {
  formatCount,
  formatDuration,
  formatPlural,
  formatSize,
  parseNames,
  parseShape,
} from "../input/units.ts";
import { alignRows } from "../output/layout.ts";
import { openingZarr, zarrShapeOf } from "../output/opening-lines.ts";
import { withProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";

const KINDS = ["hard", "symbolic", "copy"] as const;

interface LinkFlags extends Switches<"live" | "dryRun" | "breakLock" | "json"> {
  readonly link: (typeof KINDS)[number];
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly dimensionNames?: readonly string[];
}

export function addLink(program: Command, context: Context): void {
  program
    .command("link")
    .description("turn an archive into a Zarr v3 array in place, by an index after the chunks of each file")
    .argument("<path>", "folder or file of one archive")
    .argument("[dst]", "for a file: the folder that becomes the Zarr array")
    .addOption(
      new Option("--link <kind>", "what the shards are: hard links, symbolic links, or copies")
        .choices(KINDS)
        .default("hard"),
    )
    .option("--dtype <dtype>", 'for plain bytes: their dtype, such as "<f8" (default: uint8)')
    .option("--shape <n,n,...>", "for plain bytes: the shape of the array", parseShape)
    .option("--dimension-names <a,b,...>", "names of the dimensions", parseNames)
    .option("--live", "for an array of superchunks: keep it a Zarr array through all later changes")
    .option("--dry-run", "show what would happen; write nothing")
    .option("--break-lock", "take the lock of a writer that has certainly died")
    .option("--json", "print JSON")
    .notes(`
Each data file gets an index at its end and becomes read-only (with --link copy,
only the copies do). Programs that read the files still can. If a link
is interrupted or damaged, run "superchunk link" again to complete or repair it.
"superchunk unlink" undoes it to the last byte.

If you change a linked array, its Zarr view stays as it was until you link the
array again. With --live, the view follows every later change, as in an array
made with "superchunk create --zarr". The superchunks are written once more for
that, to get their index.

Examples:
  superchunk link prices --dry-run
  superchunk link prices
  superchunk link prices --live --dry-run
  superchunk link prices --live
  superchunk link signal.blp signal.zarr --dtype "<f4"`)
    .action(async (path: string, destination: string | undefined, flags: LinkFlags) => {
      const { link: kind, shape, dimensionNames, live, breakLock } = flags;
      const dtype = flags.dtype === undefined ? undefined : parseDType(flags.dtype, "--dtype");
      const dry = flags.dryRun === true;
      const { io, signal } = context;
      const result = await withProgress(io, "link", {}, (onProgress) => {
        const options = { kind, dtype, shape, dimensionNames, live, breakLock, signal, onProgress };
        return dry ? planLinkAt(path, destination, options) : link(path, destination, options);
      });
      if (flags.json === true) await context.json(result);
      else await printResult(result, dry, context);
    });
}

async function printResult(plan: LinkPlan | LinkResult, dry: boolean, context: Context): Promise<void> {
  for (const note of plan.notes) context.message(`note: ${note}`);
  if (dry) {
    const header = ["file", "action", "shard", "chunks", "size", "added"];
    const rows = plan.files.map((file) => [
      printable(file.file),
      file.action,
      printable(file.shard),
      formatCount(file.chunks),
      formatSize(file.size),
      `${formatSize(file.action === "keep" ? 0 : file.added)}${file.padded ? " (with a padded copy)" : ""}`,
    ]);
    const table = rows.length === 0 ? [] : [header, ...rows];
    await context.out.lines(alignRows(table, new Set([3, 4]), context.out.columns));
    for (const key of plan.documents) await context.out.line(`document  ${printable(key)}`);
  }
  const repairs = plan.files.filter(({ action }) => action === "repair");
  for (const { file, reason } of repairs)
    await context.out.line(`${dry ? "to repair" : "repaired"}  ${printable(`${file}: ${reason ?? ""}`)}`);
  await context.out.line(summary(plan, dry));
  if (dry) return;
  const nodes = plan.documents.map((key) => key.replace(/\/?zarr\.json$/, ""));
  context.message(`in Python: ${openingZarr(plan.destination, zarrShapeOf(nodes))}`);
}

function summary(plan: LinkPlan | LinkResult, dry: boolean): string {
  const { destination, files, added, done, kind, live = false } = plan;
  if (done) return `${printable(destination)} is a Zarr array already, and intact`;
  if (live && dry)
    return `${printable(destination)} would keep itself a Zarr array: about ${formatSize(added)} written`;
  if (live)
    return `${printable(destination)} keeps itself a Zarr array: ${formatSize(added)} written for shards of their own${"seconds" in plan ? `, ${(plan.seconds * 1000).toFixed(0)} ms` : ""}`;
  const how = { hard: "hard links", symbolic: "symbolic links", copy: "copies" }[kind];
  const time = "seconds" in plan ? `, ${formatDuration(plan.seconds)}` : "";
  return `${printable(destination)} ${dry ? "would be" : "is"} a Zarr array: ${formatPlural(files.length, "file")} (${how}), ${formatSize(added)} added${time}`;
}

type UnlinkFlags = Switches<"breakLock" | "json">;

export function addUnlink(program: Command, context: Context): void {
  program
    .command("unlink")
    .description("undo link: restore every data file to the last byte, and its permissions")
    .argument("<path>", "folder of the Zarr array")
    .option("--break-lock", "take the lock of a writer that has certainly died")
    .option("--json", "print JSON")
    .notes(`
Example:
  superchunk unlink prices`)
    .action(async (path: string, flags: UnlinkFlags) => {
      const result = await unlink(path, { breakLock: flags.breakLock, signal: context.signal });
      if (flags.json === true) return context.json(result);
      for (const note of result.notes) context.message(`note: ${note}`);
      for (const file of result.replaced)
        context.message(`note: ${file} is not the file that was linked; it was left alone`);
      await context.out.line(
        `${printable(path)} is not a Zarr array any more: ${formatPlural(result.files, "file")} as before, ${formatSize(result.removed)} cut off`,
      );
    });
}
