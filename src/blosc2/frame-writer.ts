/**
 * The parts of a contiguous frame around its chunks, as c-blosc2 writes them. c-blosc2 reads fields at fixed offsets, so every number
 * must have the width that it expects.
 *
 * @see docs/blosc2-format.md [BF-01 to BF-09], https://github.com/Blosc/c-blosc2/blob/main/README_CFRAME_FORMAT.rst and
 * README_B2ND_METALAYER.rst
 */
import { joinBytes } from "../bytes/arrays.ts";
import { encodeSync } from "../codec/encode/encode.ts";
import type { Shuffle } from "../codec/types.ts";
import { NUMBERS, toBlosc2Sync } from "../codec2/as-blosc2.ts";
import { FILTER } from "../codec2/fields.ts";
import { isNotedFloat } from "../format/json-float.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";

const HEADER = 87;
/** A frame of format 2, or of format 3 if there are no chunks; offsets of 64 bits. */
const VERSION = 0x12;
const EMPTY_VERSION = 0x53;
const AUTO_SPLIT = 2;
/** Names of metalayers are shorter than this. Bytes. */
const MAX_NAME = 31;
/** An entry of the index for a chunk of zeros. */
const ZEROS = 0x81n << 56n;

/** The facts in a frame's header and metalayers. Sizes in bytes. */
export interface FrameFacts {
  readonly typesize: number;
  readonly blockBytes: number;
  readonly chunkBytes: number;
  readonly cname: string;
  readonly clevel: number;
  readonly shuffle: Shuffle;
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  readonly blocks: readonly number[];
  /** In numpy's notation. */
  readonly dtype: string;
  readonly attrs: JsonObject;
}

/** Makes everything around chunks of these sizes; size 0 means a chunk of zeros. */
export function frameAround(
  facts: FrameFacts,
  sizes: readonly number[],
): { readonly head: Uint8Array; readonly tail: Uint8Array } {
  const meta = metalayers([["b2nd", b2ndLayer(facts)]], HEADER);
  const cbytes = sizes.reduce((sum, size) => sum + size, 0);
  const vlmeta = attributeLayers(facts.attrs);
  const tail = joinBytes([...(sizes.length === 0 ? [] : [indexOf(sizes)]), trailer(vlmeta)]);
  const length = HEADER + meta.length + cbytes + tail.length;
  const head = new Uint8Array(HEADER);
  const view = new DataView(head.buffer);
  const isEmpty = sizes.length === 0;
  head.set([0x9e, 0xa8, ...new TextEncoder().encode("b2frame"), 0, 0xd2]);
  view.setInt32(11, HEADER + meta.length);
  head[15] = 0xcf;
  view.setBigUint64(16, BigInt(length));
  const codec = Math.max(0, NUMBERS.indexOf(facts.cname));
  head.set([0xa4, isEmpty ? EMPTY_VERSION : VERSION, 0, codec | (facts.clevel << 4), AUTO_SPLIT, 0xd3], 24);
  view.setBigInt64(30, BigInt(sizes.length * facts.chunkBytes));
  head[38] = 0xd3;
  view.setBigInt64(39, BigInt(cbytes));
  for (const [i, value] of [facts.typesize, facts.blockBytes, facts.chunkBytes].entries()) {
    head[47 + 5 * i] = 0xd2;
    view.setInt32(48 + 5 * i, value);
  }
  // Numbers of threads for compression and decompression, whether there are attributes, and the filters.
  head.set([0xd1, 0, 1, 0xd1, 0, 1, vlmeta.length > 0 ? 0xc3 : 0xc2, 0xd8, 6], 62);
  head[76] =
    facts.shuffle === "shuffle" ? FILTER.shuffle : facts.shuffle === "bitshuffle" ? FILTER.bitshuffle : 0;
  head[77] = codec;
  return { head: joinBytes([head, meta]), tail };
}

/** The metalayer with a frame's dimensions. */
function b2ndLayer({ shape, chunks, blocks, dtype }: FrameFacts): Uint8Array {
  const name = new TextEncoder().encode(dtype);
  const out = new Uint8Array(3 + 3 + 19 * shape.length + 6 + name.length);
  const view = new DataView(out.buffer);
  out.set([0x97, 0, shape.length]);
  let next = 3;
  for (const [i, list] of [shape, chunks, blocks].entries()) {
    out[next++] = 0x90 + list.length;
    for (const length of list) {
      out[next++] = i === 0 ? 0xd3 : 0xd2;
      if (i === 0) view.setBigInt64(next, BigInt(length));
      else view.setInt32(next, length);
      next += i === 0 ? 8 : 4;
    }
  }
  out.set([0, 0xdb], next);
  view.setUint32(next + 2, name.length);
  out.set(name, next + 6);
  return out;
}

type Layer = readonly [name: string, content: Uint8Array];

