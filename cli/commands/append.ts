/** `superchunk append`: bytes or rows behind those of a Bloscpack file, an array or a table. */
import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { appendToBloscpack } from "../../src/array/foreign/bloscpack-append.ts";
import type { CountOrFactor } from "../../src/array/foreign/bloscpack-options.ts";
import { appendToCarray } from "../../src/array/foreign/carray-write.ts";
import { appendToTable } from "../../src/array/foreign/table-write.ts";
import type { Archive, ArrayArchive, TableArchive } from "../../src/array/types.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { parseJsonInput } from "../../src/format/json.ts";
import { encoderOf, open, openWritable } from "../../src/node/index.ts";
import { checkRows, columnInputs } from "../append-rows.ts";
import { addBloscOptions, type BloscFlags, bloscSettings, parseCountOrFactor } from "../blosc-options.ts";
import type { Context } from "../context.ts";
import { openInput } from "../input.ts";
import { formatPlural, formatSize } from "../units.ts";
import { carrayLock, checkWritable, fileLock, tableLock, withLock, withStore } from "../writing.ts";

interface AppendFlags extends BloscFlags {
  readonly inPlace?: boolean;
  readonly grow?: boolean;
  readonly maxAppChunks?: CountOrFactor;
  readonly metadata?: string;
  readonly bytes?: boolean;
  readonly breakLock?: boolean;
}

/** Adds `append PATH INPUT...`. */
export function addAppend(program: Command, context: Context): void {
  const command = program
    .command("append")
    .alias("a")
    .description("append to a Bloscpack file, as blpk does, or rows to an array or a table")
    .argument("<path>", "Bloscpack file, or folder of an array or a table")
    .argument(
      "<input...>",
      'bytes, or rows as .npy; "-" reads stdin. For a table: one structured .npy, or NAME=FILE for each column',
    )
    .option(
      "--in-place",
      "of a Bloscpack file of bytes: change it where it lies, behind a journal, instead of renaming a new one over it",
    )
    .option(
      "--grow",
      "of a Bloscpack file: make a larger table of offsets, or room for metadata, where it is full",
    )
    .option("--max-app-chunks <n>", 'room in the larger table (default: "10x")', parseCountOrFactor)
    .option("-m, --metadata <file>", "of a Bloscpack file: JSON file with new metadata")
    .option("--bytes", "take a .npy file as plain bytes, as blpk does")
    .option("--break-lock", "take the lock from whoever holds it")
    .addHelpText(
      "after",
      `
The compression options are for Bloscpack files; arrays say themselves how they
are compressed.

Examples:
  superchunk append log.blp more.txt
  superchunk append prices.bcolz today.npy
  superchunk append trades.bcolz id=ids.npy price=prices.npy`,
    );
  addBloscOptions(command, "that of the file").action((path: string, inputs: string[], flags: AppendFlags) =>
    append(path, inputs, flags, context),
  );
}

async function append(
  path: string,
  inputs: readonly string[],
  flags: AppendFlags,
  context: Context,
): Promise<void> {
  checkWritable(path);
  const archive = await open(path, { signal: context.signal });
  try {
    if (archive.kind === "table") return await appendRows(archive, path, inputs, flags, context);
    const [input] = inputs;
    if (input === undefined || inputs.length > 1) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        "one input is appended at a time, but for the columns of a table",
        {
          field: "input",
          expected: 1,
          found: inputs.length,
        },
      );
    }
    if (archive.dialect === "carray" && archive.kind === "array")
      return await appendToFolder(archive, path, input, flags, context);
    if (archive.dialect === "blz-superchunk") return await appendToRoot(archive, path, input, flags, context);
    await appendToFile(archive, path, input, flags, context);
  } finally {
    await archive.close();
  }
}

