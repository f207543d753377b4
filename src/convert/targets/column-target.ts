/**
 * What all formats of one array or one table share: each source becomes its own files or folder.
 *
 * A format says what it can hold, writes it, and reads it back for the comparison; everything else is here and in the runner.
 * `npy.ts` shows how little a format needs.
 */
import type { ArrayArchive, BytesArchive } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { at } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { walkKeys } from "../../store/tree.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { ZarrGroup } from "../../zarr/read/group.ts";
import type {
  ArrayRun,
  ChunkRun,
  ColumnArray,
  ColumnTable,
  ConversionPlan,
  ConvertFormat,
  ConvertOptions,
  OpenedSource,
  PlannedArray,
  SourceRun,
  Target,
  TargetPlace,
  Task,
  TaskContext,
} from "../pipeline.ts";
import { compareStreams, compareValues } from "../run/compare.ts";
import { conflict, EXISTS, emptyDestination, entryNames, isMark } from "../run/destination.ts";
import { type Column, describeBytes, describeColumn, isNothing } from "../sources/columns.ts";
import { CopyingEncoder } from "../sources/offered-chunks.ts";
import { chooseColumns, warningsOf } from "../sources/source-array.ts";

/** What one task writes: an array, or all columns of a table. */
export interface Piece {
  /** Key of the file or folder. */
  readonly key: string;
  readonly columns: readonly Column[];
  /** Set if the columns become one table. */
  readonly table?: ColumnTable | undefined;
  /** For zipline's minute bars: how many units a price of 1 is, if the bundle says. */
  readonly priceScale?: number | undefined;
  /** What the user should know of it. */
  readonly note?: string;
  /** Set for plain bytes that stay plain bytes. */
  readonly bytes?: BytesArchive | undefined;
}

