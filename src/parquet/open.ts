/** Opens Parquet files of any program with hyparquet. Values stay as stored. Knows stores; must not know what values mean. */
import { tableFromIPC } from "@uwdata/flechette";
import { gunzipSync } from "fflate";
import { type FileMetaData, type ParquetParsers, type ParquetScan, parquetScan } from "hyparquet";
import { decodeStreamSync, prepare } from "../codec/index.ts";
import { SuperchunkError } from "../errors.ts";
import type { TimeUnit } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";

/** Keeps dates as counts, and strings as bytes. */
const PARSERS: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (value) => value,
  timestampFromMicroseconds: (value) => value,
  timestampFromNanoseconds: (value) => value,
  dateFromDays: (value) => value,
  stringFromBytes: (value) => value,
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
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SuperchunkError("BAD_FIELD", `this is not a whole Parquet file: ${reason}`, { path, cause });
  }
}

const DURATION = 18;
const UNITS: readonly TimeUnit[] = ["s", "ms", "us", "ns"];

/** The units of durations by column. Parquet stores them as integers, and pyarrow, pandas and this library name them in metadata. */
export function durationsOf({ key_value_metadata: metadata }: FileMetaData): ReadonlyMap<string, TimeUnit> {
  const text = metadata?.find(({ key }) => key === "ARROW:schema")?.value ?? "";
  const units = new Map<string, TimeUnit>();
  try {
    const { schema } = tableFromIPC(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
    for (const { name, type } of schema.fields) {
      let own = type as { readonly typeId: number; readonly unit?: number; readonly children?: unknown[] };
      // The type of the values of a list.
      while (own.children?.length === 1) own = (own.children[0] as { readonly type: typeof own }).type;
      if (own.typeId === DURATION) units.set(name, UNITS[own.unit ?? 0] ?? "s");
    }
  } catch {
    // Without these metadata, columns are what Parquet says.
  }
  return units;
}
