/**
 * `superchunk virtualize` and `containers`: write references that show archives as Zarr without a copy; list and edit the
 * places that references point into, without rewriting the references.
 */

import { Option } from "commander";
import { changedSources, listContainers, type SetContainer, setContainer } from "../../src/node/index.ts";
import type { Container } from "../../src/zarr.ts";
import { type ReferenceForm, type TypedVirtualizeFlags, virtualizeTo } from "../actions/virtualization.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { filesFromOption, readFilesFrom, splitPaths } from "../input/input.ts";
import { behindText } from "../input/opening.ts";
import { parseCount, parseNames, parseSize } from "../input/units.ts";
import { alignRows } from "../output/layout.ts";
import { textWidth } from "../output/text-width.ts";
import { printable } from "../values/cell-text.ts";

const TARGETS: readonly ReferenceForm[] = ["icechunk", "kerchunk", "kerchunk-parquet"];

export function addVirtualize(program: Command, context: Context): void {
  program
    .command("virtualize")
    .description("write references to archives, so that Icechunk and kerchunk read them as Zarr in place")
    .usage("[options] <src...> <dst>")
    .argument(
      "<paths...>",
      "archives (files, folders, URLs) or folders of archives, then the destination of the references",
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
        "rectilinear refers to short last chunks without padding; few readers support it",
      )
        .choices(["regular", "rectilinear"])
        .default("regular"),
    )
    .option("--inline <size>", "store chunks of at most this size with the references", parseSize)
    .option(
      "--one-file",
      "kerchunk JSON: keep padded chunks in it, however many bytes they take (default: beyond 64 KiB in a file next to it)",
    )
    .option("--no-guard", "do not store ETags and times: if an archive changes, readers get wrong values")
    .option(
      "--update",
      "Icechunk: commit new archives, and what was appended to known ones; kerchunk: rewrite a set, with its containers",
    )
    .option("--concat", "join the archives along the first dimension into one array")
    .option(
      "--shards",
      "for linked archives: one reference per file, which is a whole shard; with --concat, all archives except the last must end with a full shard",
    )
    .option(
      "--overwrite",
      "kerchunk: replace an existing set; Icechunk, with --update: also rewrite references to known chunks",
    )
    .option("--containers <file>", "where the archives are and how to read them, as JSON")
    .addAllowOption()
    .option("--portable", "only data types that every Zarr reader supports")
    .option("--dimension-names <a,b,...>", "names of the dimensions", parseNames)
    .option("--column <name...>", "only these columns of a table")
    .option("--message <text>", "Icechunk: commit message")
    .addOption(filesFromOption())
    .option("--jobs <n>", "archives to read at the same time (default: 4)", parseCount)
    .option("--report <file>", "write the result of each archive to a file, as JSON")
    .option("--json", "print JSON")
    .notes(`
Nothing is copied from the archives except short last chunks, which are padded.
Readers need the archives where they are now. The last lines of the output show
how to open the result. Of several archives, damaged and missing ones are
reported and left out.

Examples:
  superchunk virtualize daily_equities.bcolz equities.icechunk
  superchunk virtualize prices.blp prices.json --zarr-format 2
  superchunk virtualize all.json --files-from list.txt
  superchunk virtualize s3://bucket/bundles bundles.icechunk --update`)
    .action(async (typed: string[], flags: TypedVirtualizeFlags & { readonly filesFrom?: string }) => {
      const paths = [...(await readFilesFrom(flags.filesFrom, context)), ...typed];
      const { sources, destination } = splitPaths(
        paths,
        "virtualize needs what to refer to and where to write: superchunk virtualize SRC... DST",
      );
      return virtualizeTo(sources, destination, flags, context);
    });
}

interface ContainersFlags extends Switches<"anonymous" | "json"> {
  readonly set?: string;
  readonly delete?: string;
  readonly prefix?: string;
  readonly location?: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly credentials?: string;
}

const MEMBERS = ["prefix", "location", "region", "endpoint", "anonymous", "credentials"] as const;

