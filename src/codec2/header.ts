/** Checks the header of a Blosc2 chunk. Must not know any payload. @see docs/blosc2-format.md [BC-01 to BC-09] */
import { at, checkOptionNames, DECODE_OPTIONS } from "../bytes/arrays.ts";
import type { DecodeOptions } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { type Blosc2Header, FILTER, type Filter, fieldsOf, HEADER2_LENGTH, isBlosc2 } from "./fields.ts";

/** The last known format version, which added blocks of variable length. */
const LAST_VERSION = 6;
const MAX_BLOCKSIZE = 536_866_816;
const MAX_DICTIONARY = 32 << 10;
const OF_PLUGIN = 6;

/** Codecs of plugins, by their registered numbers. */
const PLUGINS: Readonly<Record<number, string>> = {
  32: "ndlz",
  33: "zfp (fixed accuracy)",
  34: "zfp (fixed precision)",
  35: "zfp (fixed rate)",
  36: "openhtj2k",
  37: "grok",
  38: "openzl",
  39: "j2k",
  40: "htj2k",
};

const FILTER_NAMES: Readonly<Record<number, string>> = {
  1: "shuffle",
  2: "bitshuffle",
  3: "delta",
  4: "trunc_prec",
  32: "ndcell",
  33: "ndmean",
  34: "bytedelta (first form)",
  35: "bytedelta",
  36: "int_trunc",
};
const UNDONE: readonly number[] = [1, 2, 3, 34, 35];
/** Filters that only clear bits: nothing needs to be undone. */
const CUTTING: readonly number[] = [4, 36];

/**
 * Reads and checks a header.
 *
 * @param chunk at least the first 32 bytes of a chunk
 * @param available bytes available of the whole chunk
 * @throws TRUNCATED, BAD_FIELD; UNSUPPORTED for codecs and filters of plugins, by their names, and for what is not a Blosc2 chunk
 */
export function readBlosc2Header(chunk: Uint8Array, available: number = chunk.length): Blosc2Header {
  if (chunk.length < HEADER2_LENGTH)
    throw new SuperchunkError(
      "TRUNCATED",
      `a Blosc2 chunk starts with ${HEADER2_LENGTH} bytes of header, but only ${chunk.length} are there`,
      { field: "header", offset: 0, expected: HEADER2_LENGTH, found: chunk.length },
    );
  const [version, more, last] = [at(chunk, 0), at(chunk, 30), at(chunk, 31)];
  if (!isBlosc2(chunk)) throw badField("version", 0, "3 to 6, with the flags of Blosc2", version);
  if (version > LAST_VERSION || more > 1)
    throw unsupported(`is of version ${version} with the flags ${more}`, version);
  if ((last & 0x8e) !== 0) throw unsupported(`has the flags ${last}: it is lazy, or instrumented`, last);
  const header = fieldsOf(chunk);
  if (header === undefined) throw unsupported(codecText(chunk), at(chunk, 2) >> 5);
  const { nbytes, ctbytes, typesize, isVariable, memcpyed, special, nblocks, flags, filters } = header;
  if ((last & 0x70) !== 0 && special === undefined)
    throw unsupported(`has special values of kind ${(last >> 4) & 7}`, last);
  if (nbytes < 0) throw badField("nbytes", 4, "0 or more", nbytes);
  if (ctbytes < HEADER2_LENGTH) throw badField("cbytes", 12, `${HEADER2_LENGTH} or more`, ctbytes);
  if (ctbytes > available)
    throw new SuperchunkError(
      "TRUNCATED",
      `the Blosc2 header's cbytes at byte 12 is ${ctbytes}, but only ${available} bytes are there`,
      { offset: 12, field: "cbytes", expected: ctbytes, found: available },
    );
  if (typesize === 0) throw badField("typesize", 3, "1 or more", typesize);
  const size = new DataView(chunk.buffer, chunk.byteOffset).getInt32(8, true);
  if (nbytes > 0 && (size <= 0 || size > MAX_BLOCKSIZE))
    throw badField("blocksize", 8, `1 to ${MAX_BLOCKSIZE}`, size);
  if (isVariable && (memcpyed || special !== undefined))
    throw badField("flags", 2, "neither stored nor of one value, with blocks of variable length", flags);
  if (memcpyed && special === undefined && ctbytes !== nbytes + HEADER2_LENGTH)
    throw badField("cbytes", 12, `${nbytes + HEADER2_LENGTH} (nbytes + 32: the chunk is stored)`, ctbytes);
  if (special !== undefined) checkSpecial(header);
  if (memcpyed || special !== undefined || nbytes === 0) return header;
  const head = HEADER2_LENGTH + 4 * nblocks;
  if (head > ctbytes) throw badField("cbytes", 12, `at least ${head} (header and starts)`, ctbytes);
  if (header.split && header.blocksize % typesize !== 0)
    throw badField(
      "blocksize",
      8,
      `a multiple of the typesize ${typesize} (blocks are split)`,
      header.blocksize,
    );
  checkFilters(filters, isVariable);
  return header;
}

