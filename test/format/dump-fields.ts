/**
 * Decodes the bytes of FORMAT.md's dumps with the library, to the names and values that annotations must have.
 * Fields come in the order of their bytes, so that a dump that leaves one out is caught.
 */

import { checkOffsets, decodeOffsets } from "../../src/archive/places/blpk-file.ts";
import { type ChecksumName, DIGEST_LENGTHS, digest } from "../../src/bytes/checksum.ts";
import { decode, decodeHeader as decodeChunkHeader, headLength } from "../../src/codec/index.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeFileHeader } from "../../src/format/encode-file.ts";
import { parseRootdirs } from "../../src/format/folder.ts";
import { type BlpkHeader, checksumByNumber, decodeFileHeader } from "../../src/format/header.ts";
import { decodeJournal, encodeJournal } from "../../src/format/journal.ts";
import { parseJson, stringifyJson } from "../../src/format/json.ts";
import { parseLayout } from "../../src/format/layout.ts";
import { decodeSection, decodeSectionHeader, metadataKind } from "../../src/format/metadata.ts";
import type { JsonObject } from "../../src/format/types.ts";
import { toJsonValue, toValues } from "../../src/values/values.ts";
import { decodeShardIndex } from "../../src/zarr/read/shard-index.ts";
import { errorOf, toHex } from "./hex.ts";
import type { HexDump } from "./hexdump.ts";

/** A decoded field: its length in bytes, its name, its value as text. */
export type Field = readonly [length: number, name: string, value: string];

/** What {@link describeDump} finds. */
export interface Described {
  readonly fields: readonly Field[];
  readonly results: Readonly<Record<string, string>>;
}

/** Decodes a dump by its kind. */
export async function describeDump({ kind, rest, bytes, notes }: HexDump): Promise<Described> {
  switch (kind) {
    case "file-header":
      return plain(headerFields(decodeFileHeader(bytes, "dump"), bytes, false));
    case "metadata-section":
      return plain(await sectionFields(bytes));
    case "offsets":
      return plain(offsetFields(bytes, rest));
    case "file":
      return plain(await fileFields(bytes));
    case "chunk":
      return await chunkFields(bytes, "");
    case "digest":
      return plain(await digestFields(bytes, rest as ChecksumName));
    case "rootdirs": {
      const { names, dirs } = parseRootdirs(bytes, "dump");
      const [first = ""] = names;
      return plain([
        [
          bytes.length,
          first,
          names.map((name, i) => `${i === 0 ? "" : `${name} = `}${dirs[name]}`).join(", "),
        ],
      ]);
    }
    case "layout": {
      const layout = parseLayout(parseJson(bytes, "dump") as JsonObject, "dump");
      const runs = layout?.runs.map(({ first, chunks }) => `${first}: ${chunks} chunks`);
      const patches = layout?.patches.map(({ number, chunks }) => `${number}: ${chunks.join(" ")}`);
      return plain([[bytes.length, "superchunks", `${runs?.join(", ")}, patches = ${patches?.join(", ")}`]]);
    }
    case "sizes": {
      const { shape, nbytes } = parseJson(bytes, "dump") as JsonObject;
      return plain([[bytes.length, "shape", `${stringifyJson(shape ?? null)}, nbytes = ${nbytes}`]]);
    }
    case "storage": {
      const { dtype, chunklen } = parseJson(bytes, "dump") as JsonObject;
      return plain([[bytes.length, "dtype", `${dtype}, chunklen = ${chunklen}`]]);
    }
    case "json":
      return plain([[bytes.length, "value", stringifyJson(parseJson(bytes, "dump"))]]);
    case "values":
      return plain(valueFields(bytes, rest));
    case "journal":
      return plain(await journalFields(bytes));
    case "shard":
      return plain(await shardFields(bytes));
    case "damaged":
      // The annotations only name the fields; the error is what is tested.
      return plain(
        notes.map((note) => [note.length, note.name, note.value]),
        damage(bytes, rest),
      );
    default:
      throw new Error(`FORMAT.md has a dump of kind "${kind}", which no test decodes`);
  }
}

function plain(fields: readonly Field[], results: Readonly<Record<string, string>> = {}): Described {
  return { fields, results };
}

function headerFields(header: BlpkHeader, bytes: Uint8Array, rawJson: boolean): Field[] {
  if (toHex(encodeFileHeader(header)) !== toHex(bytes.subarray(0, header.headerLength)))
    throw new Error("the header does not encode to its bytes");
  const start: Field[] = [
    [4, "magic", '"blpk"'],
    [1, "version", String(header.version)],
  ];
  if (header.version === 1) return [...start, [3, "reserved", "0"], [8, "nchunks", String(header.nchunks)]];
  const options = [header.offsets ? "offsets" : "", header.metadata ? "metadata" : ""]
    .filter((each) => each !== "")
    .join(" ");
  const last = header.version === 2 ? "reserved" : rawJson ? "meta-size" : "max-app-chunks";
  return [
    ...start,
    [1, "options", options === "" ? "none" : options],
    [1, "checksum", header.checksum],
    [1, "typesize", String(header.typesize)],
    [4, "chunk-size", String(header.chunkSize)],
    [4, "last-chunk", String(header.lastChunk)],
    [8, "nchunks", String(header.nchunks)],
    [8, last, String(rawJson ? header.metaSize : header.maxAppChunks)],
  ];
}

