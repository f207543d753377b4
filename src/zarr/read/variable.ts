/**
 * Text and bytes of any length, of the codecs `vlen-utf8` and `vlen-bytes`: they become items of one length, that of the longest
 * [FH-11]. Each chunk is decoded by a stage in front of the array's own.
 *
 * Loaded for such arrays only. Knows how values are stored; must not know shards or grids.
 */
import { allocate, elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { isObject } from "../../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { Chain } from "../codecs/chain.ts";
import { type ItemSpan, readOnlyStage, type Stage } from "../codecs/stage.ts";
import { parseFillValue } from "../document/data-type.ts";
import { badMember, type FieldPlace } from "../document/metadata-fields.ts";
import type { ArrayModel, GroupModel } from "../document/model.ts";
import { ZarrArray } from "./array.ts";
import type { ReadSettings } from "./leaf.ts";

/** Most characters or bytes of a value, and most values, all of which are looked at when the array is opened. */
const MAX_LENGTH = 1 << 18;
const MAX_ITEMS = 2 ** 28;
/** Most bytes of a chunk as stored, and of the items that are decoded of it at a time. */
const MAX_CHUNK = 2 ** 30;
/** Bytes of the number of values, and of each length. */
const WORD = 4;

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The codec of values of any length, and what they are. */
interface Kind {
  readonly codec: "vlen-utf8" | "vlen-bytes";
  readonly noun: "text" | "bytes";
  /** Zarr v3's data type. */
  readonly dataType: string;
  /** Bytes of a character, as items. */
  readonly width: 1 | 4;
}

const TEXT: Kind = { codec: "vlen-utf8", noun: "text", dataType: "string", width: 4 };
const BYTES: Kind = { codec: "vlen-bytes", noun: "bytes", dataType: "variable_length_bytes", width: 1 };

function dtypeOf({ width }: Kind, length: number): DType {
  return width === 4
    ? { kind: "unicode", itemSize: 4 * length, byteOrder: "little" }
    : { kind: "bytes", itemSize: length, byteOrder: "none" };
}

/** Values of variable length, and the document of an array of single bytes with the other codecs. */
interface Found {
  readonly kind: Kind;
  readonly document: JsonObject;
}

/** Undefined if no codec of values of variable length is where it has to be. */
function findKind(document: JsonObject): Found | undefined {
  const { data_type: type, filters } = document;
  if (type === undefined) {
    const [first, ...others] = Array.isArray(filters) ? (filters as readonly JsonValue[]) : [];
    const kind = [TEXT, BYTES].find(({ codec }) => isObject(first) && first["id"] === codec);
    if (kind === undefined) return undefined;
    return { kind, document: { ...document, dtype: "|S1", filters: others, fill_value: "" } };
  }
  const kind = (isObject(type) ? type["name"] : type) === "string" ? TEXT : BYTES;
  const codecs = plainCodecs(document["codecs"], kind);
  if (codecs === undefined) return undefined;
  const dataType = { name: "null_terminated_bytes", configuration: { length_bytes: 1 } };
  return { kind, document: { ...document, data_type: dataType, codecs, fill_value: "" } };
}

/** A document of Zarr v3 without its codec of values of variable length, if it has one. */
export function plainDocument(document: JsonObject): JsonObject {
  return findKind(document)?.document ?? document;
}

/** The codecs, at any depth of shards, with `bytes` for that of the values; undefined if it is not among them. */
function plainCodecs(codecs: JsonValue | undefined, kind: Kind): JsonValue | undefined {
  if (!Array.isArray(codecs)) return undefined;
  let isFound = false;
  const plain = (codecs as readonly JsonValue[]).map((entry): JsonValue => {
    const { name = entry, configuration = {} }: JsonObject = isObject(entry) ? entry : {};
    if (name === kind.codec) {
      isFound = true;
      return "bytes";
    }
    if (name !== "sharding_indexed" || !isObject(configuration)) return entry;
    const inner = plainCodecs(configuration["codecs"], kind);
    isFound ||= inner !== undefined;
    return inner === undefined ? entry : { name, configuration: { ...configuration, codecs: inner } };
  });
  return isFound ? plain : undefined;
}

/** How an array's document is parsed, and what its values are read with. */
interface Opening<T> extends ReadSettings {
  readonly signal?: AbortSignal | undefined;
  readonly measureText?: boolean | undefined;
  readonly parse: (document: JsonObject) => T;
}

/**
 * The model of an array of text or bytes of any length, with items of one length. Reads all its chunks for the longest value; chunks that are
 * damaged are left to their readers.
 *
 * @throws BAD_FIELD; UNSUPPORTED for other values of variable length; LIMIT
 */
export async function variableModel<T extends ArrayModel | GroupModel>(
  store: ReadableStore,
  document: JsonObject,
  { parse, signal, measureText = true, ...settings }: Opening<T>,
): Promise<T | ArrayModel> {
  const { kind, document: plain } = findKind(document) ?? {};
  if (kind === undefined || plain === undefined) return parse(document);
  const model: ArrayModel | GroupModel = parse(plain);
  if ("consolidated" in model) return parse(document);
  const place = { path: store.describe(model.metadataKeys[0] ?? model.path), field: "fill_value" };
  const count = elementsOf(model.shape);
  if (count > MAX_ITEMS) throw overLimit("values of variable length", MAX_ITEMS, count, place);
  const fillValue = document["fill_value"] ?? null;
  // Version 2 has 0 and null for an empty one.
  const isVersion2 = document["data_type"] === undefined;
  const isEmpty = isVersion2 && (fillValue === null || fillValue === 0);
  const fill = fillOf(kind, isEmpty ? "" : fillValue, place);
  const fillLength = fill.length / kind.width;
  const common = { variable: kind.noun, fillValue, document };
  if (!measureText) {
    const chain = withStage(model.chain, refusal(kind));
    const dtype = dtypeOf(kind, Math.max(1, fillLength));
    const fillItem = new Uint8Array(dtype.itemSize);
    fillItem.set(fill);
    return { ...model, ...common, dtype, fillItem, chain, isUnmeasured: true };
  }
  const lengths: DType = { kind: "uint", itemSize: WORD, byteOrder: "little" };
  const seen = new ZarrArray(
    store,
    {
      ...model,
      dtype: lengths,
      fillItem: wordOf(fillLength),
      chain: withStage(model.chain, lengthStage(kind)),
    },
    settings,
  );
  const found = await longestOf(seen, signal).catch(async (error: unknown) => {
    if (isSuperchunkError(error) && error.isDamage)
      return longestOf(await withoutDamage(seen, signal), signal);
    throw error;
  });
  const longest = Math.max(1, fillLength, found);
  if (longest > MAX_LENGTH)
    throw overLimit(kind === TEXT ? "characters in a text" : "bytes in a value", MAX_LENGTH, longest, place);
  const dtype = dtypeOf(kind, longest);
  const fillItem = new Uint8Array(dtype.itemSize);
  fillItem.set(fill);
  const chain = withStage(model.chain, valueStage(kind, dtype.itemSize));
  return { ...model, ...common, dtype, fillItem, chain };
}

function overLimit(what: string, expected: number, found: number, place: FieldPlace): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `it has ${found} ${what}; ${expected} is the limit. Read it with zarr-python`,
    { path: place.path, field: "dtype", expected, found },
  );
}

