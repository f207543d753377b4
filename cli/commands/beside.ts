/** Commands that write derived data beside the data: `superchunk index` bounds of chunks, `superchunk consolidate` metadata. */

import { type IndexReport, isSuperchunkError, SuperchunkError, writeIndex } from "../../src/index.ts";
import { consolidate, open } from "../../src/node/index.ts";
import type { Command, Context } from "../context.ts";
import { errorAsTyped, exitCodeOf } from "../failure.ts";
import { closing } from "../input/opening.ts";
import { collectText, formatPlural } from "../input/units.ts";
import { withProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";

export function addConsolidate(program: Command, context: Context): void {
  program
    .command("consolidate")
    .description(
      "bring the consolidated metadata of a Zarr v3 group up to date, so that readers find all its nodes in one request",
    )
    .argument("<group>", "folder, or s3://BUCKET/PREFIX")
    .option("--json", "print JSON")
    .notes(`
Groups below it that have consolidated metadata are updated too, and groups
that are missing above other nodes are created.

Example:
  superchunk consolidate bundles.zarr`)
    .action(async (group: string, flags: { readonly json?: boolean }) => {
      const { nodes, changed, made } = await consolidate(group, { signal: context.signal });
      if (flags.json === true) return context.json({ path: group, nodes, changed, made });
      for (const name of made) context.message(`note: ${group}/${name}: created the missing Zarr group`);
      const what =
        changed.length === 0 ? "were right already" : `changed in ${formatPlural(changed.length, "group")}`;
      await context.out.line(`${printable(group)}: ${formatPlural(nodes, "node")}; metadata ${what}`);
    });
}

interface IndexFlags {
  readonly column?: readonly string[];
  readonly json?: boolean;
}

export function addIndex(program: Command, context: Context): void {
  program
    .command("index")
    .description(
      "write the minimum and maximum of each chunk next to a table or an array, so that filters can skip chunks",
    )
    .argument("<path...>", "table, array, Bloscpack file or Zarr group of columns")
    .option(
      "--column <name>",
      "only this column; may be repeated (default: all that can be compared)",
      collectText,
    )
    .addAllowOption()
    .option("--json", "print JSON")
    .notes(`
The index is one file, superchunk-index. It is used for a chunk only while the
chunk's file is unchanged. Later data are read as usual; run "index" again to
add them, which reads only those. To remove the index, delete the file.

Examples:
  superchunk index daily_equities.bcolz
  superchunk cat daily_equities.bcolz --where "close > 100000"`)
    .action(async (paths: readonly string[], flags: IndexFlags) => {
      const reports: (IndexReport & { readonly index: string })[] = [];
      for (const path of paths)
        try {
          const { path: index, ...report } = await indexPath(path, flags, context);
          if (flags.json === true) reports.push({ index, ...report, path });
          else await context.out.line(describeIndex(path, report));
        } catch (error) {
          // The other paths do not depend on this one.
          if (paths.length === 1 || !isSuperchunkError(error)) throw error;
          context.failure(errorAsTyped(path, error));
          context.note(exitCodeOf(error));
        }
      if (flags.json === true) await context.json(paths.length === 1 ? reports[0] : reports);
    });
}

async function indexPath(path: string, { column }: IndexFlags, context: Context): Promise<IndexReport> {
  const { io, signal, allow } = context;
  return closing(await open(path, { signal, allow }), async (opened) => {
    if (opened.kind === "bytes")
      throw new SuperchunkError("BAD_ARGUMENT", "these are plain bytes, without columns to index", { path });
    const table = opened.kind === "group" ? await opened.arrays() : opened;
    const report = await withProgress(io, "index", {}, (onProgress) =>
      writeIndex(table, { columns: column, signal, onProgress }),
    );
    if (report === undefined) throw new RangeError("an index was made and not reported");
    return report;
  });
}

function describeIndex(path: string, report: Omit<IndexReport, "path">): string {
  const { columns, others, chunks, read, uncovered } = report;
  const parts = [
    `${formatPlural(columns.length, "column")}, ${formatPlural(chunks, "chunk")}, ${read} of them read`,
  ];
  if (uncovered > 0)
    parts.push(`${uncovered} not covered, because the store does not report when they change`);
  if (others.length > 0) parts.push(`without ${others.join(", ")}, whose values have no order`);
  return printable(`${path}: ${parts.join("; ")}`);
}
