/** Making arrays and tables of bcolz: where nothing is yet, and leaving nothing where that fails. */

import { existsSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  type DType,
  type Field,
  type JsonValue,
  type Progress,
  SuperchunkError,
  type WritableStore,
} from "../../src/index.ts";
import { encoderOf, FileStore } from "../../src/node/index.ts";
import { storedTimes } from "../../src/values/time-value.ts";
import { defaultRowOf } from "../../src/write/bcolz/carray-settings.ts";
import { repeatRow } from "../../src/write/bcolz/carray-steps.ts";
import { type CarrayOptions, createCarray } from "../../src/write/bcolz/carray-write.ts";
import { createTable, type NewTableColumn } from "../../src/write/bcolz/table-write.ts";
import { clearPlace } from "../../src/write/layout/clear-place.ts";
import type { Context } from "../context.ts";
import { type CutFlags, cutSettings } from "../input/array-options.ts";
import type { Attribute } from "../input/attribute-text.ts";
import type { Input } from "../input/input.ts";
import { drawnRows, openRows, type RowsTarget } from "../input/rows-input.ts";
import { startProgress } from "../output/progress.ts";
import { columnInputs, rowBytesOf } from "./append-rows.ts";
import { carrayLock, tableLock, withLock } from "./writing.ts";

/** What is to be made, beside its rows. */
export interface ForeignFlags extends CutFlags {
  readonly dflt?: JsonValue;
  readonly expectedlen?: number;
  readonly attr?: readonly Attribute[];
  readonly overwrite?: boolean;
  /** `NAME=FILE` for each column of a table. */
  readonly column?: readonly string[];
}

/** Rows of one dtype. */
export interface ForeignRows {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  /** Rows that there have to be; undefined: as many as come. */
  readonly rows: number | undefined;
  readonly input: Input | undefined;
}

/** Makes a carray. */
export async function makeCarray(
  root: string,
  { dtype, rowShape, rows, input }: ForeignRows,
  flags: ForeignFlags,
  target: RowsTarget,
  context: Context,
): Promise<void> {
  refuseOwnOptions(flags, ["column"]);
  const dflt = storedTimes(dtype, flags.dflt ?? null);
  const options = { ...optionsOf(flags, context), ...(flags.dflt === undefined ? {} : { dflt }) };
  await makeAt(root, carrayLock(root), ["data", "__attrs__"], flags, async (store) => {
    const data =
      input === undefined
        ? repeatRow(defaultRowOf(dtype, rowShape, options.dflt ?? null), rows ?? 0)
        : drawnRows(input, target, context);
    const expectedlen = flags.expectedlen ?? rows;
    const bar = startProgress(context.io, "create", { name: root });
    const total = (rows ?? 0) * rowBytesOf(dtype, rowShape);
    const onProgress = ({ done }: Progress): void => bar.onProgress?.({ done, total });
    const long = input === undefined ? { onProgress } : {}; // rows that are read have a bar of their own
    const made = await createCarray(
      store,
      "",
      { dtype, rowShape, data },
      { ...options, ...long, expectedlen },
    ).finally(() => bar.finish());
    if (rows !== undefined && made.rows !== rows)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `there are ${made.rows} rows, but ${rows} were told; give --shape with the right number, or -1`,
        { path: input?.name ?? root, field: "shape", expected: rows, found: made.rows },
      );
  });
}