/** What a format needs to write. */
export interface PieceContext extends TaskContext {
  readonly options: ConvertOptions;
  /** Passes the bytes through and reports progress. */
  watch(data: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** An encoder that returns the source's chunks when the writer asks for the same bytes; its counts are added to the result. */
  copying(settings?: { readonly needsTypesize: boolean }): CopyingEncoder;
}

/** What a format needs to compare. */
export interface CompareContext {
  readonly store: ReadableStore;
  readonly options: ConvertOptions;
  readonly signal: AbortSignal | undefined;
}

/** A format with a file for each array, or a folder for each array or table. */
export interface ColumnFormat {
  readonly format: ConvertFormat;
  /** Extension of its files; undefined if it makes folders, where a table is one folder. */
  readonly ending?: string;
  /** True if plain bytes can stay plain bytes. */
  readonly holdsBytes?: boolean;
  /** True for files that hold whole tables. */
  readonly holdsTables?: boolean;
  /** Further options that decide the result, as the record stores them. */
  settings?(options: ConvertOptions): JsonObject;
  /** Turns a table into pieces: with additional columns, or in parts. Default: one piece. */
  arrange?(piece: Piece, options: ConvertOptions): Promise<readonly Piece[]>;
  /** Treatment of a column, why, and notes that writing it will give. Default: from `whyRecoded` of its piece. */
  describe?(
    column: Column,
    piece: Piece,
    options: ConvertOptions,
  ): {
    readonly action?: "restream" | "recode";
    readonly reason?: string;
    readonly notes?: readonly string[];
  };
  /** What the user should know before a piece is written. */
  notes?(piece: Piece): readonly string[];
  /** Treatment of each run of a column's chunks, by their headers; undefined if `describe` says all. */
  describeRuns?(
    column: Column,
    piece: Piece,
    options: ConvertOptions,
  ): Promise<readonly ChunkRun[] | undefined>;
  /** True for a path, in its folder, of a file that holds a part of a table or an array. */
  isPart?(path: string): boolean;
  /** The folders of a piece. Default: its own key. */
  folders?(piece: Piece): readonly string[];
  /** True for documents of its folders. */
  isDocument?(key: string): boolean;
  /** Why it cannot hold a piece. Arrays of Python objects are refused for all formats. */
  whyRefused?(piece: Piece): string | undefined;
  /** Why chunks are recoded; undefined if they are copied, or the format has no chunks. */
  whyRecoded(piece: Piece): string | undefined;
  /**
   * Cuts a piece into tasks with objects of their own. Then `write` writes those of one task, always with the same bytes and over what is
   * there, and `conclude` makes the documents. Default: one task.
   */
  tasks?(piece: Piece, options: ConvertOptions): Iterable<Task>;
  conclude?(piece: Piece, context: PieceContext): Promise<void>;
  write(piece: Piece, context: PieceContext, part: Task["part"]): Promise<void>;
  /** Compares the values of a piece with its source; then `read` is not used. */
  compare?(piece: Piece, context: CompareContext): Promise<void>;
  /** The values of a written piece. Default: opens it as an archive. */
  read?(piece: Piece, store: ReadableStore, signal: AbortSignal | undefined): AsyncIterable<Uint8Array>;
}

export function columnTarget(format: ColumnFormat): Target {
  return {
    format: format.format,
    isHierarchy: false,
    ending: format.ending,
    settings: (options) => ({
      to: format.format,
      columns: options.columns ?? null,
      dtype: options.dtype === undefined ? null : formatDType(options.dtype),
      shape: options.shape ?? null,
      recode: options.recode ?? true,
      ...format.settings?.(options),
    }),
    isDocument: (key) => format.isDocument?.(key) === true,
    plan: (source, place, options) => planPieces(format, source, place, options),
  };
}

async function planPieces(
  format: ColumnFormat,
  source: OpenedSource,
  { key, node }: TargetPlace,
  options: ConvertOptions,
): Promise<SourceRun> {
  const pieces = await arrangedPieces(format, source, { key, node }, options);
  const refused = pieces.map((piece) => refusalOf(format, piece, options));
  const arrays = pieces.flatMap((piece, i) => describePiece(format, piece, refused[i], options));
  const path = "store" in source ? source.store.describe(source.path) : "";
  const counted = new Set<string>();
  const plan: ConversionPlan = {
    source: path,
    kind: source.kind === "table" || pieces.some(({ table }) => table !== undefined) ? "group" : "array",
    arrays,
    groups: [],
    renamed: [],
    nbytes: arrays.reduce((sum, { nbytes }) => sum + nbytes, 0),
  };
  return {
    plan,
    detailed: async () => ({ ...plan, arrays: await detailedArrays(format, pieces, arrays, options) }),
    arrays: pieces.map((piece) => pieceRun(format, piece, countNew(piece.columns, counted), options)),
    refusal: refused.find((error) => error !== undefined),
    failed: [],
    notes: [
      ...warningsOf(source, options.columns),
      ...(source.kind === "table" &&
      !pieces.some(({ table }) => table) &&
      Object.keys(source.attrs).length > 0
        ? [`${path}: attributes of the table are not carried over: each of its columns becomes a file`]
        : []),
      ...new Set(pieces.flatMap((piece) => format.notes?.(piece) ?? [])),
    ],
    skipsFailed: false,
    fingerprint: async () => ({ path, arrays: arrays.map(({ shape, nbytes }) => [shape ?? [], nbytes]) }),
    claim: (store) => claim(format, pieces, key, store, options),
    folders: () => pieces.flatMap((piece) => format.folders?.(piece) ?? [piece.key]),
    groups: () => [],
    described: () => [],
  };
}

async function arrangedPieces(
  format: ColumnFormat,
  source: OpenedSource,
  place: Pick<TargetPlace, "key" | "node">,
  options: ConvertOptions,
): Promise<Piece[]> {
  const arranged: Piece[] = [];
  for (const piece of await piecesOf(format, source, place, options))
    arranged.push(...((await format.arrange?.(piece, options)) ?? [piece]));
  return arranged;
}

async function piecesOf(
  { format, ending, holdsBytes, holdsTables = ending === undefined }: ColumnFormat,
  source: OpenedSource,
  { key, node }: Pick<TargetPlace, "key" | "node">,
  options: ConvertOptions,
): Promise<Piece[]> {
  if (source.kind === "joined" || source instanceof ZarrGroup)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "archives are joined in Zarr only; convert them to Zarr first, and the result to this format",
      { field: "concat" },
    );
  const own = ending === undefined || node === "" ? key : `${key}${ending}`;
  if (source.kind === "bytes") {
    const isPlain = options.dtype === undefined && options.shape === undefined;
    const bytes = holdsBytes === true && isPlain ? source : undefined;
    return [{ key: own, columns: [await describeBytes(source, options)], bytes }];
  }
  const table = source.kind === "table" ? source : holdsTables ? tableIn(source) : undefined;
  if (holdsTables && ending !== undefined && "shape" in source && source.shape.length === 0)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it is one value without dimensions, and tables have rows; convert it to .npy or Zarr",
      { path: source.store.describe(source.path), field: "shape", found: [] },
    );
  if (table === undefined) {
    const array = source as ArrayArchive | ColumnArray;
    const dtype = holdsTables ? chosenFields(array, options) : array.dtype;
    return [{ key: own, columns: [{ ...(await describeColumn("", array)), dtype }] }];
  }
  const columns: Column[] = [];
  for (const name of chooseColumns(table, table.names, options.columns))
    columns.push(await describeColumn(name, table.column(name)));
  if (holdsTables) return [{ key: own, columns, table }];
  if (node === "" && ending !== undefined && key.endsWith(ending)) {
    if (columns.length === 1) return [{ key, columns }];
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `it has ${columns.length} columns, and a file ${ending} holds one array: take one of them with {columns}, or name a folder, without ${ending}, and the format, {to: "${format}"}`,
      { path: source.store.describe(source.path), field: "dst" },
    );
  }
  const named = (name: string): string => (ending && name.endsWith(ending) ? name : `${name}${ending}`);
  return columns.map((column) => ({ key: joinKey(key, named(column.name)), columns: [column] }));
}

