/**
 * Removes the first decoded bytes from a stream that begins with them as literals: the levels of a page are dropped, and its values
 * stay compressed. The reverse of join-streams.ts. @see docs/parquet-format.md [PR-05]
 */

import { at, isEqual, joinBytes } from "../bytes/arrays.ts";
import { type JoinableCodec, joinStreams } from "./join-streams.ts";

/** The first literals of a stream, and how a stream with fewer of them begins. */
interface Head {
  /** Start and end of the literals in the stream. */
  readonly start: number;
  readonly end: number;
  /** The bytes before the rest of the stream, for the remaining literals; these may be empty. */
  begin(literals: Uint8Array): Uint8Array;
}

/**
 * The stream without the prefix. If the rest refers to the removed bytes, the result is damaged.
 *
 * @returns undefined if the stream does not begin with these bytes as literals
 */
export function withoutPrefix(
  codec: JoinableCodec,
  stream: Uint8Array,
  prefix: Uint8Array,
): Uint8Array | undefined {
  if (stream.length <= prefix.length) return undefined;
  const head = HEADS[codec](stream, prefix.length);
  if (head === undefined || head.end > stream.length || head.end - head.start < prefix.length)
    return undefined;
  const values = head.start + prefix.length;
  if (!isEqual(prefix, stream.subarray(head.start, values))) return undefined;
  const begin = head.begin(stream.subarray(values, head.end));
  return joinBytes([begin, stream.subarray(head.end)]);
}

const HEADS: { readonly [codec in JoinableCodec]: (stream: Uint8Array, length: number) => Head | undefined } =
  {
    lz4(stream) {
      const token = at(stream, 0);
      let [start, length] = [1, token >> 4];
      for (let more = length === 15 ? 255 : 0; more === 255 && start < stream.length; length += more)
        more = at(stream, start++);
      const begin = (literals: Uint8Array): Uint8Array => {
        // One sequence without a match; the match of this sequence is added.
        const out = joinStreams("lz4", [{ bytes: literals, stored: true, length: literals.length }]);
        out[0] = at(out, 0) | (token & 15);
        return out;
      };
      return { start, end: start + length, begin };
    },
    // Our own pages have a frame of one stored block for the levels.
    zstd(stream, length) {
      const own = joinStreams("zstd", [{ bytes: new Uint8Array(length), stored: true, length }]);
      const start = own.length - length;
      const isOwn = isEqual(own.subarray(0, start), stream.subarray(0, start));
      return isOwn ? { start, end: own.length, begin: () => new Uint8Array(0) } : undefined;
    },
    snappy(stream, length) {
      let [from, total, factor] = [0, 0, 1];
      for (let more = 128; more >= 128 && from < stream.length; factor *= 128) {
        more = at(stream, from++);
        total += (more & 127) * factor;
      }
      if (from + 5 > stream.length || total < length) return undefined;
      const tag = at(stream, from++);
      if ((tag & 3) !== 0) return undefined;
      let count = tag >> 2;
      if (count >= 60) {
        const bytes = stream.subarray(from, from + count - 59);
        from += bytes.length;
        count = bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
      }
      const begin = (literals: Uint8Array): Uint8Array => {
        // Treats everything after the literals as one more piece.
        const rest = { bytes: Uint8Array.of(0), stored: false, length: total - length - literals.length };
        return joinStreams("snappy", [{ bytes: literals, stored: true, length: literals.length }, rest]);
      };
      return { start: from, end: from + count + 1, begin };
    },
  };