/** A map from names to offsets, and then their contents. `from`: the offset of this in its part. */
function metalayers(layers: readonly Layer[], from: number): Uint8Array {
  // In a header the length of the map counts the byte before it; in a trailer it does not.
  const uncounted = from === HEADER ? 0 : 1;
  const names = layers.map(([name]) => new TextEncoder().encode(name));
  const mapLength = 7 + names.reduce((sum, { length }) => sum + length + 6, 0);
  const out = new Uint8Array(mapLength + 3 + layers.reduce((sum, [, { length }]) => sum + 5 + length, 0));
  const view = new DataView(out.buffer);
  out.set([0x93, 0xcd]);
  view.setUint16(2, mapLength - uncounted);
  out[4] = 0xde;
  view.setUint16(5, layers.length);
  let next = 7;
  let content = mapLength + 3;
  for (const [i, name] of names.entries()) {
    const bytes = layers[i]?.[1] ?? new Uint8Array(0);
    out[next] = 0xa0 + name.length;
    out.set(name, next + 1);
    out[next + 1 + name.length] = 0xd2;
    view.setInt32(next + 2 + name.length, from + content);
    next += name.length + 6;
    out[content] = 0xc6;
    view.setUint32(content + 1, bytes.length);
    out.set(bytes, content + 5);
    content += 5 + bytes.length;
  }
  out[mapLength] = 0xdc;
  view.setUint16(mapLength + 1, layers.length);
  return out;
}

/** True for names that a frame can store. */
export function isLayerName(name: string): boolean {
  const { length } = new TextEncoder().encode(name);
  return length > 0 && length <= MAX_NAME;
}

/** True for values that msgpack can hold, whose integers have 64 bits. */
export function isLayerValue(value: JsonValue): boolean {
  if (typeof value === "bigint") return value >= -(2n ** 63n) && value < 2n ** 64n;
  return typeof value !== "object" || value === null || Object.values(value).every(isLayerValue);
}

function attributeLayers(attrs: JsonObject): readonly Layer[] {
  return Object.entries(attrs)
    .filter(([name, value]) => isLayerName(name) && isLayerValue(value))
    .map(([name, value]) => [name, chunkOf(joinBytes(pack(value, isNotedFloat(attrs, name, value))), 1)]);
}

/** Encodes a JSON value as msgpack. Whole floats stay floats. */
function pack(value: JsonValue, isFloat = false): Uint8Array[] {
  if (value === null) return [Uint8Array.of(0xc0)];
  if (typeof value === "boolean") return [Uint8Array.of(value ? 0xc3 : 0xc2)];
  if (typeof value === "bigint" || (Number.isSafeInteger(value) && !isFloat && !Object.is(value, -0)))
    return [packInteger(BigInt(value as number | bigint))];
  if (typeof value === "number") {
    const out = new DataView(new ArrayBuffer(9));
    out.setUint8(0, 0xcb);
    out.setFloat64(1, value);
    return [new Uint8Array(out.buffer)];
  }
  if (typeof value === "string") {
    const bytes = new TextEncoder().encode(value);
    return [packLength(bytes.length, { few: 0xa0, limit: 31, many: 0xdb }), bytes];
  }
  const isMember = (name: string | number, each: JsonValue): boolean => isNotedFloat(value, name, each);
  if (Array.isArray(value)) {
    const list = value as readonly JsonValue[];
    const head = packLength(list.length, { few: 0x90, limit: 15, many: 0xdd });
    return [head, ...list.flatMap((each, i) => pack(each, isMember(i, each)))];
  }
  const entries = Object.entries(value as JsonObject);
  const head = packLength(entries.length, { few: 0x80, limit: 15, many: 0xdf });
  return [head, ...entries.flatMap(([name, each]) => [...pack(name), ...pack(each, isMember(name, each))])];
}

function packInteger(value: bigint): Uint8Array {
  if (value >= 0n && value < 128n) return Uint8Array.of(Number(value));
  const out = new DataView(new ArrayBuffer(9));
  out.setUint8(0, value < 0n ? 0xd3 : 0xcf);
  out.setBigInt64(1, BigInt.asIntN(64, value));
  return new Uint8Array(out.buffer);
}

function packLength(
  length: number,
  { few, limit, many }: Record<"few" | "limit" | "many", number>,
): Uint8Array {
  if (length <= limit) return Uint8Array.of(few + length);
  const out = new DataView(new ArrayBuffer(5));
  out.setUint8(0, many);
  out.setUint32(1, length);
  return new Uint8Array(out.buffer);
}

function chunkOf(bytes: Uint8Array, typesize: number): Uint8Array {
  return toBlosc2Sync(encodeSync(bytes, { cname: "lz4", typesize }));
}

function trailer(layers: readonly Layer[]): Uint8Array {
  const meta = metalayers(layers, 2);
  const end = new Uint8Array(23);
  end[0] = 0xce;
  new DataView(end.buffer).setUint32(1, 2 + meta.length + end.length);
  end[5] = 0xd8;
  return joinBytes([Uint8Array.of(0x94, 1), meta, end]);
}

/** Offset of each chunk from the end of the header. */
function indexOf(sizes: readonly number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(8 * sizes.length));
  let next = 0;
  for (const [i, size] of sizes.entries()) {
    view.setBigUint64(8 * i, size === 0 ? ZEROS : BigInt(next), true);
    next += size;
  }
  return chunkOf(new Uint8Array(view.buffer), 8);
}
