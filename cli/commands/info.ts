/** `superchunk info`: shows what an archive is. */
import { Option } from "commander";
import { isSuperchunkError, SuperchunkError } from "../../src/index.ts";
import { isLinked } from "../../src/node/index.ts";
import type { Command, Context, Switches } from "../context.ts";
import { exitCodeOf, toJsonFailure } from "../failure.ts";
import { closing, columnNamesOf, isFolder, isReferences, openPath, type Subject } from "../input/opening.ts";
import { isAddress } from "../input/units.ts";
import { describeArchive } from "../output/archive-facts.ts";
import { type ColumnSample, damagedLines, infoLines, sampleLines } from "../output/archive-text.ts";
import { Sampler } from "../values/sample.ts";

interface InfoOptions extends Switches<"sample" | "json"> {
  readonly allow?: readonly string[];
}

export function addInfo(program: Command, context: Context): void {
  program
    .command("info")
    .description(
      "show what an archive, a Zarr array or group is: dialect, dtype, shape, chunks, sizes, attributes, columns",
    )
    .argument(
      "<path>",
      "file, folder or URL of an archive, a Zarr array or a Zarr group; for a folder of many, totals are shown",
    )
    .addOption(
      new Option(
        "--sample",
        "draw a small chart for each column of numbers, from up to eight of its chunks (default: on a terminal, for archives on this machine)",
      ).conflicts("json"),
    )
    .option("--no-sample", "do not read any values")
    .addAllowOption()
    .option("--json", "print JSON")
    .notes(`
Examples:
  superchunk info prices.blp
  superchunk info daily_equities.bcolz --json
  superchunk info daily_equities.bcolz --sample
  superchunk info bundle.zarr/close
  superchunk info /data/bundles
  superchunk info https://example.org/archive.blp`)
    .action(async (path: string, options: InfoOptions) => {
      const archive = await openOrSum(path, options, context);
      if (archive === undefined) return;
      await closing(archive, async () => {
        const own = await describeArchive(path, archive, { signal: context.signal });
        const facts = (await isLinked(archive)) ? { ...own, views: ["zarr3"] } : own;
        if (options.json === true) await context.json(facts);
        else {
          await context.out.lines(infoLines(facts, context.out.columns));
          if (options.sample ?? (context.out.isTerminal && isHere(path)))
            await context.out.drawing(
              sampleLines(await samplesOf(archive, context.signal), context.out.columns),
            );
        }
      });
    });
}

/**
 * Opens the archive at the path. For a folder of archives, prints totals and returns undefined; for a damaged file with an
 * intact header, prints the header and the damage.
 */
async function openOrSum(path: string, options: InfoOptions, context: Context): Promise<Subject | undefined> {
  try {
    const { signal } = context;
    return await openPath(path, { signal, allow: options.allow, skipUnreadable: true, measureText: false });
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage && error.details.header !== undefined) {
      context.note(exitCodeOf(error));
      const { header } = error.details;
      if (options.json === true) await context.json({ path, header, error: toJsonFailure(error) });
      else await context.out.lines(damagedLines(path, error));
      return undefined;
    }
    // If the folder is itself an archive with unsupported content, its error is reported.
    const isOther = isSuperchunkError(error, "UNSUPPORTED") && error.details.found === "none of them";
    if (!isOther || !(await isFolder(path))) throw error;
    const { listTotals } = await import("./ls.ts");
    try {
      await listTotals(path, options, context);
    } catch (failure) {
      // Without any archive in it, the first error says more.
      throw isSuperchunkError(failure, "NOT_FOUND") ? error : failure;
    }
    return undefined;
  }
}

/** True for an archive on this machine; references may lead anywhere. */
function isHere(path: string): boolean {
  return !isAddress(path) && !/\.json(?:\/|$)/.test(path) && !isReferences(path);
}

/** Samples of an array or of numeric columns. A damaged column has a failure instead. */
async function samplesOf(archive: Subject, signal: AbortSignal): Promise<ColumnSample[]> {
  if (archive.kind === "bytes") return [];
  const sampler = new Sampler();
  const names = columnNamesOf(archive);
  const columns =
    archive.kind === "array" && names.length === 0
      ? [{ name: "", column: archive }]
      : names.map((name) => ({ name, column: archive.column(name) }));
  const samples: ColumnSample[] = [];
  for (const { name, column } of columns) {
    const { dtype, nchunks } = column;
    try {
      const sample = await sampler.take(column, { signal });
      if (sample !== undefined) samples.push({ name, dtype, nchunks, sample });
    } catch (error) {
      if (!(error instanceof SuperchunkError)) throw error;
      samples.push({ name, dtype, nchunks, failure: error.code });
    }
  }
  return samples;
}
