/** Encoding many chunks: here by default, or by an encoder that works on several at a time. Must not know threads. */

import { HEADER_LENGTH } from "../header.ts";
import type { ChunkEncoder, EncodeOptions } from "../types.ts";
import { encode, encodeInto } from "./encode.ts";
import { prepareEncode } from "./encode-prepare.ts";

/** Encodes in the calling thread, one chunk at a time. */
export const encodeHere: ChunkEncoder = {
  parallel: 1,
  encode: async (data, options, room) => {
    if (room === undefined || room.byteLength < data.length + HEADER_LENGTH) return encode(data, options);
    await prepareEncode(options.cname);
    return encodeInto(data, room, options);
  },
};

/**
 * The chunks of data that come one after the other, in order; as many are worked on at a time as the encoder can.
 * Data must stay as they are until their chunk is handed out. Throws what the source and the encoder throw, after the
 * chunks in front of it have been handed out.
 */
export async function* encodeAhead(
  source: AsyncIterable<Uint8Array>,
  options: EncodeOptions,
  encoder: ChunkEncoder = encodeHere,
): AsyncGenerator<Uint8Array> {
  const under: Promise<Uint8Array>[] = [];
  let failure: { readonly error: unknown } | undefined;
  async function* started(): AsyncGenerator<void> {
    try {
      for await (const data of source) {
        const chunk = encoder.encode(data, options);
        chunk.catch(() => undefined); // thrown when its turn comes
        under.push(chunk);
        yield;
      }
    } catch (error) {
      failure = { error };
    }
  }
  try {
    for await (const _ of started()) {
      const first = under.length >= encoder.parallel ? under.shift() : undefined;
      if (first !== undefined) yield await first;
    }
    for (let first = under.shift(); first !== undefined; first = under.shift()) yield await first;
    if (failure !== undefined) throw failure.error;
  } finally {
    await Promise.allSettled(under);
  }
}