export function addContainers(program: Command, context: Context): void {
  program
    .command("containers")
    .description("list, add and edit the containers that references point into, or delete unused ones")
    .argument("<refs>", "kerchunk set or Icechunk repository: a path, or an s3:// address")
    .option("--set <name>", "add a container, or edit the one with this name")
    .option("--delete <name>", "delete a container that no reference needs")
    .option("--prefix <url>", "for a new container: the start of its locations, up to a /")
    .option("--location <url>", "kerchunk: where the objects are now, instead of the prefix, up to a /")
    .option("--region <name>", "region of S3")
    .option("--endpoint <url>", "an S3-compatible server, or the account of az://")
    .option("--anonymous", "read without credentials")
    .option("--no-anonymous", "read with the credentials that AWS tools find")
    .option("--credentials <name>", "name of the credentials that readers provide; never a secret")
    .option("--json", "print JSON")
    .notes(`
References and their guards do not change. A reader names the containers that it
allows, and provides credentials when it opens the references. Credentials
are stored nowhere: here they only have a name.

Examples:
  superchunk containers bundles.json
  superchunk containers bundles.json --set disk --location file:///archive/data/
  superchunk containers bundles.icechunk --set s3 --endpoint https://minio.example.org
  superchunk containers bundles.json --set mirror --prefix s3://mirror/ --anonymous
  superchunk containers bundles.json --delete mirror`)
    .action((path: string, flags: ContainersFlags) => containers(path, flags, context));
}

async function containers(path: string, flags: ContainersFlags, context: Context): Promise<void> {
  const { set, delete: deleted } = flags;
  const given = MEMBERS.filter((member) => flags[member] !== undefined);
  if (set !== undefined && deleted !== undefined)
    throw wrongUse("delete", "give --delete or --set, not both");
  if (set === undefined && given[0] !== undefined)
    throw wrongUse(given[0], `--${given[0]} describes a container; name it with --set`);
  if (flags.credentials !== undefined && flags.anonymous !== undefined)
    throw wrongUse("anonymous", "--anonymous and --credentials exclude one another");
  if (set !== undefined && given.length === 0)
    throw wrongUse("set", `--set needs what to set: ${MEMBERS.map((member) => `--${member}`).join(", ")}`);
  if (set !== undefined) await setContainer(path, set, changesOf(flags));
  if (deleted !== undefined) await setContainer(path, deleted, null);
  const list = await listContainers(path);
  const behind = await changedSources(path, { signal: context.signal });
  if (flags.json === true) return context.json({ path, containers: list, behind });
  const warning = behindText(behind);
  if (warning !== undefined) context.message(`${printable(path)}: ${printable(warning)}`);
  if (deleted !== undefined)
    context.message(`${printable(path)}: container "${printable(deleted)}" is deleted`);
  const rows = [
    ["name", "prefix", "reached by"],
    ...list.map((each) => [printable(each.name), printable(each.prefix), printable(reachedBy(each))]),
  ];
  const { out } = context;
  const lines = alignRows(rows);
  const isNarrow = out.columns !== undefined && lines.some((line) => textWidth(line) > (out.columns ?? 0));
  // Prefixes are long. On narrow terminals the other facts go below the name, so that containers can still be told apart.
  const shown = isNarrow
    ? rows.flatMap(([name = "", ...rest]) => [name, ...rest.map((each) => `  ${each}`)])
    : lines;
  await out.lines(shown);
}

/** Credentials and anonymous access exclude each other: setting one removes the other. */
function changesOf(flags: ContainersFlags): SetContainer {
  const { prefix, location, region, endpoint, anonymous, credentials } = flags;
  return {
    ...(prefix === undefined ? {} : { prefix }),
    ...(location === undefined ? {} : { location }),
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials, anonymous: undefined }),
    ...(anonymous === true ? { anonymous, credentials: undefined } : {}),
    ...(anonymous === false ? { anonymous: undefined } : {}),
  };
}

function reachedBy({ store, location, region, endpoint, anonymous, credentials }: Container): string {
  const words = [
    store,
    ...(location === undefined ? [] : [`now at ${location}`]),
    ...(endpoint === undefined ? [] : [endpoint]),
    ...(region === undefined ? [] : [region]),
    ...(anonymous === true ? ["anonymous"] : []),
    ...(credentials === undefined ? [] : [`credentials "${credentials}"`]),
  ];
  return words.join(", ");
}
