/** Opens Parquet files of any program with hyparquet. Values stay as stored. Knows stores; must not know what values mean. */
import { gunzipSync } from "fflate";
import {
  type Compressors,
  type ParquetParsers,
  type ParquetScan,
  parquetScan,
  type SchemaElement,
  snappyUncompress,
} from "hyparquet";
import { joinBytes } from "../bytes/arrays.ts";
import { decodeStreamSync, prepare } from "../codec/index.ts";
import { SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import { PageChecks } from "./page-checks.ts";

const kept = <Value>(value: Value): Value => value;
/** Keeps dates as counts, and strings as bytes. */
const PARSERS: Partial<ParquetParsers> = {
  timestampFromMilliseconds: kept,
  timestampFromMicroseconds: kept,
  timestampFromNanoseconds: kept,
  dateFromDays: kept,
  stringFromBytes: kept,
  jsonFromBytes: kept,
  uuidFromBytes: kept,
  geometryFromBytes: kept,
  geographyFromBytes: kept,
};

/** Makes hyparquet return the digits of decimals: it would multiply them by a power of ten that a double does not hold. */
function keepDigits(element: SchemaElement): void {
  const { converted_type: converted, logical_type: logical, scale = 0, precision = 0 } = element;
  if (converted !== "DECIMAL") return;
  if (logical?.type !== "DECIMAL") element.logical_type = { type: "DECIMAL", scale, precision };
  delete element.converted_type;
}

interface Brotli {
  brotliDecompressSync(input: Uint8Array, options: { readonly maxOutputLength: number }): Uint8Array;
}
/** Node.js decodes brotli; browsers do not. */
function findBrotli(): Brotli["brotliDecompressSync"] | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): Brotli | undefined } };
  return process?.getBuiltinModule?.("node:zlib")?.brotliDecompressSync;
}

/** A page of the codec that preceded `LZ4_RAW`: Hadoop put two lengths before each block, other writers did not. */
function decodeOldLz4(input: Uint8Array, length: number): Uint8Array {
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  const blocks: Uint8Array[] = [];
  let [from, left] = [0, length];
  while (from + 8 <= input.length) {
    const [decoded, size] = [view.getUint32(from), view.getUint32(from + 4)];
    from += 8 + size;
    left -= decoded;
    if (left < 0 || from > input.length) break;
    blocks.push(decodeStreamSync("lz4", input.subarray(from - size, from), decoded));
  }
  return left === 0 && from === input.length ? joinBytes(blocks) : decodeStreamSync("lz4", input, length);
}

function decodeSnappy(input: Uint8Array, length: number): Uint8Array {
  const page = new Uint8Array(length);
  snappyUncompress(input, page);
  return page;
}

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
  const brotli = findBrotli();
  const decoders: Compressors = {
    LZ4_RAW: (input, length) => decodeStreamSync("lz4", input, length),
    ZSTD: (input, length) => decodeStreamSync("zstd", input, length),
    LZ4: decodeOldLz4,
    SNAPPY: decodeSnappy,
    GZIP: (input) => gunzipSync(input),
    ...(brotli && { BROTLI: (input, length) => brotli(input, { maxOutputLength: length + 1 }) }),
  };
  let checks: PageChecks | undefined;
  const read = async (from: number, end: number): Promise<ArrayBuffer> => {
    const bytes = await store.getRange(key, { offset: from, length: end - from }, { signal });
    const own = (bytes ?? new Uint8Array(0)).slice();
    checks?.checkPages(own, from);
    return own.buffer;
  };
  try {
    const scan = await parquetScan({
      file: {
        byteLength: size,
        slice(start, end = size) {
          const bytes = read(start < 0 ? size + start : start, end);
          bytes.catch(() => undefined); // hyparquet may start several reads, and wait for the first that fails
          return bytes;
        },
      },
      compressors: Object.fromEntries(
        Object.entries(decoders).map(([codec, decode]) => [
          codec,
          (input: Uint8Array, length: number) => {
            const page = decode(input, length);
            return checks?.checkDecoded(page, input) ?? page;
          },
        ]),
      ),
      parsers: PARSERS,
      utf8: false,
      geoparquet: false,
    });
    const { key_value_metadata: pairs = [], created_by: producer = "" } = scan.metadata;
    if (!Array.isArray(pairs) || typeof producer !== "string")
      throw new TypeError("not what its schema says");
    // fastparquet does not write that a column is required: the number for it is 0, which is what other readers take a missing one for.
    for (const element of scan.metadata.schema.slice(1)) element.repetition_type ??= "REQUIRED";
    scan.metadata.schema.forEach(keepDigits);
    checks = new PageChecks(scan.metadata);
    return scan;
  } catch (cause) {
    if (cause instanceof SuperchunkError || signal?.aborted === true) throw cause;
    const isJs = cause instanceof TypeError || cause instanceof RangeError;
    const reason = isJs ? "; look for another copy" : `: ${(cause as Error).message}`;
    throw new SuperchunkError("BAD_FIELD", `this is not a whole Parquet file${reason}`, { path, cause });
  }
}
