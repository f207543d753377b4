/**
 * The way back: any archive, and any Zarr array, as `.npy`, Bloscpack, bcolz or superchunks.
 *
 * Chunks go over unchanged where the new format cuts the values as the source does. Each array is there as a whole, or not
 * at all. Knows which writer takes what; must not know how they write.
 */

import type { ArrayArchive, BytesArchive } from "../../archive/kinds/types.ts";
import { encodeHere } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";
import { hasEntries } from "../../store/entries.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import { typesizeOf } from "../../write/bcolz/carray-settings.ts";
import type { PlannedArray } from "../plan/convert-options.ts";
import { deleteTree } from "../run/destination.ts";
import {
  type BackArray,
  type BackColumn,
  type BackSource,
  type BackTable,
  describeBytes,
  describeColumn,
} from "../sources/source.ts";
import type { BackFormat, BackOptions, BackResult, BackRun } from "./back-types.ts";
import type { CopyingEncoder } from "./copying-encoder.ts";
import { verifyBack } from "./verify-back.ts";
import { noObjects, writeBloscpack, writeBloscpackBytes, writeNpy } from "./write-file.ts";
import {
  commonChunkLength,
  isCutByRows,
  writeCarray,
  writeCtable,
  writeStructs,
  writeSuperchunks,
} from "./write-folder.ts";

/** File extensions of the formats that are files. */
export const FILE_ENDINGS: Readonly<Record<"npy" | "bloscpack", string>> = { npy: ".npy", bloscpack: ".blp" };

/**
 * Converts a source into one file (`npy`, `bloscpack`) or folder (`bcolz`, `blz`) at `key`. A table becomes a folder of files,
 * a ctable, or an array of structs with a folder for each column. Where it fails nothing of it is left.
 *
 * @throws CONFLICT where something is there; UNSUPPORTED for what the format cannot hold; BAD_ARGUMENT; NO_SPACE, IO; the
 * codes of damage
 */
export async function convertBack(
  source: BackSource,
  target: WritableStore,
  key: string,
  format: BackFormat,
  options: BackOptions = {},
): Promise<BackResult> {
  const started = performance.now();
  const run = new Conversion(target, options);
  const pieces = await piecesOf(source, key, format, options);
  for (const piece of pieces) refuse(piece, format, options);
  await writeWhole(run, pieces, key, format);
  return { ...run.result(), seconds: (performance.now() - started) / 1000 };
}

/** Writes all pieces; of a table that becomes files nothing is left where one of them fails. */
async function writeWhole(
  run: Conversion,
  pieces: readonly Piece[],
  key: string,
  format: BackFormat,
): Promise<void> {
  const { target } = run;
  const isNew = pieces.length > 1 && !(await hasEntries(target, key));
  const written: string[] = [];
  try {
    for (const piece of pieces) {
      await run.write(piece, format);
      written.push(piece.key);
    }
  } catch (error) {
    // The first error is the one to tell. Files that were in the folder before stay.
    if (isNew) await deleteTree(target, key, new Set()).catch(() => undefined);
    else for (const each of written) await target.delete(each).catch(() => undefined);
    throw error;
  }
}

/** What {@link convertBack} would do, array by array, without writing. `node` is the key in the destination. */
export async function planBack(
  source: BackSource,
  key: string,
  format: BackFormat,
  options: BackOptions = {},
): Promise<PlannedArray[]> {
  const plans: PlannedArray[] = [];
  for (const piece of await piecesOf(source, key, format, options)) {
    const reason = whyRecoded(piece, format);
    const refusal = whyRefused(piece, format) ?? (options.recode === false ? reason : undefined);
    for (const column of piece.columns) {
      const { name, path, nbytes, shape, chunks } = column;
      const why = refusal ?? reason;
      plans.push({
        node: piece.table === undefined ? piece.key : joinKey(piece.key, name),
        source: path,
        action:
          refusal !== undefined
            ? "refuse"
            : nbytes === 0
              ? "empty"
              : reason !== undefined
                ? "recode"
                : "copy",
        ...(why === undefined ? {} : { reason: why }),
        nbytes,
        chunks: chunks?.nchunks ?? 0,
        shards: 0,
        shape,
        notes: [],
      });
    }
  }
  return plans;
}

