/** Appending rows to arrays and tables that are folders. */

import { type ArrayArchive, SuperchunkError, type TableArchive } from "../../src/index.ts";
import type { PublishPolicy, StreamCarrier } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { drawnRows, openAppendedRows, openTableRows, tellCarried } from "../input/rows-input.ts";
import { formatPlural } from "../input/units.ts";
import { lengthOf } from "./append-file.ts";
import { checkRows, columnInputs, rowBytesOf } from "./append-rows.ts";
import { withRoot } from "./writable-root.ts";

/** Options of an append to a folder. */
export interface FolderFlags {
  readonly bytes?: boolean;
  readonly breakLock?: boolean;
  /** Of an array of superchunks: when rows of a stream become visible. */
  readonly publish?: PublishPolicy;
  /** Of an array of superchunks: others append at the same time. */
  readonly shared?: boolean;
  /** Seconds. */
  readonly lease?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** Appends the rows of an input to an array. */
export async function appendToArray(
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
  // Rows without bytes are counted by the header alone.
  const empty = rowBytes === 0 ? (input.npy?.shape[0] ?? 0) : 0;
  let rows: number;
  let taken = 0;
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const piece of source) {
      taken += piece.length;
      yield piece;
    }
  };
  if (flags.dryRun === true) rows = before + (rowBytes === 0 ? empty : lengthOf(input) / rowBytes);
  // The Zarr view shows what is flushed: flushes come in time by themselves.
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
        else for await (const _ of source);
        if (empty > 0) await array.resize(array.length + empty);
        await array.flush();
        return array.length;
      },
    );
  // Others may have appended too.
  await report(
    path,
    rows,
    shared === true && rowBytes > 0 ? rows - taken / rowBytes : before,
    flags,
    context,
  );
  tellAppended(carrier, flags, context);
}

/** Appends rows to a table: of one structured `.npy`, or of a file for each column. */
export async function appendToColumns(
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
    const rows =
      flags.dryRun === true
        ? table.length + sources.rows()
        : await withRoot(path, { breakLock: flags.breakLock, ...encoding }, context, async (edited) => {
            await edited.append(sources.data, { signal: context.signal });
            return edited.length;
          });
    await report(path, rows, table.length, flags, context);
    tellAppended(carrier, flags, context);
  } finally {
    sources.finish();
  }
}

function tellAppended(carrier: StreamCarrier | undefined, flags: FolderFlags, context: Context): void {
  if (flags.dryRun !== true && flags.json !== true && (carrier?.encoder.copied ?? 0) > 0)
    tellCarried(carrier, context);
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
  if (flags.json === true) return context.json({ path, dryRun, rowsBefore, rowsAppended, rows });
  context.message(
    dryRun
      ? `${path}: ${formatPlural(rowsAppended, "row")} would be appended, ${formatPlural(rows, "row")} then`
      : `${path}: ${formatPlural(rowsAppended, "row")} appended, ${formatPlural(rows, "row")} now`,
  );
}

/** Options that mean nothing to a folder must not be taken silently. Throws `BAD_ARGUMENT`. */
export function refuseFileOptions(path: string, flags: object): void {
  const common = ["allow", "bytes", "breakLock", "dryRun", "json"];
  for (const name of ["publish", "shared", "lease"] as const)
    if ((flags as FolderFlags)[name] !== undefined)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `--${name} is for arrays of superchunks; other archives have one writer, and show their rows at the end`,
        { path, field: name },
      );
  const given = Object.entries(flags).find(
    ([name, value]) =>
      !common.includes(name) && value !== undefined && !(name === "shuffle" && value === true),
  );
  if (given === undefined) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the option for ${given[0]} is for Bloscpack files; an array stores its own options`,
    { path, field: given[0] },
  );
}
