/** Archives made for tests: kinds that the corpus has no sample of. */
import { encode } from "../../../src/codec/index.ts";
import type { EncodeOptions } from "../../../src/codec/types.ts";
import { encodeFileHeader, encodeSection } from "../../../src/format/encode-file.ts";
import { stringifyJson } from "../../../src/format/json.ts";
import type { JsonObject, JsonValue } from "../../../src/format/types.ts";
import type { WritableStore } from "../../../src/store/types.ts";

export interface ArraySettings {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly order?: "C" | "F";
  readonly encode?: EncodeOptions;
  /** Settings for single chunks, by index. */
  readonly encodeChunk?: Readonly<Record<number, EncodeOptions>>;
  readonly attrs?: JsonObject;
}

/** A Bloscpack 0.16 numpy file; `bytes` in stored order. */
export async function putBloscpack(
  store: WritableStore,
  key: string,
  bytes: Uint8Array,
  chunkSize: number,
  settings: ArraySettings,
): Promise<void> {
  const { dtype, shape, order = "C" } = settings;
  const section = await encodeSection({
    dtype: dtype.startsWith("[") ? dtype : `'${dtype}'`,
    shape,
    order,
    container: "numpy",
  });
  const chunks = await cut(bytes, chunkSize, settings);
  const parts = [
    encodeFileHeader({
      version: 3,
      headerLength: 32,
      offsets: false,
      metadata: true,
      checksum: "None",
      typesize: 8,
      chunkSize: Math.min(chunkSize, bytes.length),
      lastChunk: bytes.length - (chunks.length - 1) * chunkSize,
      nchunks: chunks.length,
      maxAppChunks: 0,
      metaSize: 0,
    }),
    section,
    ...chunks,
  ];
  await store.put(key, Buffer.concat(parts));
}

/** A Bloscpack file of plain bytes in one chunk. */
export async function putRaw(store: WritableStore, key: string, bytes: Uint8Array): Promise<void> {
  const header = encodeFileHeader({
    version: 3,
    headerLength: 32,
    offsets: false,
    metadata: false,
    checksum: "None",
    typesize: 1,
    chunkSize: bytes.length,
    lastChunk: bytes.length,
    nchunks: 1,
    maxAppChunks: 0,
    metaSize: 0,
  });
  await store.put(key, Buffer.concat([header, await encode(bytes)]));
}

/** A bcolz 1.2 array. `bytes` in C order. */
export async function putCarray(
  store: WritableStore,
  root: string,
  bytes: Uint8Array,
  chunklen: number,
  settings: ArraySettings & { readonly dflt?: JsonValue },
): Promise<void> {
  const { dtype, shape, dflt = 0, attrs } = settings;
  const rows = shape[0] ?? 0;
  const json = (value: JsonValue): Uint8Array =>
    new TextEncoder().encode(stringifyJson(value, { python: true }));
  const chunks = await cut(bytes, rows === 0 ? 1 : (bytes.length / rows) * chunklen, settings);
  for (const [n, chunk] of chunks.entries()) {
    await store.put(
      `${root}/data/__${n}.blp`,
      Buffer.concat([Uint8Array.of(98, 108, 112, 107, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), chunk]),
    );
  }
  await store.put(`${root}/meta/sizes`, json({ shape, nbytes: bytes.length, cbytes: 0 }));
  await store.put(
    `${root}/meta/storage`,
    json({
      dtype,
      cparams: { clevel: 5, shuffle: 1, cname: "lz4", quantize: 0 },
      chunklen,
      expectedlen: rows,
      dflt,
    }),
  );
  if (attrs !== undefined) await store.put(`${root}/__attrs__`, json(attrs));
}

async function cut(
  bytes: Uint8Array,
  chunkSize: number,
  { encode: all, encodeChunk }: ArraySettings,
): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += chunkSize) {
    chunks.push(await encode(bytes.slice(at, at + chunkSize), { ...all, ...encodeChunk?.[chunks.length] }));
  }
  return chunks;
}
