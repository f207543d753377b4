/**
 * Checks the pages of a Parquet file before hyparquet reads them, which believes their counts: a damaged one would make it fill
 * memory for seconds, until the engine ends the process. Knows headers and runs; must not know values.
 */
import { type ColumnMetaData, type FileMetaData, parquetSchema, type SchemaTree } from "hyparquet";
import { getMaxDefinitionLevel, getMaxRepetitionLevel, getTreePath } from "hyparquet/src/schema.js";
import { deserializeTCompactProtocol } from "hyparquet/src/thrift.js";
import { at, countLeading } from "../bytes/arrays.ts";

/** Encodings of values in runs. */
const [OLD_DICTIONARY, RLE, DICTIONARY] = [2, 3, 8];
/** Writers may fill up the last run: so many values more cost nothing. */
const SPARE = 4096;

/** A column chunk, and where it is in the file. */
interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly own: ColumnMetaData;
  readonly rows: number;
}

/** A page without its header; of a page of version 2, only its values. */
interface Body {
  readonly values: number;
  readonly encoding: unknown;
  readonly isBoolean: boolean;
  readonly widths: readonly number[];
}

/** Checks what is read of one file. */
export class PageChecks {
  readonly #tree: SchemaTree;
  readonly #chunks: readonly Chunk[];
  /** Compressed bodies that were read, by {@link keyOf}; undefined where several look alike. */
  readonly #bodies = new Map<string, Body | undefined>();

  constructor(metadata: FileMetaData) {
    this.#tree = parquetSchema(metadata);
    const chunks = metadata.row_groups.flatMap(({ columns, num_rows }) =>
      columns.flatMap(({ meta_data: own }): Chunk[] => {
        if (own === undefined) return [];
        const start = Number(own.dictionary_page_offset || own.data_page_offset);
        return [{ start, end: start + Number(own.total_compressed_size), own, rows: Number(num_rows) }];
      }),
    );
    this.#chunks = chunks.sort((a, b) => a.start - b.start);
  }

  /** Checks pages that were read from byte `from` of the file on: of one column chunk from any page on, or of several. */
  checkPages(bytes: Uint8Array, from: number): void {
    const end = from + bytes.length;
    const first = countLeading(this.#chunks.length, (i) => at(this.#chunks, i).start <= from) - 1;
    for (let i = Math.max(0, first); i < this.#chunks.length; i++) {
      const chunk = at(this.#chunks, i);
      if (chunk.start >= end) return;
      const own = bytes.subarray(Math.max(0, chunk.start - from), Math.max(0, chunk.end - from));
      this.#checkChunk(own, chunk);
    }
  }

  #checkChunk(bytes: Uint8Array, { own: column, rows }: Chunk): void {
    const { type, codec, num_values, path_in_schema } = column;
    const path = attempt(() => getTreePath(this.#tree, path_in_schema));
    if (path === undefined) return;
    const levels = [getMaxRepetitionLevel(path), getMaxDefinitionLevel(path)].filter((level) => level > 0);
    const widths = levels.map((level) => 32 - Math.clz32(level));
    const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length), offset: 0 };
    const most = Math.max(rows, Number(num_values));
    let left = most;
    // hyparquet stops before the last byte, too.
    while (left > 0 && reader.offset < bytes.length - 1) {
      const header = attempt(() => deserializeTCompactProtocol(reader));
      if (header === undefined) return;
      const { field_2: length, field_3: size, field_5: one, field_7: dictionary, field_8: two } = header;
      const { field_1: values = 0, ...own } = one ?? two ?? dictionary ?? {};
      // An entry of a dictionary takes more than a bit.
      const limit = dictionary === undefined ? most : 8 * Number(length);
      if (!(values >= 0 && values <= limit))
        throw new Error(`a page has ${values} values, and there are at most ${limit}`);
      if (!(size >= 0)) throw new Error(`a page has ${size} bytes`);
      let body = bytes.subarray(reader.offset, reader.offset + size);
      reader.offset += size;
      if (dictionary !== undefined) continue;
      left -= values;
      // Version 2 has the lengths of the levels in the header.
      const lengths = two === undefined ? [] : [own.field_6, own.field_5].slice(2 - widths.length);
      for (const [i, each] of lengths.entries()) {
        checkRuns(body, at(widths, i), values);
        body = body.subarray(each);
      }
      const encoding = one === undefined ? own.field_4 : own.field_2;
      const isBoolean = type === "BOOLEAN";
      const facts = { values, encoding, isBoolean, widths: two === undefined ? widths : [] };
      if (codec === "UNCOMPRESSED" || own.field_7 === false) {
        checkBody(body, facts);
        continue;
      }
      const key = keyOf(body);
      this.#bodies.set(key, this.#bodies.has(key) ? undefined : facts);
    }
  }

  /** Checks what a page was decompressed to. Returns it. */
  checkDecoded(page: Uint8Array, compressed: Uint8Array): Uint8Array {
    const key = keyOf(compressed);
    const body = this.#bodies.get(key);
    if (body !== undefined) checkBody(page, body);
    this.#bodies.delete(key);
    return page;
  }
}

/** Undefined if parsing fails: the reader of the page reports it. */
export function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}

/** Copies of a body have the same key, and bodies with the same key are the same, but for rare cases. */
function keyOf(body: Uint8Array): string {
  return `${body.length} ${body.subarray(0, 32)} ${body.subarray(-32)}`;
}

function checkBody(body: Uint8Array, { values, encoding, isBoolean, widths }: Body): void {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  let from = 0;
  for (const width of encoding === RLE && isBoolean ? [...widths, 1] : widths) {
    const start = from + 4;
    if (start > body.length) return;
    from = start + view.getUint32(from, true);
    checkRuns(body.subarray(start), width, values);
  }
  if ((encoding === OLD_DICTIONARY || encoding === DICTIONARY) && from < body.length)
    checkRuns(body.subarray(from + 1), at(body, from), values);
}

/** Reads as hyparquet does: beyond the length of the runs, and a byte of a run of none. */
function checkRuns(bytes: Uint8Array, width: number, values: number): void {
  let from = 0;
  for (let seen = 0; seen < values && from < bytes.length; ) {
    let head = 0;
    for (let shift = 0, more = 128; more >= 128 && from < bytes.length; shift += 7) {
      more = at(bytes, from++);
      head += (more & 127) * 2 ** shift;
    }
    const count = Math.floor(head / 2);
    const isPacked = head % 2 === 1;
    from += isPacked ? Math.max(1, count * width) : Math.ceil(width / 8);
    seen += isPacked ? 8 * count : count;
    if (seen > values + SPARE) throw new Error(`a page of ${values} values has a run of ${count}`);
  }
}
