/** `superchunk chunks`: lists the place and compression of every chunk of an archive. */

import {
  type AbsentChunk,
  type BytesArchive,
  type LongOptions,
  type ReadableArray,
  type ReadableChunk,
  SuperchunkError,
} from "../../src/index.ts";
import type { Command, Context, Switches } from "../context.ts";
import { exitCodeOf, inCommandWords, stateOf, toJsonFailure, wrongUse } from "../failure.ts";
import { columnNamesOf, noColumns, type Subject } from "../input/opening.ts";
import {
  archivesUnder,
  isInIndex,
  type LeftOut,
  NOT_LISTED,
  noteLeftOut,
  unfinishedText,
} from "../input/tree.ts";
import { ratioOf } from "../input/units.ts";
import { ChunkTable } from "../output/chunk-table.ts";
import { JsonArray } from "../output/output.ts";
import { printable } from "../values/cell-text.ts";

interface ChunksOptions extends Switches<"missing" | "map" | "json"> {
  readonly allow?: readonly string[];
  readonly column?: string;
}

export function addChunks(program: Command, context: Context): void {
  program
    .command("chunks")
    .description("list every chunk: file, offset, bytes, ratio, codec, checksum; no values are read")
    .argument("<path>", "file, folder or URL of an archive or a Zarr array, or a folder of many")
    .option("--column <name>", "one column of a table, or one array of a group (default: all of them)")
    .option(
      "--missing",
      "list instead the chunks that do not exist; they read as the fill value. In an archive a missing chunk is damage, and an error",
    )
    .option(
      "--map",
      "print instead one character per chunk, dark if it compressed little; damaged chunks are marked",
    )
    .addAllowOption()
    .option("--json", "print a JSON array, one chunk per line")
    .notes(`
Examples:
  superchunk chunks prices.blp
  superchunk chunks daily_equities.bcolz --column close --json
  superchunk chunks daily_equities.bcolz --column volume --map
  superchunk chunks bundle.zarr --missing`)
    .action(async (path: string, options: ChunksOptions) => {
      if (options.map === true && (options.json === true || options.missing === true))
        throw wrongUse("map", "--map is for people: give it without --json and --missing");
      const list = options.json === true ? new JsonArray(context.out) : undefined;
      let isEmpty = true;
      const shades = new Set<string>();
      for await (const part of partsUnder(path, options, context)) {
        isEmpty = false;
        try {
          if (list === undefined) await printLines(part, options, shades, context);
          else await printJson(list, part, options, context);
        } catch (error) {
          if (!(error instanceof SuperchunkError)) throw error;
          if (part.path === undefined) {
            await list?.end(); // prints what was listed so far, as complete JSON
            throw error;
          }
          context.note(exitCodeOf(error));
          await (list === undefined
            ? context.out.line(
                `${stateOf(error)}  ${error.code}: ${printable(inCommandWords(error.message))}`,
              )
            : list.add({ ...partMembers(part), error: toJsonFailure(error) }));
        }
      }
      if (isEmpty && list === undefined) await context.out.line("no chunks");
      if (shades.size > 0) await context.out.drawing([legendOf(shades)]);
      await list?.end();
    });
}

/** An array with chunks, and its name if there are several. */
interface Part {
  readonly path: string | undefined;
  readonly column: string | undefined;
  readonly archive: BytesArchive | ReadableArray | undefined;
  readonly error?: SuperchunkError;
}

/** All arrays at or under a path. One that cannot be opened is noted, and the others are still listed. */
async function* partsUnder(
  path: string,
  { column, allow }: ChunksOptions,
  context: Context,
): AsyncGenerator<Part> {
  const leftOut: LeftOut = { packed: [], indexes: [] };
  for await (const named of archivesUnder(path, { signal: context.signal, allow })) {
    if (isInIndex(named, leftOut)) continue;
    if (named.unfinished !== undefined) {
      context.message(`${named.path}: ${unfinishedText(named.path, named.unfinished)}`);
      continue;
    }
    // The group's arrays follow it, unless a column was named.
    if (named.group !== undefined && column === undefined) continue;
    const name = named.path === path ? undefined : named.path;
    let archive: Subject;
    try {
      archive = await named.open({
        signal: context.signal,
        columns: column === undefined ? undefined : [column],
      });
    } catch (error) {
      if (name === undefined || !(error instanceof SuperchunkError)) throw error;
      yield { path: name, column: undefined, archive: undefined, error };
      continue;
    }
    try {
      for (const part of partsOf(archive, column)) yield { path: name, ...part };
    } finally {
      await archive.close();
    }
    if (named.group !== undefined) return;
  }
  await noteLeftOut(leftOut, NOT_LISTED, context);
}

/** The archive itself, or its columns, which have the chunks. Throws `BAD_ARGUMENT` for a column of an archive without columns. */
function partsOf(archive: Subject, column: string | undefined): Omit<Part, "path">[] {
  const names = columnNamesOf(archive);
  if (archive.kind === "bytes" || (archive.kind === "array" && names.length === 0)) {
    if (column !== undefined) throw noColumns(archive);
    return [{ column: undefined, archive }];
  }
  const chosen = column === undefined ? names : [column];
  return chosen.flatMap((name) => columnParts(name, archive.column(name)));
}

