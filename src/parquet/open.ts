/** Opens Parquet files of any program with hyparquet. Values stay as stored. Knows stores; must not know what values mean. */
import { gunzipSync } from "fflate";
import { type ParquetParsers, type ParquetScan, parquetScan } from "hyparquet";
import { decodeStreamSync, prepare } from "../codec/index.ts";
import { SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";

const kept = <Value>(value: Value): Value => value;
/** Keeps dates as counts, and strings as bytes. */
const PARSERS: Partial<ParquetParsers> = {
  ...{ timestampFromMilliseconds: kept, timestampFromMicroseconds: kept, timestampFromNanoseconds: kept },
  ...{ dateFromDays: kept, stringFromBytes: kept, jsonFromBytes: kept, uuidFromBytes: kept },
  ...{ geometryFromBytes: kept, geographyFromBytes: kept },
};

/** Reads the footer. @throws NOT_FOUND, and BAD_FIELD for what is not Parquet */
export async function openParquet(
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<ParquetScan> {
  const path = store.describe(key);
  const size = (await store.stat(key, { signal }))?.size;
  if (size === undefined) throw new SuperchunkError("NOT_FOUND", "no such file", { path });
  await Promise.all([prepare("lz4"), prepare("zstd")]);
  try {
    return await parquetScan({
      file: {
        byteLength: size,
        async slice(start, end = size) {
          const from = start < 0 ? size + start : start;
          const bytes = await store.getRange(key, { offset: from, length: end - from }, { signal });
          return (bytes ?? new Uint8Array(0)).slice().buffer as ArrayBuffer;
        },
      },
      compressors: {
        LZ4_RAW: (input, length) => decodeStreamSync("lz4", input, length),
        ZSTD: (input, length) => decodeStreamSync("zstd", input, length),
        GZIP: (input) => gunzipSync(input),
      },
      parsers: PARSERS,
      utf8: false,
      geoparquet: false,
    });
  } catch (cause) {
    if (cause instanceof SuperchunkError || signal?.aborted === true) throw cause;
    const reason = cause instanceof TypeError ? "; look for another copy" : `: ${(cause as Error).message}`;
    throw new SuperchunkError("BAD_FIELD", `this is not a whole Parquet file${reason}`, { path, cause });
  }
}
