/** `superchunk append`: appends bytes or rows to a Bloscpack file, an array or a table. */

import { Option } from "commander";
import {
  type ArrayArchive,
  isSuperchunkError,
  SuperchunkError,
  type TableArchive,
  writeIndex,
} from "../../src/index.ts";
import { open, type PublishPolicy, type StreamCarrier } from "../../src/node/index.ts";
import { appendToFile, type FileFlags, lengthOf } from "../actions/append-file.ts";
import { checkRows, columnInputs, readThrough, rowBytesOf } from "../actions/append-rows.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { PUBLISH_HELP, parsePublish } from "../input/array-options.ts";
import { addBloscOptions, integerOf, parseCountOrFactor } from "../input/blosc-options.ts";
import { closing, findAt } from "../input/opening.ts";
import { drawnRows, openAppendedRows, openTableRows, printCarried } from "../input/rows-input.ts";
import { formatPlural } from "../input/units.ts";

export function addAppend(program: Command, context: Context): void {
  const command = program
    .command("append")
    .alias("a")
    .description("append to a Bloscpack file, as blpk does, or rows to an array or a table")
    .argument("<path>", "Bloscpack file, or folder of an array (also of Zarr) or a table")
    .argument(
      "<input...>",
      'bytes, or rows as .npy or raw; "-" is stdin. For a table: one structured .npy, a table (.parquet, .arrow, .feather, .csv), or NAME=FILE for each column',
    )
    .option(
      "--in-place",
      "for a Bloscpack file of bytes: change it in place, protected by a journal, instead of renaming a new file over it",
    )
    .option(
      "--grow",
      "for a Bloscpack file: enlarge the table of offsets, or the room for metadata, if it is full",
    )
    .option("--max-app-chunks <n>", 'room in the enlarged table (default: "10x")', parseCountOrFactor)
    .option("-m, --metadata <file>", "for a Bloscpack file: JSON file with new metadata")
    .addOption(
      new Option("--meta-codec <name>", "of the new metadata (default: zlib)").choices(["none", "zlib"]),
    )
    .option("--meta-level <level>", "of zlib, 0 to 9 (default: as before)", integerOf(0, 9))
    .option("--bytes", "take a .npy file as plain bytes, as blpk does")
    .option(
      "--dry-run",
      "show what would be appended, and for a file how much would be copied; change nothing",
    )
    .option("--publish <when>", `for an array of superchunks: ${PUBLISH_HELP}`, parsePublish)
    .option(
      "--shared",
      "for an array of superchunks: let other processes and machines, which give --shared too, append at the same time",
    )
    .option(
      "--lease <seconds>",
      "with --shared: after this long without a commit, what this process had reserved is released (default: 600)",
      integerOf(1, 315_360_000),
    )
    .option("--json", "print JSON")
    .addLockOptions()
    .notes(`
The compression options are for Bloscpack files; arrays store their own.

Examples:
  superchunk append log.blp more.txt --dry-run
  superchunk append log.blp more.txt
  sensor | superchunk append samples -
  sensor | superchunk append samples - --publish 5
  sensor | superchunk append samples - --shared --publish 5
  superchunk append prices.bcolz today.npy
  superchunk append trades.bcolz id=ids.npy price=prices.npy
  superchunk append trades.bcolz trades.csv`);
  addBloscOptions(command, "that of the file").action(
    async (path: string, inputs: string[], flags: FileFlags & FolderFlags) => {
      await append(path, inputs, flags, context);
      if (flags.dryRun !== true) await keepIndex(path, context);
    },
  );
}

