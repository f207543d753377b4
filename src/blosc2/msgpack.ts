/**
 * Reads msgpack, for metalayers and lists of frames. A library takes four times as many bytes of a page.
 *
 * @see https://github.com/msgpack/msgpack/blob/master/spec.md
 */
import { JsonFloat } from "../format/json-float.ts";

/** Most nested lists and maps. */
const MAX_DEPTH = 100;

/** A value of an extension type, which has no form here. */
export class Extension {}

/**
 * The values that bytes hold one after the other: binary data as views of them, integers beyond 53 bits as
 * `bigint`, and floats that are whole numbers as {@link JsonFloat}.
 *
 * Throws `RangeError` for bytes that are not msgpack, end early or nest more than 100 levels deep, and for keys that are not text.
 */
export function* unpackAll(bytes: Uint8Array): Generator<unknown, void> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const step = (length: number): number => {
    at += length;
    if (at > bytes.length) throw new RangeError("the bytes end before the value");
    return at - length;
  };
  const uint = (size: number): number => {
    const from = step(size);
    return size === 1 ? view.getUint8(from) : size === 2 ? view.getUint16(from) : view.getUint32(from);
  };
  const part = (length: number): Uint8Array => bytes.subarray(step(length), at);
  const text = (length: number): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(part(length));
  const long = (value: bigint): number | bigint =>
    Number.isSafeInteger(Number(value)) ? Number(value) : value;
  const float = (value: number): number | JsonFloat =>
    Number.isInteger(value) ? new JsonFloat(value) : value;
  const list = (length: number, depth: number): unknown[] => {
    const items: unknown[] = [];
    while (items.length < length) items.push(item(depth + 1));
    return items;
  };
  const map = (length: number, depth: number): object => {
    const items: [string, unknown][] = [];
    while (items.length < length) {
      const key = item(depth + 1);
      if (typeof key !== "string") throw new RangeError("a key that is not text");
      items.push([key, item(depth + 1)]);
    }
    return Object.fromEntries(items);
  };
  const extension = (length: number): Extension => {
    step(1 + length);
    return new Extension();
  };
  const item = (depth: number): unknown => {
    if (depth > MAX_DEPTH) throw new RangeError(`nested more than ${MAX_DEPTH} levels deep`);
    const type = uint(1);
    if (type < 0x80) return type;
    if (type < 0x90) return map(type & 15, depth);
    if (type < 0xa0) return list(type & 15, depth);
    if (type < 0xc0) return text(type & 31);
    if (type >= 0xe0) return type - 256;
    if (type === 0xc0) return null;
    if (type === 0xc1) throw new RangeError("a byte that begins no value");
    if (type <= 0xc3) return type === 0xc3;
    if (type <= 0xc6) return part(uint(1 << (type - 0xc4)));
    if (type <= 0xc9) return extension(uint(1 << (type - 0xc7)));
    if (type === 0xca) return float(view.getFloat32(step(4)));
    if (type === 0xcb) return float(view.getFloat64(step(8)));
    if (type <= 0xce) return uint(1 << (type - 0xcc));
    if (type === 0xcf) return long(view.getBigUint64(step(8)));
    if (type === 0xd0) return view.getInt8(step(1));
    if (type === 0xd1) return view.getInt16(step(2));
    if (type === 0xd2) return view.getInt32(step(4));
    if (type === 0xd3) return long(view.getBigInt64(step(8)));
    if (type <= 0xd8) return extension(1 << (type - 0xd4));
    if (type <= 0xdb) return text(uint(1 << (type - 0xd9)));
    if (type <= 0xdd) return list(uint(2 << (type - 0xdc)), depth);
    return map(uint(2 << (type - 0xde)), depth);
  };
  while (at < bytes.length) yield item(0);
}

/** The one value that bytes hold. Throws as {@link unpackAll}, and for another number of values. */
export function unpack(bytes: Uint8Array): unknown {
  const values = [...unpackAll(bytes)];
  if (values.length !== 1) throw new RangeError(`${values.length} values instead of one`);
  return values[0];
}