/** The filters that a reader undoes, last first. */
export function stepsOf({ filters }: Pick<Blosc2Header, "filters">): readonly Filter[] {
  return filters.filter(({ id }) => UNDONE.includes(id)).reverse();
}

function checkFilters(filters: readonly Filter[], isVariable: boolean): void {
  for (const { id } of filters)
    if (!UNDONE.includes(id) && !CUTTING.includes(id))
      throw unsupported(`has the filter ${filterName(id)}`, id);
  // c-blosc2's delta refers to the unfiltered first block, so delta can only be undone if it is the first filter.
  const steps = stepsOf({ filters });
  const deltas = steps.filter(({ id }) => id === FILTER.delta).length;
  if (deltas > 0 && (isVariable || deltas > 1 || steps.at(-1)?.id !== FILTER.delta))
    throw unsupported("has the filter delta after others, or with blocks of variable length", FILTER.delta);
}

function checkSpecial({ special, nbytes, typesize, ctbytes }: Blosc2Header): void {
  if (special === "nan" && nbytes > 0 && typesize !== 4 && typesize !== 8)
    throw badField("typesize", 3, "4 or 8 (the chunk is all NaN)", typesize);
  const item = special === "value" ? ctbytes - HEADER2_LENGTH : typesize;
  if (item === 0) throw badField("cbytes", 12, "more than 32 (a value follows)", ctbytes);
  if (special !== "zeros" && nbytes % item !== 0)
    throw badField("nbytes", 4, `a multiple of ${item}, the bytes of its value`, nbytes);
}

export function filterName(id: number): string {
  return FILTER_NAMES[id] ?? `number ${id}`;
}

/** Names a codec of a plugin, and the filters before it. */
export function pluginText(number: number, filters: readonly number[]): string {
  const names = filters.filter((id) => id !== FILTER.none).map(filterName);
  return `${PLUGINS[number] ?? `number ${number}`}${names.length === 0 ? "" : ` after the filters ${names.join(", ")}`}`;
}

function codecText(chunk: Uint8Array): string {
  const codec = at(chunk, 2) >> 5;
  return `was compressed by the codec ${pluginText(codec === OF_PLUGIN ? at(chunk, 22) : codec, [...chunk.subarray(16, 22)])}`;
}

/** The dictionary of a chunk. It follows its length, after the block starts. @throws BAD_FIELD */
export function dictionaryOf(chunk: Uint8Array, { nblocks, ctbytes }: Blosc2Header): Uint8Array {
  const from = HEADER2_LENGTH + 4 * nblocks;
  const length =
    from + 4 > ctbytes ? 0 : new DataView(chunk.buffer, chunk.byteOffset, ctbytes).getInt32(from, true);
  if (length <= 0 || length > Math.min(MAX_DICTIONARY, ctbytes - from - 4))
    throw badField("dictionary length", from, `1 to ${MAX_DICTIONARY}, inside the chunk`, length);
  return chunk.subarray(from + 4, from + 4 + length);
}

/** @throws BAD_FIELD, LIMIT if the header contradicts the caller's expectations */
export function checkExpected({ nbytes }: Blosc2Header, options: DecodeOptions): void {
  checkOptionNames(options, DECODE_OPTIONS);
  const { expectedNbytes, maxNbytes } = options;
  if (expectedNbytes !== undefined && nbytes !== expectedNbytes)
    throw badField("nbytes", 4, `${expectedNbytes}, as its archive says`, nbytes);
  if (maxNbytes !== undefined && nbytes > maxNbytes)
    throw new SuperchunkError(
      "LIMIT",
      `the Blosc2 chunk decodes to ${nbytes} bytes, more than the limit maxNbytes of ${maxNbytes}`,
      { offset: 4, field: "nbytes", expected: maxNbytes, found: nbytes },
    );
}

export function badField(field: string, offset: number, expected: string, found: number): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the Blosc2 header's ${field} at byte ${offset} is ${found}, expected ${expected}; the chunk is damaged`,
    { offset, field, expected, found },
  );
}

function unsupported(what: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `the Blosc2 chunk ${what}, which superchunk does not read; read it with python-blosc2`,
    { offset: 0, found },
  );
}
