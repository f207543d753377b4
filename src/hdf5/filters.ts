/** The filters of HDF5 as Zarr calls them, and chunks with and without them; the decoder of LZF. Must not know where chunks lie. */
import type { FramedChunk, UnframedChunk } from "../blosc2/hdf5-chunk.ts";
import { at, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import type { Chain } from "../zarr/codecs/chain.ts";
import type { CustomCodecs } from "../zarr/codecs/stage.ts";
import type { Hdf5Dataset, Hdf5Filter } from "./objects.ts";

/** The filter whose chunks are Blosc2 frames with one chunk. */
export const BLOSC2 = 32026;
/** The filter of h5py for LZF, which Zarr does not have: the chunks of datasets with it are compressed again. */
export const LZF = 32000;
const BLOSC2_CODECS = ["blosclz", "lz4", "lz4hc", "lz4", "zlib", "zstd"];
const BLOSC = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

/** Filters of HDF5 itself that are refused; newer files do not store their names. */
const REFUSED: Readonly<Record<number, string>> = { 4: "szip", 5: "nbit", 6: "scaleoffset" };

/** Bytes of a checksum. */
const SUM = 4;
/** Most bytes that filters add to a chunk. */
export const ADDED = 65_536;

/** Why readers of Zarr cannot undo the filters up to {@link BLOSC2}; undefined if they can. */
export function whyForeign({ filters, layout, type }: Hdf5Dataset): string | undefined {
  if (filters.some(({ id }) => id === LZF))
    return "compressed with LZF (filter 32000), which Zarr does not have";
  let length = layout.kind === "chunked" ? elementsOf(layout.chunks) * type.size : 0;
  for (const { id, values } of filters) {
    if (id === BLOSC2) break;
    if (id === 2 && length % (values[0] ?? type.size) !== 0)
      return "shuffled after a checksum, as by PyTables before 3.10, or after a compressor, which readers of Zarr refuse";
    length += id === 2 ? 0 : id === 3 ? SUM : Number.NaN;
  }
  return undefined;
}

/** Bytes of the checksums that filters add. */
export function sumBytesOf(filters: readonly JsonObject[]): number {
  return SUM * filters.filter(({ id }) => id === "fletcher32").length;
}

/** Converts a chunk of filter 32026, a Blosc2 frame, to a Blosc1 chunk. */
export async function unframe(bytes: Uint8Array, outer: Chain, inside: FramedChunk): Promise<UnframedChunk> {
  const { frameAsBlosc1 } = await import("../blosc2/hdf5-chunk.ts");
  return frameAsBlosc1(await undo(bytes, outer, bytes.length), inside);
}

export async function undo(bytes: Uint8Array, { stages }: Chain, nbytes: number): Promise<Uint8Array> {
  let current = bytes;
  for (const stage of [...stages].reverse()) current = await stage.decode(current, nbytes + ADDED, false);
  return current;
}

export async function encodeAll(
  bytes: Uint8Array,
  { from, to, nbytes }: { from: Chain; to: Chain; nbytes: number },
): Promise<Uint8Array> {
  let current = await undo(bytes, from, nbytes);
  for (const stage of to.stages) current = await stage.encode(current);
  return current;
}

/** The numcodecs configuration of an HDF5 filter. Throws `UNSUPPORTED` for unknown ones. */
export function asZarrFilter(
  { id, name, values }: Hdf5Filter,
  { dataset, path }: { dataset: Hdf5Dataset; path: string },
): JsonObject {
  const [level, , size = 0] = values;
  switch (id) {
    case 1:
      return { id: "zlib", level: level ?? 1 };
    case 2:
      return { id: "shuffle", elementsize: level ?? dataset.type.size };
    case 3:
      return { id: "fletcher32" };
    case 32001:
    case BLOSC2: {
      const [, , , , clevel = 5, shuffle = 1, compressor = 0] = values;
      return {
        id: "blosc",
        cname: (id === BLOSC2 ? BLOSC2_CODECS : BLOSC)[compressor] ?? "lz4",
        clevel: Math.min(9, clevel),
        shuffle: id === BLOSC2 && shuffle !== 2 ? 1 : Math.min(2, shuffle),
        blocksize: 0,
      };
    }
    case LZF:
      return { id: "lzf", size };
    case 32015:
      return { id: "zstd", level: level ?? 3 };
    default: {
      const what = `filter ${id} (${name || REFUSED[id] || "without a name"})`;
      throw new SuperchunkError(
        "UNSUPPORTED",
        `its chunks are written with ${what}; deflate, shuffle, fletcher32, LZF (32000), Blosc (32001), Blosc2 (32026) and zstd (32015) are known. Read it with h5py and hdf5plugin, and write it with one of them`,
        { path, field: "filters", expected: "1, 2, 3, 32000, 32001, 32015 or 32026", found: id },
      );
    }
  }
}

/** The codec of {@link LZF}, for chains that decode. Runs of bytes, and copies of at least three bytes from at most 8 KiB before. */
export const LZF_CODEC: CustomCodecs = {
  lzf: {
    fromConfig: ({ size }) => ({
      encode: (bytes) => bytes,
      decode: (bytes) => {
        // The size is that of a chunk, and filters before this one can add to it.
        const out = new Uint8Array(Math.min(Number(size) + ADDED, bytes.length * 132));
        let [from, to] = [0, 0];
        const next = (): number => bytes[from++] || 0;
        while (from < bytes.length) {
          const head = next();
          const isRun = head < 32;
          const length = isRun ? head + 1 : (head >> 5) + 2 + (head >> 5 === 7 ? next() : 0);
          const start = isRun ? from : to - ((head & 31) << 8) - next() - 1;
          if (
            from > bytes.length ||
            start < 0 ||
            to + length > out.length ||
            (isRun && start + length > bytes.length)
          )
            throw new RangeError(`the bytes before ${from} lead out of the chunk`);
          if (isRun) from += length;
          for (let i = start; i < start + length; i++) out[to++] = at(isRun ? bytes : out, i);
        }
        return out.subarray(0, to);
      },
    }),
  },
};