/** What is written by one call of a writer: an array, or all columns of a table. */
interface Piece {
  readonly key: string;
  readonly columns: readonly BackColumn[];
  /** Set where the columns become one table. */
  readonly table?: BackTable | undefined;
  /** Set for plain bytes that stay such. */
  readonly bytes?: BytesArchive | undefined;
}

/** A source as what writers take. */
async function piecesOf(
  source: BackSource,
  key: string,
  format: BackFormat,
  options: BackOptions,
): Promise<Piece[]> {
  if (source.kind === "bytes") {
    const isPlain = options.dtype === undefined && options.shape === undefined;
    const column = await describeBytes(source, options);
    return [{ key, columns: [column], bytes: format === "bloscpack" && isPlain ? source : undefined }];
  }
  const isFolder = format === "bcolz" || format === "blz";
  const table =
    source.kind === "table" ? source : isFolder && hasColumns(source) ? tableOf(source) : undefined;
  if (table === undefined)
    return [{ key, columns: [await describeColumn("", source as ArrayArchive | BackArray)] }];
  const columns: BackColumn[] = [];
  for (const name of choose(table, options.columns))
    columns.push(await describeColumn(name, table.column(name)));
  if (isFolder) return [{ key, columns, table }];
  return columns.map((column) => ({
    key: joinKey(key, `${column.name}${FILE_ENDINGS[format]}`),
    columns: [column],
  }));
}

/** Rows whose fields are stored apart, which are a table in all but name. */
function hasColumns(source: ArrayArchive | BackArray): source is ArrayArchive {
  return "columnNames" in source && source.columnNames.length > 0 && source.shape.length === 1;
}

function tableOf(array: ArrayArchive): BackTable {
  const { store, path, attrs, columnNames } = array;
  return { kind: "table", store, path, attrs, names: columnNames, column: (name) => array.column(name) };
}

function choose(
  { names, store, path }: BackTable,
  columns: readonly string[] | undefined,
): readonly string[] {
  const unknown = columns?.find((column) => !names.includes(column));
  if (unknown === undefined) return names.filter((name) => columns?.includes(name) ?? true);
  throw new SuperchunkError("NOT_FOUND", `no column "${unknown}"; there are ${names.join(", ")}`, {
    path: store.describe(path),
    field: unknown,
  });
}

/** Why chunks are made anew, if they are. */
function whyRecoded({ columns, table }: Piece, format: BackFormat): string | undefined {
  if (format === "npy") return undefined;
  const column = columns.find(({ chunks }) => chunks === undefined);
  if (column !== undefined) return column.whyRecoded ?? "its chunks cannot be copied";
  if (format === "bloscpack") return undefined;
  if (!columns.every(isCutByRows)) return "its chunks are not rows in C order";
  for (const { dtype, settings } of format === "bcolz" ? columns : []) {
    const needed = typesizeOf(dtype);
    if (settings.typesize !== undefined && settings.typesize !== needed)
      return `its chunks are of elements of ${settings.typesize} bytes, by which bcolz would find wrong rows; it needs ${needed}`;
  }
  const isMixed = table !== undefined && format === "blz" && commonChunkLength(columns) === undefined;
  return isMixed ? "the chunks of its columns are of different lengths" : undefined;
}

function whyRefused({ columns, table }: Piece, format: BackFormat): string | undefined {
  const rows = new Set(columns.map(({ shape }) => shape[0]));
  if (table !== undefined && rows.size > 1)
    return `its columns are not of one length (${[...rows].join(", ")} rows), as those of a table are; convert each by itself`;
  for (const { dtype, shape } of columns) {
    if (dtype.kind === "object") return "Python objects are never read, nor written";
    if (shape.length === 0 && (format === "bcolz" || format === "blz"))
      return `an array without dimensions has no rows, as ${format === "blz" ? "superchunks" : "bcolz"} would have it; convert it to npy or bloscpack`;
    if (format !== "bcolz") continue;
    if (dtype.kind === "struct")
      return `bcolz opens no ${table === undefined ? "array" : "column"} of a structured dtype; convert it to blz, npy or bloscpack`;
    if (elementsOf(shape.slice(1)) * dtype.itemSize === 0)
      return "bcolz knows no rows without bytes; convert it to blz, npy or bloscpack";
  }
  return undefined;
}