/** An archive as the piece for one file of a format. @throws what planning its conversion refuses */
export async function pieceOf(
  format: ColumnFormat,
  source: OpenedSource,
  options: ConvertOptions,
): Promise<Piece> {
  const [piece, ...others] = await arrangedPieces(format, source, { key: "", node: "" }, options);
  if (piece === undefined || others.length > 0) throw new RangeError("a table is one file of this format");
  const refusal = refusalOf(format, piece, options);
  if (refusal !== undefined) throw refusal;
  return piece;
}

/** Rows whose fields are stored apart, which are a table in all but name. */
function tableIn(source: ArrayArchive | ColumnArray | ZarrArray): ColumnTable | undefined {
  if (!("columnNames" in source) || source.columnNames.length === 0 || source.shape.length !== 1)
    return undefined;
  const { store, path, attrs, columnNames: names } = source;
  return { kind: "table", store, path, attrs, names, column: (name) => source.column(name) };
}

/** The dtype of an array; of structs, whose fields become columns, with the requested fields alone. */
function chosenFields(array: ArrayArchive | ColumnArray, { columns }: ConvertOptions): DType {
  const { dtype } = array;
  if (columns === undefined || dtype.kind !== "struct") return dtype;
  const own = dtype.fields.map(({ name }) => name);
  const names = chooseColumns(array, own, columns);
  return { ...dtype, fields: dtype.fields.filter(({ name }) => names.includes(name)) };
}

function refusalOf(format: ColumnFormat, piece: Piece, options: ConvertOptions): SuperchunkError | undefined {
  const { columns, table } = piece;
  const object = columns.find(({ dtype }) => dtype.kind === "object");
  if (object !== undefined) return noObjects(object.path);
  const path = columns[0]?.path ?? table?.store.describe(table.path) ?? "";
  const rows = new Set(columns.map(({ shape }) => shape[0]));
  const refusal =
    table !== undefined && rows.size > 1
      ? `its columns have different lengths (${[...rows].join(", ")} rows), but those of a table have one; convert each by itself`
      : format.whyRefused?.(piece);
  if (refusal !== undefined) return new SuperchunkError("UNSUPPORTED", refusal, { path, field: "shape" });
  if (options.recode !== false) return undefined;
  const described = columns.map((column) => format.describe?.(column, piece, options));
  const first = described.findIndex((each) => each?.action === "recode");
  const whole = format.whyRecoded(piece);
  const reason = whole ?? described[first]?.reason;
  if (reason === undefined) return undefined;
  return new SuperchunkError(
    "UNSUPPORTED",
    `its chunks cannot be copied, and recoding is not allowed: ${reason}`,
    { path: (whole === undefined ? columns[first]?.path : undefined) ?? path },
  );
}