async function sectionFields(bytes: Uint8Array): Promise<Field[]> {
  const header = decodeSectionHeader(bytes.subarray(0, 32), "dump", 0);
  await decodeSection(bytes, "dump", 0);
  if (header.sectionLength !== bytes.length) throw new Error(`the section has ${header.sectionLength} bytes`);
  const textEnd = 32 + header.metaCompSize;
  const roomEnd = 32 + header.maxMetaSize;
  if (bytes.subarray(textEnd, roomEnd).some((byte) => byte !== 0)) throw new Error("the room is not zero");
  return [
    [8, "magic", '"JSON"'],
    [1, "meta-options", "0"],
    [1, "meta-checksum", checksumByNumber(bytes[9] ?? 0, "dump", 9)],
    [1, "meta-codec", header.codec],
    [1, "meta-level", String(header.level)],
    [4, "meta-size", String(header.metaSize)],
    [4, "max-meta-size", String(header.maxMetaSize)],
    [4, "meta-comp-size", String(header.metaCompSize)],
    [8, "user-codec", toHex(header.userCodec)],
    [header.metaCompSize, "text", new TextDecoder().decode(bytes.subarray(32, textEnd))],
    ...(roomEnd > textEnd ? ([[roomEnd - textEnd, "room", "zeros"]] as const) : []),
    [DIGEST_LENGTHS[header.checksum], "digest", toHex(bytes.subarray(roomEnd))],
  ];
}

function offsetFields(bytes: Uint8Array, rest: string): Field[] {
  const [, nchunks = "", at = "", size = ""] = /^nchunks=(\d+) at=(\d+) size=(\d+)$/.exec(rest) ?? [];
  const offsets = decodeOffsets(bytes, "dump", Number(at));
  checkOffsets(offsets, {
    nchunks: Number(nchunks),
    tableAt: Number(at),
    tableEnd: Number(at) + bytes.length,
    fileSize: Number(size),
    path: "dump",
  });
  return Array.from(offsets, (offset, i) => [8, `offset ${i}`, String(offset)]);
}

const COMPRESSORS = ["blosclz", "lz4", "snappy", "zlib", "zstd"];

function flagsText(flags: number): string {
  const words = [
    (flags & 1) !== 0 ? "shuffle" : "",
    (flags & 2) !== 0 ? "memcpyed" : "",
    (flags & 4) !== 0 ? "bitshuffle" : "",
    (flags & 0x10) !== 0 ? "notsplit" : "",
    COMPRESSORS[flags >> 5] ?? "",
  ];
  return words.filter((word) => word !== "").join(" ");
}

/** The fields of one chunk at the start of `bytes`, checked by decoding it. */
async function chunkFields(bytes: Uint8Array, prefix: string): Promise<Described> {
  const header = decodeChunkHeader(bytes);
  const chunk = bytes.subarray(0, header.ctbytes);
  const data = toHex(await decode(chunk));
  const fields: Field[] = [
    [1, "version", String(header.version)],
    [1, "versionlz", String(header.versionlz)],
    [1, "flags", flagsText(header.flags)],
    [1, "typesize", String(header.typesize)],
    [4, "nbytes", String(header.nbytes)],
    [4, "blocksize", String(header.blocksize)],
    [4, "ctbytes", String(header.ctbytes)],
  ];
  if (header.memcpyed) fields.push([header.nbytes, "data", data]);
  else fields.push(...streamFields(chunk, header.nblocks, headLength(header)));
  return {
    fields: fields.map(([length, name, value]) => [length, `${prefix}${name}`, value]),
    results: header.memcpyed ? {} : { data },
  };
}

function streamFields(chunk: Uint8Array, nblocks: number, from: number): Field[] {
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  const fields: Field[] = [];
  for (let i = 0; i < nblocks; i++) fields.push([4, `bstart ${i}`, String(view.getUint32(16 + 4 * i, true))]);
  let stream = 0;
  for (let at = from; at < chunk.length; stream++) {
    const length = view.getInt32(at, true);
    fields.push([4, `stream ${stream} length`, String(length)]);
    fields.push([length, `stream ${stream}`, toHex(chunk.subarray(at + 4, at + 4 + length))]);
    at += 4 + length;
  }
  return fields;
}