async function append(
  path: string,
  inputs: readonly string[],
  flags: FileFlags & FolderFlags,
  context: Context,
): Promise<void> {
  if (/^https?:\/\//i.test(path))
    throw new SuperchunkError("READ_ONLY", "nothing can be written to http(s):// addresses", { path });
  const found = await findAt(path, { signal: context.signal, allow: context.allow });
  if (found.node !== undefined) {
    const [input = "", ...more] = inputs;
    const { node } = found;
    await node.close();
    refuseFileOptions(path, flags);
    if (node.kind === "array" && more.length === 0) {
      const { dtype, shape } = node;
      return appendToArray({ dtype, shape }, path, input, flags, context);
    }
    throw new SuperchunkError(
      "UNSUPPORTED",
      "one input is appended to one array; name an array of the group",
      { path },
    );
  }
  await closing(found.archive, async (archive) => {
    if (archive.kind === "table") {
      refuseFileOptions(path, flags);
      return await appendToColumns(archive, path, inputs, flags, context);
    }
    const [input] = inputs;
    if (input === undefined || inputs.length > 1)
      throw wrongUse("input", "one input is appended at a time, except for the columns of a table", {
        expected: 1,
        found: inputs.length,
      });
    const { publish, shared, lease, ...others } = flags;
    if (archive.dialect !== "blz-superchunk") refuseFileOptions(path, { publish, shared, lease });
    if (lease !== undefined && shared !== true) throw wrongUse("lease", "--lease is for --shared", { path });
    if (archive.kind === "bytes" || (archive.dialect !== "carray" && archive.dialect !== "blz-superchunk"))
      return await appendToFile(archive, path, input, flags, context);
    refuseFileOptions(path, others);
    await appendToArray(archive, path, input, flags, context);
  });
}

/** Updates an existing index. Without that it covers only the earlier rows, so a failure only costs speed. */
async function keepIndex(path: string, context: Context): Promise<void> {
  const { signal } = context;
  try {
    await closing(await open(path, { signal, allow: context.allow }), async (opened) => {
      if (opened.kind !== "bytes" && opened.kind !== "group")
        await writeIndex(opened, { ifPresent: true, signal });
    });
  } catch (error) {
    // With the exit code of an interruption, a caller would append the rows again.
    const reason = signal.aborted ? "interrupted" : isSuperchunkError(error) ? error.message : undefined;
    if (reason === undefined) throw error;
    context.message(`the rows are appended, but the index could not be brought up to date: ${reason}`);
  }
}

// Arrays and tables that are folders.

interface FolderFlags extends Switches<"bytes" | "breakLock" | "dryRun" | "json"> {
  /** For an array of superchunks: when rows of a stream become visible. */
  readonly publish?: PublishPolicy;
  /** For an array of superchunks: others append at the same time. */
  readonly shared?: boolean;
  /** Seconds. */
  readonly lease?: number;
}

/** Appends the rows of an input to an array. */
async function appendToArray(
  archive: Pick<ArrayArchive, "dtype" | "shape"> & Partial<Pick<ArrayArchive, "chunkLength">>,
  path: string,
  name: string,
  flags: FolderFlags,
  context: Context,
): Promise<void> {
  const table = flags.bytes === true ? undefined : await openTableRows(name, archive.dtype, context);
  const input = table ?? (await openAppendedRows(name, flags.bytes === true, context));
  const rowShape = archive.shape.slice(1);
  checkRows(input, archive.dtype, rowShape);
  const rowBytes = rowBytesOf(archive.dtype, rowShape);
  const { publish, breakLock, shared, lease } = flags;
  const outcome =
    publish === undefined && shared !== true ? "nothing was appended" : "rows that were visible before stay";
  const drawn = { rowBytes, verb: "append to", name: path, outcome };
  const source = drawnRows(input, drawn, context);
  const [before = 0] = archive.shape;
  const { chunkLength } = archive;
  const target = chunkLength === undefined || shared === true ? undefined : { chunkLength, length: before };
  const carrier = target && (await table?.carry?.(target));
  // Rows without bytes are counted from the header.
  const empty = rowBytes === 0 ? (input.npy?.shape[0] ?? 0) : 0;
  let rows: number;
  let taken = 0;
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const piece of source) {
      taken += piece.length;
      yield piece;
    }
  };
  if (flags.dryRun === true) {
    // Values of a table may not fit.
    if (table !== undefined) await readThrough(source);
    rows = before + (rowBytes === 0 ? empty : lengthOf(input) / rowBytes);
  }
  // The Zarr view shows flushed rows; flushes happen often enough by themselves.
  else
    rows = await withRoot(
      path,
      {
        breakLock,
        publish: publish === "full" ? publish : "flush",
        ...(carrier === undefined ? {} : { encoder: carrier.encoder }),
        shared: shared === true && { lease },
      },
      context,
      async (array) => {
        if (rowBytes > 0) await array.append(counted(), { publish });
        else await readThrough(source);
        if (empty > 0) await array.resize(array.length + empty);
        await array.flush();
        return array.length;
      },
    );
  // Others may have appended rows as well, also before this command took the lock.
  const isCounted = flags.dryRun !== true && rowBytes > 0;
  await report(path, rows, isCounted ? rows - taken / rowBytes : before, flags, context);
  printAppended(carrier, flags, context);
}

