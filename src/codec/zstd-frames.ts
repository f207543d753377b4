/**
 * Decodes the zstd frames that c-blosc writes: one for each stream, with its content size. Knows the frame header.
 */
import { zstdLibrary } from "./zstd-library.ts";

const MAGIC = 0xfd2fb528;

/**
 * Decodes a stream of one frame, whose promised size is compared with the room for it before the library allocates.
 *
 * @returns bytes written to `dst`
 * @throws whatever the library throws for a damaged frame
 */
export function inflateZstd(src: Uint8Array, dst: Uint8Array): number {
  const size = readContentSize(src);
  if (size !== dst.length) return size === undefined ? -4 : size > dst.length ? -2 : size;
  const decoded = zstdLibrary().decompress(src);
  if (decoded.length > dst.length) return -2;
  dst.set(decoded);
  return decoded.length;
}

/** Frame_Content_Size of the frame; undefined where the bytes are no frame or do not tell. @see RFC 8878, 3.1.1.1 */
function readContentSize(src: Uint8Array): number | undefined {
  if (src.length < 6) return undefined;
  const view = new DataView(src.buffer, src.byteOffset, src.length);
  if (view.getUint32(0, true) !== MAGIC) return undefined;
  const descriptor = view.getUint8(4);
  const single = (descriptor & 0x20) !== 0;
  const width = [single ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const dictionary = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const at = 5 + (single ? 0 : 1) + dictionary;
  if (width === 0 || at + width > src.length) return undefined;
  if (width === 1) return view.getUint8(at);
  if (width === 2) return view.getUint16(at, true) + 256;
  if (width === 4) return view.getUint32(at, true);
  return Number(view.getBigUint64(at, true));
}
