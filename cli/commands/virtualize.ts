/** `superchunk virtualize`: references to archives, which show them as Zarr without a copy. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { SuperchunkError } from "../../src/index.ts";
import { type ReferenceForm, type TypedVirtualizeFlags, virtualizeTo } from "../actions/virtualization.ts";
import type { Context } from "../context.ts";
import { refuseEmptyPath } from "../input/input.ts";
import { parseSize } from "../input/units.ts";

const TARGETS: readonly ReferenceForm[] = ["icechunk", "kerchunk", "kerchunk-parquet"];

/** Adds `virtualize SRC… DST`. */
export function addVirtualize(program: Command, context: Context): void {
  program
    .command("virtualize")
    .description("write references to archives, which Icechunk and kerchunk read as Zarr without a copy")
    .usage("[options] <src...> <dst>")
    .argument(
      "<paths...>",
      "archives (files, folders, URLs) or folders of archives, and last where the references go",
    )
    .addOption(
      new Option(
        "--to <form>",
        "what to write: an Icechunk repository, or a kerchunk set as JSON or Parquet (default: by the end of dst, .json or .parq; else icechunk, or kerchunk where Icechunk does not work)",
      ).choices(TARGETS),
    )
    .addOption(new Option("--zarr-format <n>", "documents of kerchunk JSON (default: 3)").choices(["2", "3"]))
    .addOption(
      new Option(
        "--grid <kind>",
        "rectilinear refers to short last chunks as they are, and few readers know it",
      )
        .choices(["regular", "rectilinear"])
        .default("regular"),
    )
    .option("--inline <size>", "store chunks of at most this size with the references", parseSize)
    .option("--no-guard", "no ETags and times: an archive that changes is read all the same, as wrong values")
    .option("--update", "Icechunk: add new archives, and what was appended to known ones, as a commit")
    .option("--concat", "join the archives along the first dimension to one array")
    .option(
      "--shards",
      "of linked archives: one reference to each file, which is a whole shard; with --concat all but the last must end on one",
    )
    .option(
      "--overwrite",
      "kerchunk: replace a set that is there; Icechunk, with --update: refer again to known chunks too",
    )
    .option("--containers <file>", "where the archives lie and how they are read, as JSON")
    .option("--portable", "only data types that every Zarr reader knows")
    .option("--dimension-names <a,b,...>", "names of the dimensions", parseNames)
    .option("--column <name...>", "only these columns of a table")
    .option("--message <text>", "Icechunk: message of the commit")
    .option("--report <file>", "write what became of each archive to a file, as JSON")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Nothing of the archives is copied but short last chunks, filled up. Readers need
the archives where they are; the lines to open the result are printed at the
end. A damaged archive among many is reported there; the others are referenced.

Examples:
  superchunk virtualize daily_equities.bcolz equities.icechunk
  superchunk virtualize prices.blp prices.json --zarr-format 2
  superchunk virtualize s3://bucket/bundles bundles.icechunk --update`,
    )
    .action((paths: string[], flags: TypedVirtualizeFlags) => {
      const sources = paths.slice(0, -1);
      const destination = paths.at(-1);
      if (destination === undefined || sources.length === 0) {
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          "virtualize needs what to refer to and where to write: superchunk virtualize SRC... DST",
          { field: "dst" },
        );
      }
      for (const path of paths) refuseEmptyPath(path);
      return virtualizeTo(sources, destination, flags, context);
    });
}

function parseNames(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.includes("")) throw new InvalidArgumentError("Expected names with commas between.");
  return names;
}