/** Throws `UNSUPPORTED` before anything is written. */
function refuse(piece: Piece, format: BackFormat, { recode }: BackOptions): void {
  const path = piece.columns[0]?.path ?? "";
  const object = piece.columns.find(({ dtype }) => dtype.kind === "object");
  if (object !== undefined) throw noObjects(object.path);
  const refusal = whyRefused(piece, format);
  if (refusal !== undefined) throw new SuperchunkError("UNSUPPORTED", refusal, { path, field: "shape" });
  const reason = recode === false ? whyRecoded(piece, format) : undefined;
  if (reason !== undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its chunks cannot be copied, and nothing may be recoded: ${reason}`,
      { path },
    );
  }
}

/** The state of one conversion. */
class Conversion implements BackRun {
  readonly target: WritableStore;
  readonly options: BackOptions;
  readonly encoder: BackRun["encoder"];
  readonly #notes: string[] = [];
  readonly #counts = { arrays: 0, nbytes: 0, chunksCopied: 0, chunksRecoded: 0 };

  constructor(target: WritableStore, options: BackOptions) {
    this.target = target;
    this.options = options;
    this.encoder = options.encoder ?? encodeHere;
  }

  async write(piece: Piece, format: BackFormat): Promise<void> {
    const { key, columns, table, bytes } = piece;
    const [column] = columns;
    if (format === "bcolz" || format === "blz") {
      for (const { path, isFillInexact } of columns)
        if (isFillInexact) this.note(`${path}: the fill value becomes NaN, without its sign and payload`);
      await this.#inFolder(key, async () => {
        if (table !== undefined)
          await (format === "bcolz" ? writeCtable : writeStructs)(this, table, columns, key);
        else if (column !== undefined)
          await (format === "bcolz" ? writeCarray : writeSuperchunks)(this, column, key);
        await this.#verify(piece, format);
      });
      return;
    }
    if (column === undefined) return;
    if (format === "npy") await writeNpy(this, column, key);
    else if (bytes === undefined) await writeBloscpack(this, column, key);
    else await writeBloscpackBytes(this, bytes, column, key);
    try {
      await this.#verify(piece, format);
    } catch (error) {
      await this.target.delete(key).catch(() => undefined); // the first error is the one to tell
      throw error;
    }
  }

  async #verify({ key, columns, table }: Piece, format: BackFormat): Promise<void> {
    const { verify, signal } = this.options;
    if (verify !== true) return;
    for (const column of columns)
      await verifyBack(column, { target: this.target, key, format, isColumn: table !== undefined }, signal);
  }

  /** Makes a folder, which must be free, and leaves nothing of it where that fails. */
  async #inFolder(key: string, write: () => Promise<void>): Promise<void> {
    const names: string[] = [];
    for await (const { name } of this.target.list(key)) names.push(name);
    if (names.length > 0) {
      const path = this.target.describe(key);
      const isArchive = names.includes("meta") || names.includes("__rootdirs__");
      if (this.options.overwrite !== true || !isArchive) {
        throw new SuperchunkError(
          "CONFLICT",
          isArchive
            ? "the destination exists; overwrite (--overwrite) replaces it, or name another"
            : "the destination is a folder that holds something else; name another",
          { path },
        );
      }
      await deleteTree(this.target, key, new Set());
    }
    try {
      await write();
    } catch (error) {
      await deleteTree(this.target, key, new Set()).catch(() => undefined); // the first error is the one to tell
      throw error;
    }
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  count({ nbytes }: BackColumn, encoder: CopyingEncoder | undefined): void {
    this.#counts.arrays++;
    this.#counts.nbytes += nbytes;
    this.#counts.chunksCopied += encoder?.copied ?? 0;
    this.#counts.chunksRecoded += encoder?.recoded ?? 0;
  }

  async *watch(data: AsyncIterable<Uint8Array>, { nbytes, path }: BackColumn): AsyncGenerator<Uint8Array> {
    let done = 0;
    for await (const piece of data) {
      yield piece;
      done += piece.length;
      this.options.onProgress?.({ done, total: nbytes, label: path });
    }
  }

  result(): Omit<BackResult, "seconds"> {
    return { ...this.#counts, verified: this.options.verify === true, notes: this.#notes };
  }
}