/** A whole file: header, metadata, offsets, and every chunk in the order of its bytes. */
async function fileFields(bytes: Uint8Array): Promise<Field[]> {
  const header = decodeFileHeader(bytes, "dump");
  const rawJson = header.metadata && metadataKind(bytes.subarray(32, 40)) === "blz-json";
  const fields = headerFields(header, bytes, rawJson);
  let at: number = header.headerLength;
  if (rawJson) {
    const text = bytes.subarray(at, at + header.metaSize);
    fields.push([text.length, "metadata", stringifyJson(parseJson(text, "dump"))]);
    at += header.metaSize;
  }
  if (header.offsets) {
    const entries = header.nchunks + (rawJson ? 0 : header.maxAppChunks);
    const table = bytes.subarray(at, at + entries * 8);
    const rest = `nchunks=${header.nchunks} at=${at} size=${bytes.length}`;
    fields.push(...offsetFields(table, rest));
    const offsets = decodeOffsets(table, "dump", at);
    at += table.length;
    if (offsets[0] !== at) throw new Error(`chunk 0 is at ${offsets[0]}, not behind the offsets`);
  }
  for (let k = 0; at < bytes.length; k++) {
    const zeros = bytes.subarray(at).findIndex((byte) => byte !== 0);
    if (zeros > 0) fields.push([zeros, "reserve", "zeros"]);
    at += Math.max(0, zeros);
    const { fields: chunk } = await chunkFields(bytes.subarray(at), `chunk ${k} `);
    const { ctbytes } = decodeChunkHeader(bytes.subarray(at));
    fields.push(...chunk);
    const length = DIGEST_LENGTHS[header.checksum];
    if (length > 0) {
      const stored = toHex(bytes.subarray(at + ctbytes, at + ctbytes + length));
      const found = toHex(await digest(header.checksum, bytes.subarray(at, at + ctbytes)));
      if (stored !== found) throw new Error(`the digest of chunk ${k} is ${found}`);
      fields.push([length, `chunk ${k} digest`, stored]);
    }
    at += ctbytes + length;
  }
  return fields;
}

async function digestFields(bytes: Uint8Array, name: ChecksumName): Promise<Field[]> {
  const chunk = bytes.subarray(0, bytes.length - DIGEST_LENGTHS[name]);
  return [
    [chunk.length, "chunk", await storedText(chunk)],
    [DIGEST_LENGTHS[name], "digest", toHex(await digest(name, chunk))],
  ];
}

/** A stored chunk of text. */
async function storedText(chunk: Uint8Array): Promise<string> {
  return `stored ${JSON.stringify(new TextDecoder().decode(await decode(chunk)))}`;
}

function valueFields(bytes: Uint8Array, spelled: string): Field[] {
  const dtype = parseDType(spelled, "dump");
  const [value] = toValues(bytes.slice(), dtype);
  const json = toJsonValue(value, dtype);
  if (dtype.kind !== "struct" || !Array.isArray(json)) throw new Error("not a struct");
  return dtype.fields.map((field, i) => [field.dtype.itemSize, field.name, JSON.stringify(json[i])]);
}

async function journalFields(bytes: Uint8Array): Promise<Field[]> {
  const writes = await decodeJournal(bytes, "dump");
  if (toHex(await encodeJournal(writes)) !== toHex(bytes)) throw new Error("it does not encode to its bytes");
  return [
    [8, "magic", '"blpkredo"'],
    [4, "version", "1"],
    [4, "count", String(writes.length)],
    ...writes.flatMap((write, i): Field[] => [
      [8, `write ${i} offset`, String(write.offset)],
      [8, `write ${i} length`, String(write.bytes.length)],
      [write.bytes.length, `write ${i} bytes`, toHex(write.bytes)],
    ]),
    [32, "digest", toHex(bytes.subarray(-32))],
  ];
}

async function shardFields(bytes: Uint8Array): Promise<Field[]> {
  const index = bytes.slice(20);
  const entries = await decodeShardIndex(index, { path: "dump", size: bytes.length, grid: [2] });
  return [
    [20, "chunk 0", await storedText(bytes.subarray(0, 20))],
    ...entries.flatMap((entry, i): Field[] => [
      [8, `offset ${i}`, entry === undefined ? "absent" : String(entry.offset)],
      [8, `nbytes ${i}`, entry === undefined ? "absent" : String(entry.nbytes)],
    ]),
    [4, "crc32c", toHex(bytes.subarray(bytes.length - 4))],
  ];
}

/** `CODE offset=N field=NAME`: the error that decoding the header must give. */
function damage(bytes: Uint8Array, rest: string): Readonly<Record<string, string>> {
  const { code, details } = errorOf(() => decodeFileHeader(bytes, "dump"));
  const found = `${code} offset=${details.offset} field=${details.field}`;
  if (found !== rest) throw new Error(`the error is ${found}, not ${rest}`);
  return {};
}
