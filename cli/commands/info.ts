/** `superchunk info`: what an archive is. */
import type { Command } from "commander";
import { isLinked } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { allowOption, openPath } from "../input/opening.ts";
import { describeArchive } from "../output/archive-facts.ts";
import { infoLines } from "../output/archive-text.ts";

interface InfoOptions {
  readonly allow?: readonly string[];
  readonly json?: boolean;
}

/** Adds `info PATH`. */
export function addInfo(program: Command, context: Context): void {
  program
    .command("info")
    .description(
      "show what an archive, a Zarr array or group is: dialect, dtype, shape, chunks, sizes, attributes, columns",
    )
    .argument("<path>", "file, folder or URL of one archive, or of a Zarr array or group")
    .addOption(allowOption())
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  superchunk info prices.blp
  superchunk info daily_equities.bcolz --json
  superchunk info bundle.zarr/close
  superchunk info https://example.org/archive.blp`,
    )
    .action(async (path: string, options: InfoOptions) => {
      const archive = await openPath(path, { signal: context.signal, allow: options.allow });
      try {
        const own = await describeArchive(path, archive, { signal: context.signal });
        const facts = (await isLinked(archive)) ? { ...own, views: ["zarr3"] } : own;
        if (options.json === true) await context.json(facts);
        else for (const line of infoLines(facts, context.out.columns)) await context.out.line(line);
      } finally {
        await archive.close();
      }
    });
}
