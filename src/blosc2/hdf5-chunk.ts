/** HDF5 chunks of filter 32026: Blosc2 frames with one chunk, from PyTables and hdf5plugin [BH-01]. */
import { joinBytes } from "../bytes/arrays.ts";
import { HERE } from "../codec/made.ts";
import { readBlosc2Header } from "../codec2/header.ts";
import { toBlosc1 } from "../codec2/restream.ts";
import { SuperchunkError } from "../errors.ts";
import { MemoryStore } from "../store/memory.ts";
import { whyNotCopied } from "./cut.ts";
import { type Frame, readFrame } from "./frame.ts";
import { frameStore, openBlosc2 } from "./open.ts";

const KEY = "chunk";

/** Decoded size of an HDF5 chunk in bytes: of the whole chunk, of checksums after it, and of the rows that are in the dataset. */
export interface FramedChunk {
  /** The most if `least` is undefined: a filter before Blosc2 compressed the chunk. */
  readonly nbytes: number;
  readonly sums: number;
  readonly least: number | undefined;
  readonly typesize: number;
}

/** A Blosc1 chunk of all bytes, with the checksums if the frame has them. */
export interface UnframedChunk {
  readonly chunk: Uint8Array;
  readonly isSummed: boolean;
}

/**
 * Returns the frame's values as one Blosc1 chunk. Copies the streams of the frame if its blocks are consecutive, which only blocks of
 * several dimensions are not.
 *
 * @throws BAD_FIELD if the frame has another size, BAD_MAGIC for what is not a frame, and as reading a frame
 */
export async function frameAsBlosc1(
  image: Uint8Array,
  { sums, least, typesize, ...given }: FramedChunk,
): Promise<UnframedChunk> {
  const store = new MemoryStore(new Map([[KEY, image]]));
  const frame = await readFrame(store, KEY);
  if (frame === undefined)
    throw new SuperchunkError("BAD_MAGIC", "the chunk is not a frame of Blosc2; the file is damaged", {
      field: "chunk",
    });
  frameStore(store, frame); // checks that the metalayer b2nd fits the frame
  const nbytes = least === undefined ? Math.min(given.nbytes, frame.nbytes) : given.nbytes;
  const all = nbytes + sums;
  const isSummed = frame.nbytes === all;
  const [only, ...others] = frame.chunks;
  if (only !== undefined && "key" in only && others.length === 0 && isPlain(frame)) {
    const chunk = image.subarray(only.offset, only.end);
    const found = readBlosc2Header(chunk).nbytes;
    if (found === (isSummed ? all : nbytes))
      return { chunk: await toBlosc1(chunk, { maxNbytes: found }), isSummed };
  }
  const array = await openBlosc2(store, KEY);
  const isKnown = array?.kind === "array" && (array.nbytes === all || array.nbytes <= nbytes);
  const bytes = isKnown ? await array.getBytes() : undefined;
  if (bytes === undefined || bytes.length < Math.max(1, least ?? nbytes))
    throw new SuperchunkError(
      "BAD_FIELD",
      `the frame of Blosc2 has ${frame.nbytes} bytes, but the chunk has ${all}; the file is damaged`,
      { field: "nbytes", expected: all, found: frame.nbytes },
    );
  // A table's last chunk can be shorter than the others.
  const missing = Math.max(0, nbytes - bytes.length);
  const whole = missing === 0 ? bytes : joinBytes([bytes, new Uint8Array(missing)]);
  return { chunk: await HERE.encode(whole, { typesize }), isSummed: bytes.length === all };
}

/** Why a frame's streams are not copied, judged by its header. Undefined if they are copied, or the frame is damaged. */
export async function whyFrameEncoded(image: Uint8Array): Promise<string | undefined> {
  const frame = await readFrame(new MemoryStore(new Map([[KEY, image]])), KEY);
  const [only] = frame?.chunks ?? [];
  if (frame === undefined || only === undefined || !("key" in only)) return undefined;
  if (!isPlain(frame)) return "a chunk of Blosc2 has several blocks, which are not rows of it";
  return whyNotCopied(readBlosc2Header(image.subarray(only.offset, only.end)));
}

/** True if the values are in C order. */
function isPlain({ blockBytes, chunkBytes, metalayers }: Frame): boolean {
  return blockBytes >= chunkBytes || !metalayers.has("b2nd");
}
