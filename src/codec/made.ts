/** The encoder of chunks that are made when they are read. Programs that only show values do without. Must not know what chunks hold. */
import { joinBytes } from "../bytes/arrays.ts";
import { encodeHeader, FLAG, HEADER_LENGTH, typesizeFor } from "./header.ts";
import { type ChunkEncoder, COMPRESSOR_FORMATS } from "./types.ts";

/** Kept, because importing it again costs as much as a small chunk. */
let loaded: ChunkEncoder["encode"] | undefined;

/** The codec of this thread, loaded for the first chunk. */
export const HERE: ChunkEncoder = {
  parallel: 1,
  encode: async (...chunk) => {
    loaded ??= (await import("./encode/encode.ts")).encodeHere.encode;
    return loaded(...chunk);
  },
};

/** Stores the chunks of this thread from now on, and loads no encoder for them. */
export function storeMadeChunks(): void {
  loaded = storeChunk;
}

/** True after {@link storeMadeChunks}. */
export function storesMadeChunks(): boolean {
  return loaded === storeChunk;
}

const storeChunk: ChunkEncoder["encode"] = async (bytes, { cname = "lz4", typesize = 1 }) => {
  const { length: nbytes } = bytes;
  const id = COMPRESSOR_FORMATS.findIndex(({ name }) => cname.startsWith(name));
  const [flags, ctbytes] = [FLAG.memcpyed | FLAG.notSplit | (id << 5), HEADER_LENGTH + nbytes];
  const fields = { flags, typesize: typesizeFor(typesize), nbytes, blocksize: nbytes, ctbytes };
  return joinBytes([encodeHeader(fields), bytes]);
};