/** A column, or the columns of a nested one. */
function columnParts(name: string, archive: ReadableArray): Omit<Part, "path">[] {
  if (archive.columnNames.length === 0) return [{ column: name, archive }];
  return archive.columnNames.flatMap((inner) => columnParts(`${name}/${inner}`, archive.column(inner)));
}

/**
 * The chunks that do not exist and read as the fill value. In an archive a missing file is damage: all chunks are checked,
 * and the first missing one is the error.
 */
async function* missingOf(
  archive: BytesArchive | ReadableArray,
  options: LongOptions,
): AsyncGenerator<AbsentChunk> {
  if (archive.kind === "array" && archive.listMissing !== undefined)
    return yield* archive.listMissing(options);
  for await (const _ of archive.listChunks(options));
}

async function printJson(
  list: JsonArray,
  part: Part,
  options: ChunksOptions,
  context: Context,
): Promise<void> {
  const { signal } = context;
  const { archive, error } = part;
  const named = partMembers(part);
  if (archive === undefined) throw error;
  if (options.missing === true) {
    for await (const { index, key, slot, start, shape } of missingOf(archive, { signal }))
      await list.add({ ...named, index, file: key, start, shape, slot });
    return;
  }
  for await (const chunk of listed(archive, { signal })) {
    const waiting = list.add({ ...named, ...chunkFacts(chunk) });
    if (waiting !== undefined) await waiting;
  }
}

/** The chunks, with their places in the files that hold them. If an object is not in the archive's folder, its address replaces its key. */
async function* listed(
  archive: BytesArchive | ReadableArray,
  options: LongOptions & { readonly first?: number; readonly end?: number },
): AsyncGenerator<ReadableChunk> {
  const { store } = archive;
  for await (const chunk of archive.listChunks(options)) {
    const { key, slot, address }: ReadableChunk = chunk;
    // Without a place it is made of other data when it is read.
    if (store.filePlace !== undefined) yield { ...chunk, offset: -1, ...(await store.filePlace(key, slot)) };
    else yield address === undefined ? chunk : { ...chunk, key: address };
  }
}

/** The same as members of JSON, which are left out if they are undefined. */
function partMembers({ path, column }: Part): Record<string, string | undefined> {
  return { archive: path, column };
}

function chunkFacts(chunk: ReadableChunk): Record<string, unknown> {
  const { index, key, offset, nbytes, ctbytes, compressor, shuffle, typesize, blocksize, memcpyed } = chunk;
  const { start, slot } = chunk;
  return {
    index,
    file: key,
    offset: offset < 0 ? null : offset,
    nbytes,
    cbytes: ctbytes,
    ratio: ratioOf(nbytes, ctbytes),
    cname: compressor,
    shuffle: shuffle ?? null,
    typesize: typesize ?? null,
    blocksize: blocksize ?? null,
    memcpyed: memcpyed ?? null,
    checksum: chunk.checksum === "None" ? null : chunk.checksum,
    digest: chunk.digest ?? null,
    start,
    slot,
  };
}

async function printLines(
  { path, column, archive, error }: Part,
  options: ChunksOptions,
  shades: Set<string>,
  context: Context,
): Promise<void> {
  const { out, signal } = context;
  if (path !== undefined) await out.line(`archive ${printable(path)}`);
  if (column !== undefined) await out.line(`column ${printable(column)}`);
  if (archive === undefined) throw error;
  if (options.missing === true) return printMissing(archive, context);
  if (options.map === true) return printMap(archive, shades, context);
  const { nchunks, nbytes } = archive;
  let table: ChunkTable | undefined;
  for await (const chunk of listed(archive, { signal })) {
    if (table === undefined) {
      table = new ChunkTable(chunk, { nchunks, nbytes, columns: out.columns });
      await out.line(table.header());
    }
    for (const line of table.lines(chunk)) {
      const waiting = out.line(line);
      if (waiting !== undefined) await waiting;
    }
  }
  if (table === undefined) await out.line("no chunks");
}