/** The fill value as an item of its own length. */
function fillOf(kind: Kind, value: JsonValue, place: FieldPlace): Uint8Array {
  const isText = typeof value === "string";
  if (!isText && (kind === TEXT || !Array.isArray(value)))
    throw badMember(place, `${kind.noun} of any length`, value);
  const letters = Array.from(value as string | readonly JsonValue[]).length;
  const isBase64 = isText && kind === BYTES;
  const length = isBase64 ? (letters / 4) * 3 - (/=*$/.exec(value)?.[0].length ?? 0) : letters;
  const item = parseFillValue(dtypeOf(kind, length), value, place);
  if (item.length > 0 && item.subarray(-kind.width).every((byte) => byte === 0))
    throw zeroEnd(kind, "the fill value").at(place);
  return item;
}

function zeroEnd({ noun, codec }: Kind, what: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `${what} ends in a zero ${noun === "text" ? "character" : "byte"}, which items of one length do not keep; read it with zarr-python`,
    { field: codec },
  );
}

function wordOf(value: number): Uint8Array {
  const item = new Uint8Array(WORD);
  new DataView(item.buffer).setUint32(0, value, true);
  return item;
}

async function longestOf(array: ZarrArray, signal: AbortSignal | undefined): Promise<number> {
  let longest = 0;
  for await (const { data } of array.chunks({ signal }))
    for (const length of data as Uint32Array) if (length > longest) longest = length;
  return longest;
}

/** The array without the chunks that cannot be read. */
async function withoutDamage(array: ZarrArray, signal: AbortSignal | undefined): Promise<ZarrArray> {
  const { surveyZarrArray } = await import("./damaged.ts");
  const { store } = await surveyZarrArray(array, { signal });
  return new ZarrArray(store, array.model);
}

/** The chain with a stage in front of those of its innermost chunks. */
function withStage(chain: Chain, stage: Stage): Chain {
  const { serializer, stages } = chain;
  return serializer.kind === "bytes"
    ? { ...chain, stages: [stage, ...stages] }
    : { ...chain, serializer: { ...serializer, inner: withStage(serializer.inner, stage) } };
}