export function noObjects(path: string): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", "Python objects are never read or written", {
    path,
    field: "dtype",
  });
}

function describePiece(
  format: ColumnFormat,
  piece: Piece,
  refusal: SuperchunkError | undefined,
  options: ConvertOptions,
): PlannedArray[] {
  const recoded = format.whyRecoded(piece);
  const ofPiece =
    refusal === undefined ? recoded : (format.whyRefused?.(piece) ?? recoded ?? refusal.summary);
  return piece.columns.map((column) => {
    const { name, path, nbytes, shape, chunks } = column;
    const described = refusal === undefined ? format.describe?.(column, piece, options) : undefined;
    const reason = described === undefined ? ofPiece : described.reason;
    const count = chunks?.stored.nchunks ?? 0;
    const done = described?.action ?? (reason === undefined ? "copy" : "recode");
    const action = refusal !== undefined ? "refuse" : nbytes === 0 ? "empty" : done;
    const run: ChunkRun = { first: 0, count, action: done, ...(reason === undefined ? {} : { reason }) };
    return {
      // Not joined as a key: files may have columns of any name.
      node:
        piece.table === undefined ? piece.key : [...(piece.key === "" ? [] : [piece.key]), name].join("/"),
      source: path,
      action,
      ...(refusal === undefined ? {} : { code: refusal.code }),
      ...(reason === undefined ? {} : { reason }),
      nbytes,
      chunks: count,
      shards: 0,
      shape,
      ...(count > 0 && refusal === undefined ? { runs: [run] } : {}),
      notes: described?.notes ?? [],
    };
  });
}

/** The planned arrays with what happens to each of their chunks. */
async function detailedArrays(
  format: ColumnFormat,
  pieces: readonly Piece[],
  arrays: readonly PlannedArray[],
  options: ConvertOptions,
): Promise<PlannedArray[]> {
  const columns = pieces.flatMap((piece) => piece.columns.map((column) => ({ column, piece })));
  const detailed: PlannedArray[] = [];
  for (const [i, array] of arrays.entries()) {
    const { column, piece } = at(columns, i);
    const runs = array.runs && (await format.describeRuns?.(column, piece, options));
    const [first] = runs ?? [];
    const { reason: usual, ...rest } = array;
    const reason = runs?.find((run) => run.reason !== undefined)?.reason;
    const action = runs?.some((run) => run.action !== first?.action) === true ? "mixed" : first?.action;
    if (runs === undefined || action === undefined) detailed.push(array);
    else detailed.push({ ...rest, action, ...(reason === undefined ? {} : { reason }), runs });
  }
  return detailed;
}

/**
 * Empties the place of a folder format if that is allowed, else throws `CONFLICT`. Returns a folder of files that does not exist yet.
 */