/** Appends rows to a table, from one structured `.npy` or from one file for each column. */
async function appendToColumns(
  table: TableArchive,
  path: string,
  inputs: readonly string[],
  flags: FolderFlags,
  context: Context,
): Promise<void> {
  const columns = new Map(table.names.map((name) => [name, table.column(name)]));
  const sources = await columnInputs(inputs, columns, flags.bytes === true, context);
  try {
    const lengths = new Set([...columns.values()].map((column) => column.chunkLength));
    const [chunkLength] = lengths;
    const isEven = lengths.size === 1 && chunkLength !== undefined;
    const carrier = isEven ? await sources.carry({ chunkLength, length: table.length }) : undefined;
    const encoding = carrier === undefined ? {} : { encoder: carrier.encoder };
    if (flags.dryRun === true) await sources.check();
    const rows =
      flags.dryRun === true
        ? table.length + sources.rows()
        : await withRoot(path, { breakLock: flags.breakLock, ...encoding }, context, async (edited) => {
            await edited.append(sources.data, { signal: context.signal });
            return edited.length;
          });
    await report(path, rows, table.length, flags, context);
    printAppended(carrier, flags, context);
  } finally {
    sources.finish();
  }
}

function printAppended(carrier: StreamCarrier | undefined, flags: FolderFlags, context: Context): void {
  if (flags.dryRun !== true && flags.json !== true && (carrier?.encoder.copied ?? 0) > 0)
    printCarried(carrier, context);
}

async function report(
  path: string,
  rows: number,
  rowsBefore: number,
  flags: FolderFlags,
  context: Context,
): Promise<void> {
  const dryRun = flags.dryRun === true;
  const rowsAppended = rows - rowsBefore;
  await context.tell(
    flags.json,
    { path, dryRun, rowsBefore, rowsAppended, rows },
    dryRun
      ? `${path}: ${formatPlural(rowsAppended, "row")} would be appended, ${formatPlural(rows, "row")} then`
      : `${path}: ${formatPlural(rowsAppended, "row")} appended, ${formatPlural(rows, "row")} now`,
  );
}

/** Refuses options that do not apply to folders, instead of ignoring them. Throws `BAD_ARGUMENT`. */
function refuseFileOptions(path: string, flags: object): void {
  const common = ["allow", "bytes", "breakLock", "dryRun", "json"];
  for (const name of ["publish", "shared", "lease"] as const)
    if ((flags as FolderFlags)[name] !== undefined)
      throw wrongUse(
        name,
        `--${name} is for arrays of superchunks; other archives have one writer, and show their rows at the end`,
        { path },
      );
  const given = Object.entries(flags).find(
    ([name, value]) =>
      !common.includes(name) && value !== undefined && !(name === "shuffle" && value === true),
  );
  if (given === undefined) return;
  throw wrongUse(
    given[0],
    `the option for ${given[0]} is for Bloscpack files; an array stores its own options`,
    { path },
  );
}