function stageOf(kind: Kind, decodeSpan: NonNullable<Stage["decodeSpan"]>): Stage {
  const { codec, dataType } = kind;
  const own = readOnlyStage("codec", codec, { fixedOverhead: undefined, encodedLength: () => MAX_CHUNK });
  const refuse = (): Promise<never> => Promise.reject(new TypeError("items are decoded by their span"));
  return { ...own, v3: { name: codec }, dataType, decodeSpan, decode: refuse };
}

/** Decodes nothing. */
function refusal(kind: Kind): Stage {
  return stageOf(kind, async () => {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the array was opened without looking for its longest value, so its ${kind.noun} has no items of one length; open it without measureText: false`,
      { field: "measureText" },
    );
  });
}

/** Decodes to the length of each value, in characters of text. */
function lengthStage(kind: Kind): Stage {
  return stageOf(kind, async (bytes, count, span) => {
    checkValues(bytes, count);
    const out = new Uint8Array(span.count * WORD);
    const view = new DataView(out.buffer);
    walk(bytes, span, (start, end, i) => {
      let length = end - start;
      // A byte from 80 to BF continues a character.
      if (kind === TEXT)
        for (let k = start; k < end; k++) if (((bytes[k] as number) & 0xc0) === 0x80) length--;
      view.setUint32((i - span.first) * WORD, length, true);
    });
    return out;
  });
}

/** Decodes to items of one length. */
function valueStage(kind: Kind, itemSize: number): Stage {
  return stageOf(kind, async (bytes, count, span) => {
    checkValues(bytes, count);
    const nbytes = span.count * itemSize;
    if (nbytes > MAX_CHUNK)
      throw new SuperchunkError(
        "LIMIT",
        `${span.count} values of the chunk take ${nbytes} bytes, because the longest of the array takes ${itemSize}; ${MAX_CHUNK} is the limit. Read fewer at a time`,
        { field: "dtype", expected: MAX_CHUNK, found: nbytes },
      );
    const items = allocate(nbytes);
    const view = new DataView(items.buffer);
    walk(bytes, span, (start, end, i) => {
      if (end > start && bytes[end - 1] === 0) throw zeroEnd(kind, `value ${i} of the chunk`);
      let to = (i - span.first) * itemSize;
      const last = to + itemSize;
      if (kind === BYTES) {
        if (to + end - start > last) throw grown(kind);
        items.set(bytes.subarray(start, end), to);
        return;
      }
      for (let k = start; k < end; to += WORD) {
        const byte = bytes[k] as number;
        if (byte > 0x7f) {
          for (const letter of decodeText(bytes.subarray(k, end), i)) {
            if (to >= last) throw grown(kind);
            view.setUint32(to, letter.codePointAt(0) as number, true);
            to += WORD;
          }
          return;
        }
        if (to >= last) throw grown(kind);
        items[to] = byte;
        k++;
      }
    });
    return items;
  });
}

function grown({ noun }: Kind): SuperchunkError {
  return new SuperchunkError(
    "STALE",
    `the chunk has ${noun} that is longer than any was when the array was opened; open it again`,
  );
}

function decodeText(bytes: Uint8Array, value: number): string {
  try {
    return UTF8.decode(bytes);
  } catch (cause) {
    throw damaged(`value ${value} of the chunk is not UTF-8`, { cause });
  }
}

/** Checks every length before memory is allocated. @throws BAD_CHUNK */
function checkValues(bytes: Uint8Array, expected: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = bytes.length < WORD ? undefined : view.getUint32(0, true);
  if (found !== expected)
    throw damaged(`the chunk has ${found ?? "no number of"} values, but its shape makes it ${expected}`, {
      expected,
      found,
    });
  let next = WORD;
  for (let i = 0; i < expected; i++) {
    const room = bytes.length - next - WORD;
    const length = room < 0 ? 0 : view.getUint32(next, true);
    if (length > room)
      throw damaged(`value ${i} of the chunk ends after it`, { expected: room, found: length });
    next += WORD + length;
  }
  if (next !== bytes.length)
    throw damaged(`the chunk has ${bytes.length} bytes, but its values end at ${next}`, {
      expected: next,
      found: bytes.length,
    });
}

function damaged(what: string, details: SuperchunkError["details"]): SuperchunkError {
  return new SuperchunkError("BAD_CHUNK", `${what}; the chunk is damaged`, details);
}

/** Visits a span of the values of checked bytes. */
function walk(
  bytes: Uint8Array,
  { first, count }: ItemSpan,
  visit: (start: number, end: number, value: number) => void,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0, next = WORD; i < first + count; i++) {
    const start = next + WORD;
    next = start + view.getUint32(next, true);
    if (i >= first) visit(start, next, i);
  }
}