async function claim(
  { ending, isPart }: ColumnFormat,
  pieces: readonly Piece[],
  key: string,
  store: WritableStore,
  { overwrite, resume }: ConvertOptions,
): Promise<readonly string[]> {
  if (ending !== undefined) {
    const isFolder = (path: string): boolean => pieces.some((each) => each.key.startsWith(`${path}/`));
    const folder = [key, `${key}${ending}`].find(isFolder);
    if (folder === undefined) return [];
    if (!(await isTaken(store, folder))) return [folder];
    // Readers would take parts of an earlier result for parts of this one.
    const old: string[] = [];
    for await (const path of walkKeys(store, folder))
      if (isPart?.(path.slice(folder.length + 1)) === true) old.push(path);
    if (overwrite === true) for (const path of old) await store.delete(path);
    else if (old[0] !== undefined)
      throw conflict(
        store.describe(old[0]),
        "the folder has files of an earlier conversion; replace them with {overwrite: true}, or choose another",
        "overwrite",
      );
    return [];
  }
  const names = await entryNames(store, key);
  if (names.length === 0) return [];
  const isArchive = names.includes("meta") || names.includes("__rootdirs__");
  const isMarked = names.some(isMark);
  if (overwrite === true ? !isArchive && !isMarked : resume !== true || !isMarked)
    throw conflict(
      store.describe(key),
      isArchive ? EXISTS : "the destination is a folder that holds something else; choose another",
      isArchive ? "overwrite" : undefined,
    );
  return [await emptyDestination(store, key)];
}

/** Counts columns once, however many pieces they are cut into. */
function countNew(columns: readonly Column[], counted: Set<string>): number {
  const before = counted.size;
  for (const { path } of columns) counted.add(path);
  return counted.size - before;
}

function pieceRun(format: ColumnFormat, piece: Piece, arrays: number, options: ConvertOptions): ArrayRun {
  const { key, columns, table } = piece;
  const nbytes = columns.reduce((sum, column) => sum + column.nbytes, 0);
  return {
    node: "",
    path: columns[0]?.path ?? "",
    arrays,
    nbytes,
    notes: [],
    root: key,
    keepsTasks: false,
    documents: [],
    tasks: () => format.tasks?.(piece, options) ?? [{ key, part: [0], nbytes }],
    async run({ part }, context) {
      const encoders: CopyingEncoder[] = [];
      await format.write(piece, pieceContext(context, options, encoders), part);
      if (piece.note !== undefined) context.note(piece.note);
      for (const { copied, recoded } of encoders) {
        context.counts.copied += copied;
        context.counts.recoded += recoded;
      }
      return true;
    },
    ...(format.conclude === undefined
      ? {}
      : {
          async conclude(context) {
            for (const { path, isFillInexact } of columns)
              if (isFillInexact)
                context.note(`${path}: the fill value becomes NaN, without its sign and payload`);
            await format.conclude?.(piece, pieceContext(context, options, []));
          },
        }),
    async compare(store, signal) {
      if (format.compare !== undefined) return format.compare(piece, { store, options, signal });
      if (format.read !== undefined) {
        for (const column of columns)
          await compareStreams(column, format.read(piece, store, signal), store.describe(key), signal);
        return;
      }
      const opened = await open(store, key, { signal });
      for (const column of columns) {
        const found = table !== undefined && opened.kind !== "bytes" ? opened.column(column.name) : opened;
        if (found.kind === "array") await compareValues(column, found, store.describe(key), signal);
        else if (found.kind === "bytes")
          await compareStreams(column, found.streamBytes({ signal }), store.describe(key), signal);
      }
    },
  };
}

/** `encoders` gets those that copy chunks. */
function pieceContext(
  context: TaskContext,
  options: ConvertOptions,
  encoders: CopyingEncoder[],
): PieceContext {
  return {
    ...context,
    options: { ...options, signal: context.signal },
    copying(settings) {
      const encoder = new CopyingEncoder(context.encoder, settings);
      encoders.push(encoder);
      return encoder;
    },
    async *watch(data) {
      for await (const bytes of data) {
        yield bytes;
        context.advance(bytes.length);
      }
    },
  };
}

/** Notes what a file format cannot store. */
export function noteLost(
  { note }: TaskContext,
  { path, attrs, fillValue }: Column,
  format: { readonly name: string; readonly holdsAttributes: boolean },
): void {
  const lost = [
    ...(!format.holdsAttributes && Object.keys(attrs).length > 0 ? ["attributes"] : []),
    ...(isNothing(fillValue) ? [] : ["the fill value"]),
  ];
  if (lost.length > 0)
    note(
      `${path}: ${lost.join(" and ")} ${lost[0] === "attributes" ? "are" : "is"} not carried over: ${format.name} has no place for it`,
    );
}