async function appendToFile(
  archive: Exclude<Archive, TableArchive>,
  path: string,
  name: string,
  flags: AppendFlags,
  context: Context,
): Promise<void> {
  const input = await openInput(name, flags.bytes === true || archive.kind === "bytes", context);
  const { metadata } = flags;
  const { npy } = input;
  await withLock(fileLock(path), flags.breakLock, () =>
    withStore(path, async (store, key) => {
      const result = await appendToBloscpack(store, key, input.pieces(), {
        ...bloscSettings(flags),
        inPlace: flags.inPlace,
        grow: flags.grow,
        maxAppChunks: flags.maxAppChunks,
        ...(metadata === undefined ? {} : { metadata: parseJsonInput(await readFile(metadata), metadata) }),
        ...(npy === undefined ? {} : { array: npy }),
        encoder: encoderOf(),
        signal: context.signal,
      });
      const { bytesAppended, chunksAdded, nbytes } = result;
      context.message(
        `${path}: ${formatSize(bytesAppended)} appended, ${formatPlural(chunksAdded, "new chunk")}, ${formatSize(nbytes)} now`,
      );
    }),
  );
}

async function appendToFolder(
  archive: ArrayArchive,
  path: string,
  name: string,
  flags: AppendFlags,
  context: Context,
): Promise<void> {
  refuseFileOptions(path, flags);
  const input = await openInput(name, flags.bytes === true, context);
  checkRows(input, archive.dtype, archive.shape.slice(1));
  await withLock(carrayLock(path), flags.breakLock, () =>
    withStore(path, async (store, key) => {
      const options = { encoder: encoderOf(), signal: context.signal };
      report(path, await appendToCarray(store, key, input.pieces(), options), context);
    }),
  );
}

/** An array of superchunks: it has a writer of its own, with its own lock. */
async function appendToRoot(
  archive: Exclude<Archive, TableArchive>,
  path: string,
  name: string,
  flags: AppendFlags,
  context: Context,
): Promise<void> {
  refuseFileOptions(path, flags);
  if (archive.kind === "bytes") {
    throw new SuperchunkError("UNSUPPORTED", "a superchunk alone is not appended to; append to its array", {
      path,
    });
  }
  const input = await openInput(name, flags.bytes === true, context);
  checkRows(input, archive.dtype, archive.shape.slice(1));
  const writer = await openWritable(path, { breakLock: flags.breakLock });
  try {
    await writer.append(input.pieces());
    await writer.flush();
  } catch (error) {
    await writer.abandon();
    throw error;
  }
  const rows = writer.shape[0] ?? 0;
  await writer.close();
  report(path, { rows, rowsAppended: rows - (archive.shape[0] ?? 0) }, context);
}

async function appendRows(
  table: TableArchive,
  path: string,
  inputs: readonly string[],
  flags: AppendFlags,
  context: Context,
): Promise<void> {
  refuseFileOptions(path, flags);
  const columns = new Map(table.names.map((name) => [name, table.column(name)]));
  const sources = await columnInputs(inputs, columns, flags.bytes === true, context);
  await withLock(tableLock(path), flags.breakLock, () =>
    withStore(path, async (store, key) => {
      const options = { encoder: encoderOf(), signal: context.signal };
      report(path, await appendToTable(store, key, sources, options), context);
    }),
  );
}

function report(path: string, result: { rows: number; rowsAppended: number }, context: Context): void {
  context.message(
    `${path}: ${formatPlural(result.rowsAppended, "row")} appended, ${formatPlural(result.rows, "row")} now`,
  );
}

/** Options that mean nothing to a folder must not be taken silently. */
function refuseFileOptions(path: string, flags: AppendFlags): void {
  const given = Object.entries(flags).find(
    ([name, value]) =>
      !["bytes", "breakLock"].includes(name) &&
      value !== undefined &&
      !(name === "shuffle" && value === true),
  );
  if (given === undefined) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the option for ${given[0]} is for Bloscpack files; an array says itself how it is written`,
    {
      path,
      field: given[0],
    },
  );
}