/** Makes a table: of a structured `.npy`, of a file for each column, or of default values. */
export async function makeTable(
  root: string,
  from: string | undefined,
  plan: ForeignRows | undefined,
  flags: ForeignFlags,
  context: Context,
): Promise<void> {
  refuseOwnOptions(flags, []);
  const fields = plan === undefined ? await fieldsOfFiles(flags.column ?? [], context) : fieldsOf(plan);
  const facts = new Map(fields.map(({ name, dtype, shape }) => [name, { dtype, shape: [0, ...shape] }]));
  const names = [...facts.keys()];
  const inputs = from === undefined ? (flags.column ?? []) : [from];
  const sources = inputs.length === 0 ? undefined : await columnInputs(inputs, facts, false, context);
  const { attrs, dflt, ...settings } = optionsOf(flags, context);
  const rows = plan?.rows ?? sources?.rows() ?? 0;
  const bar = startProgress(context.io, "create", { name: root });
  const total = rows * fields.reduce((sum, { dtype, shape }) => sum + rowBytesOf(dtype, shape), 0);
  let done = 0;
  const onBytes = (bytes: number): void => {
    done += bytes;
    bar.onProgress?.({ done, total });
  };
  const defaults = Array.isArray(dflt) ? dflt : [];
  const columns: NewTableColumn[] = fields.map(({ name, dtype, shape }, i) => {
    const own = storedTimes(dtype, (defaults[i] as JsonValue | undefined) ?? null);
    const data = sources?.data[name] ?? counted(repeatRow(defaultRowOf(dtype, shape, own), rows), onBytes);
    return { name, dtype, rowShape: shape, data, options: { dflt: own } };
  });
  const expectedlen = flags.expectedlen ?? rows;
  try {
    await makeAt(root, tableLock(root), ["__rootdirs__", "__attrs__", ...names], flags, async (store) => {
      await createTable(store, "", columns, { ...settings, attrs, expectedlen });
    });
  } finally {
    bar.finish();
    sources?.finish();
  }
}

/** The same pieces; tells of each once the next is asked for. */
function* counted(pieces: Iterable<Uint8Array>, onBytes: (bytes: number) => void): Generator<Uint8Array> {
  for (const piece of pieces) {
    yield piece;
    onBytes(piece.length);
  }
}

/** Works in a place that is free or made so; what was not there before is removed where the work fails. */
async function makeAt(
  root: string,
  lock: string,
  names: readonly string[],
  { overwrite }: ForeignFlags,
  work: (store: WritableStore) => Promise<void>,
): Promise<void> {
  const hadRoot = existsSync(root);
  const hadMeta = existsSync(join(root, "meta"));
  const store = new FileStore(resolve(root));
  try {
    await withLock(lock, undefined, async () => {
      await clearPlace(store, "", overwrite === true);
      const own = names.filter((name) => !existsSync(join(root, name)));
      try {
        await work(store);
      } catch (error) {
        for (const name of own) await rm(join(root, name), { recursive: true, force: true });
        for (const name of ["sizes", "storage"]) await rm(join(root, "meta", name), { force: true });
        throw error;
      }
    });
  } catch (error) {
    // With files of others in them, the folders stay.
    if (!hadMeta) await rmdir(join(root, "meta")).catch(() => undefined);
    if (!hadRoot) await rmdir(root).catch(() => undefined);
    throw error;
  } finally {
    await store.close();
  }
}

function optionsOf(flags: ForeignFlags, { signal }: Context): CarrayOptions {
  const { chunklen, cparams } = cutSettings(flags);
  const { dflt, attr = [] } = flags;
  return { cparams, chunklen, dflt, attrs: Object.fromEntries(attr), encoder: encoderOf(), signal };
}

function fieldsOf({ dtype, rowShape }: ForeignRows): readonly Field[] {
  if (dtype.kind === "struct" && rowShape.length === 0) return dtype.fields;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "a table is made of a structured dtype with one dimension, or of --column NAME=FILE for each column",
    { field: "dtype" },
  );
}

/** What the files for columns hold. */
async function fieldsOfFiles(columns: readonly string[], context: Context): Promise<readonly Field[]> {
  const fields: Field[] = [];
  for (const text of columns) {
    const at = text.indexOf("=");
    const { npy, name } = await openRows(text.slice(at + 1), false, context);
    if (at < 1 || npy === undefined || npy.shape.length === 0)
      throw new SuperchunkError("BAD_ARGUMENT", `"${text}" is not NAME=FILE with a .npy file for a column`, {
        path: name,
        field: "column",
      });
    fields.push({ name: text.slice(0, at), dtype: npy.dtype, shape: npy.shape.slice(1), offset: 0 });
  }
  return fields;
}

/** Options that bcolz has no word for must not be taken silently. */
function refuseOwnOptions(flags: ForeignFlags, more: readonly string[]): void {
  const given = Object.entries({ ...flags, columns: undefined }).find(
    ([name, value]) =>
      ["superchunklen", "checksum", "reserve", ...more].includes(name) && value !== undefined,
  );
  if (given === undefined) return;
  throw new SuperchunkError("BAD_ARGUMENT", `the option for ${given[0]} means nothing to what is made`, {
    field: given[0],
  });
}
