/**
 * The system's libblosc (c-blosc 1.x), called through koffi if the caller asks for it.
 *
 * Header and block starts of chunks are checked here first, as for this library's own kernels. Knows libblosc's functions;
 * must not know archives or threads.
 */

import { decodeSync } from "../../codec/decode/decode.ts";
import { encodeSync } from "../../codec/encode/encode.ts";
import { settleEncode } from "../../codec/encode/encode-settings.ts";
import { decodeHeader, readBlockTable } from "../../codec/header.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { importKoffi, type Koffi } from "./koffi.ts";

/** The functions of libblosc that are used. All calls are synchronous, in the calling thread. */
export interface NativeBlosc {
  /** Path or name of the loaded library. */
  readonly library: string;
  /** Such as `1.21.3`. */
  readonly version: string;
  /** Decodes a whole chunk into `out`, which has its size. Throws as `decodeSync`. */
  decode(chunk: Uint8Array, out: Uint8Array): void;
  /** Encodes one chunk, in a new buffer. Throws as `encodeSync`. */
  encode(data: Uint8Array, options: EncodeOptions): Uint8Array<ArrayBuffer>;
}

/** Names by platform; the environment variable SUPERCHUNK_LIBBLOSC sets another one. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  darwin: ["libblosc.1.dylib", "/opt/homebrew/lib/libblosc.1.dylib", "/usr/local/lib/libblosc.1.dylib"],
  win32: ["blosc.dll", "libblosc.dll"],
};
const SHUFFLE = { noshuffle: 0, shuffle: 1, bitshuffle: 2 } as const;
const MAX_OVERHEAD = 16;

let loaded: Promise<NativeBlosc> | undefined;

/** The system's libblosc, loaded once. Throws `UNSUPPORTED` if koffi or the library is missing. */
export function loadNativeBlosc(): Promise<NativeBlosc> {
  loaded ??= load(process.env["SUPERCHUNK_LIBBLOSC"]);
  loaded.catch(() => {
    loaded = undefined;
  });
  return loaded;
}

async function load(named: string | undefined): Promise<NativeBlosc> {
  const koffi = await importKoffi().catch((cause: unknown) => {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "libblosc was asked for, but the package koffi, which calls it, is not installed: npm install koffi",
      { field: "blosc", expected: "koffi", found: "nothing", cause },
    );
  });
  const names = named === undefined ? (NAMES[process.platform] ?? ["libblosc.so.1", "libblosc.so"]) : [named];
  const failures: string[] = [];
  for (const name of names) {
    try {
      return bind(koffi.load(name), name);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new SuperchunkError(
    "UNSUPPORTED",
    `libblosc was asked for, but cannot be loaded (${failures.join("; ")}). Install it (Debian: libblosc1), name its file in SUPERCHUNK_LIBBLOSC, or do without`,
    { field: "blosc", expected: names.join(", "), found: "nothing" },
  );
}

function bind(library: ReturnType<Koffi["load"]>, name: string): NativeBlosc {
  const version: () => string = library.func("const char *blosc_get_version_string(void)");
  const list: () => string = library.func("const char *blosc_list_compressors(void)");
  /** Builds differ: Debian's and python-blosc's in snappy. This library handles compressors that are missing. */
  const compressors = new Set(list().split(","));
  const decompress: (chunk: Uint8Array, out: Uint8Array, length: number, threads: number) => number =
    library.func("int blosc_decompress_ctx(const void *src, _Out_ void *dest, size_t destsize, int threads)");
  const compress: (
    clevel: number,
    shuffle: number,
    typesize: number,
    length: number,
    data: Uint8Array,
    out: Uint8Array,
    room: number,
    cname: string,
    blocksize: number,
    threads: number,
  ) => number = library.func(
    "int blosc_compress_ctx(int clevel, int doshuffle, size_t typesize, size_t nbytes, const void *src, _Out_ void *dest, size_t destsize, const char *compressor, size_t blocksize, int threads)",
  );
  return {
    library: name,
    version: version(),
    decode(chunk, out) {
      const header = decodeHeader(chunk);
      if (!compressors.has(header.compressor)) {
        decodeSync(chunk, { out });
        return;
      }
      if (!header.memcpyed && header.nbytes > 0) readBlockTable(chunk, header);
      if (out.length !== header.nbytes)
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          `out has ${out.length} bytes, but the chunk decodes to ${header.nbytes}`,
          {
            field: "out",
            expected: header.nbytes,
            found: out.length,
          },
        );
      if (header.nbytes === 0) return;
      const written = decompress(chunk, out, out.length, 1);
      if (written !== header.nbytes)
        throw new SuperchunkError(
          "BAD_CHUNK",
          `libblosc decoded ${written} where ${header.nbytes} bytes were promised. The chunk is damaged; look for another copy`,
          { field: "payload", expected: header.nbytes, found: written },
        );
    },
    encode(data, options) {
      const { cname, clevel, shuffle, typesize } = settleEncode(data.length, options);
      if (!compressors.has(cname)) return encodeSync(data, options);
      const out = new Uint8Array(data.length + MAX_OVERHEAD);
      const { blocksize = 0 } = options;
      const filter = SHUFFLE[shuffle];
      const { length } = data;
      const written = compress(clevel, filter, typesize, length, data, out, out.length, cname, blocksize, 1);
      if (written <= 0)
        throw new SuperchunkError(
          "UNSUPPORTED",
          `${name} does not encode with ${cname} (it answered ${written})`,
          { field: "cname", expected: "a compressor of the library", found: cname },
        );
      return out.slice(0, written);
    },
  };
}