/** Prints a character for each chunk, and adds it to `shades`. One that cannot be read is marked, and those after it are still shown. */
async function printMap(
  archive: BytesArchive | ReadableArray,
  shades: Set<string>,
  context: Context,
): Promise<void> {
  const { out, signal } = context;
  const { nchunks } = archive;
  const map = new ShadeMap(nchunks, out.columns);
  let failure: SuperchunkError | undefined;
  for (let next = 0, end = nchunks; next < nchunks; ) {
    try {
      for await (const { index, nbytes, ctbytes } of listed(archive, { signal, first: next, end })) {
        map.add({ index, nbytes, cbytes: ctbytes });
        next = index + 1;
      }
      if (end === nchunks) break;
      [next, end] = [end, nchunks];
    } catch (error) {
      if (!(error instanceof SuperchunkError)) throw error;
      failure ??= error;
      // Only archives can be listed from a given chunk on.
      const isArchive = "encodedChunks" in archive;
      if (isArchive && end > next + 1) {
        // Chunks are read together: those before the damaged one are listed again without it, or one by one if it was not among them.
        const { chunk = end } = error.details;
        end = chunk < end ? Math.max(next + 1, chunk) : next + 1;
        continue;
      }
      map.add({ index: isArchive ? next : Math.max(next, error.details.chunk ?? next) });
      if (!isArchive) break;
      [next, end] = [next + 1, nchunks];
    }
  }
  await out.drawing(nchunks === 0 ? ["no chunks"] : map.lines(shades));
  if (failure === undefined) return;
  context.note(exitCodeOf(failure));
  await out.line(`${stateOf(failure)}  ${failure.code}: ${printable(inCommandWords(failure.message))}`);
}

/** Prints which chunks do not exist, and the rows they would hold. */
async function printMissing(archive: BytesArchive | ReadableArray, { out, signal }: Context): Promise<void> {
  const index = Math.max(5, String(archive.nchunks).length);
  let count = 0;
  for await (const chunk of missingOf(archive, { signal })) {
    if (count++ === 0)
      await out.line(`${"chunk".padStart(index)}  ${"start".padEnd(20)}  ${"slot".padStart(6)}  file`);
    const { start, slot, key } = chunk;
    const cells = [
      String(chunk.index).padStart(index),
      start.join(",").padEnd(20),
      String(slot ?? "-").padStart(6),
    ];
    await out.line(`${cells.join("  ")}  ${printable(key)}`);
  }
  if (count === 0) await out.line("no missing chunks");
}

// The chunks of an archive as a block of shades: the compressed share of each, and which are missing or damaged.
// Knows characters; must not know archives.

/** Most characters of a map; with more chunks, several share one. */
const MOST_CELLS = 2400;
/** The shade of a chunk whose compressed share is at least this, and its meaning. */
const SHADES: readonly (readonly [share: number, shade: string, meaning: string])[] = [
  [0.75, "█", "75 % or more"],
  [0.5, "▓", "50 % to 75 %"],
  [0.25, "▒", "25 % to 50 %"],
  [0, "░", "under 25 %"],
];
const MISSING = "·";
const DAMAGED = "×";

interface MapCell {
  readonly index: number;
  /** Uncompressed and stored bytes; absent for a chunk that cannot be read. */
  readonly nbytes?: number;
  readonly cbytes?: number;
}

/** A legend of the characters in the maps. */
function legendOf(seen: ReadonlySet<string>): string {
  const meanings = [...SHADES, [0, MISSING, "not stored"], [0, DAMAGED, "damaged"]] as const;
  const words = meanings.flatMap(([, shade, text]) => (seen.has(shade) ? [`${shade} ${text}`] : []));
  return `stored size: ${words.join("   ")}`;
}

/** A map that is filled in the order of chunks. */
class ShadeMap {
  readonly #width: number;
  readonly #per: number;
  readonly #nbytes: Float64Array;
  readonly #cbytes: Float64Array;
  readonly #damaged: Uint8Array;

  /** `nchunks`: of the whole archive; `columns`: of the terminal. */
  constructor(nchunks: number, columns: number | undefined) {
    this.#width = Math.max(8, Math.min(96, columns ?? 64));
    this.#per = Math.max(1, Math.ceil(nchunks / MOST_CELLS));
    const cells = Math.ceil(nchunks / this.#per);
    this.#nbytes = new Float64Array(cells);
    this.#cbytes = new Float64Array(cells);
    this.#damaged = new Uint8Array(cells);
  }

  add({ index, nbytes, cbytes }: MapCell): void {
    const cell = Math.floor(index / this.#per);
    if (cell >= this.#damaged.length) return;
    if (nbytes === undefined || cbytes === undefined) this.#damaged[cell] = 1;
    else {
      this.#nbytes[cell] = (this.#nbytes[cell] ?? Number.NaN) + nbytes;
      this.#cbytes[cell] = (this.#cbytes[cell] ?? Number.NaN) + cbytes;
    }
  }

  /** The map. Adds the characters in it to `seen`. */
  lines(seen: Set<string>): string[] {
    const shades = Array.from(this.#damaged, (_, cell) => this.#shadeOf(cell));
    const rows: string[] = [];
    for (let at = 0; at < shades.length; at += this.#width)
      rows.push(shades.slice(at, at + this.#width).join(""));
    for (const shade of shades) seen.add(shade);
    return this.#per > 1 ? [...rows, `${this.#per} chunks to a character`] : rows;
  }

  #shadeOf(cell: number): string {
    if (this.#damaged[cell] === 1) return DAMAGED;
    const nbytes = this.#nbytes[cell] ?? Number.NaN;
    if (!(nbytes > 0)) return MISSING;
    const share = (this.#cbytes[cell] ?? Number.NaN) / nbytes;
    return SHADES.find(([least]) => share >= least)?.[1] ?? MISSING;
  }
}
