/**
 * kerchunk's references as JSON, version 1: one object from keys of a Zarr store to documents and places.
 *
 * Our guards stand beside them in a member of their own, which other readers pass over. @see FORMAT.md [FV-01]
 */
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { chunkKey } from "../../zarr/document/zarr-metadata.ts";
import { PackedTexts } from "../plan/packed-texts.ts";
import type { ReferenceItem } from "../plan/reference-stream.ts";
import { toBase64 } from "./base64.ts";
import { toZarr2, ZGROUP, zarr2ChunkKey } from "./zarr2-documents.ts";

/** Characters that are put together before they are handed on. */
const PIECE = 1 << 16;

/** Version of the Zarr documents in a set of references. */
export type ReferenceFormat = 2 | 3;

/**
 * The text of a set of references, piece by piece; memory stays flat but for the guards, packed, of which there is
 * one an object.
 */
export async function* formatKerchunkJson(
  items: AsyncIterable<ReferenceItem>,
  format: ReferenceFormat,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  const guards = new PackedTexts();
  let hasGuards = false;
  let text = '{"version":1,"refs":{';
  let separator = "\n";
  const add = (key: string, value: string): void => {
    text += `${separator}${JSON.stringify(key)}:${value}`;
    separator = ",\n";
  };
  const name = format === 2 ? zarr2ChunkKey : chunkKey;
  let location = "";
  let quoted = "";
  for await (const item of items) {
    switch (item.kind) {
      case "group":
      case "array":
        for (const [key, document] of documentsOf(item, format))
          add(key, JSON.stringify(stringifyJson(document)));
        break;
      case "native":
        add(joinKey(item.node, name(item.index)), `"base64:${toBase64(item.bytes)}"`);
        break;
      case "virtual":
        if (item.location !== location) {
          location = item.location;
          quoted = JSON.stringify(location);
        }
        add(joinKey(item.node, name(item.index)), `[${quoted},${item.offset},${item.length}]`);
        break;
      case "object": {
        const { size, lastModified, etag } = item.guard;
        const guard = JSON.stringify([size, lastModified ?? null, etag ?? null]);
        guards.add(`${hasGuards ? ",\n" : "\n"}${JSON.stringify(item.location)}:${guard}`);
        hasGuards = true;
      }
    }
    if (text.length > PIECE) {
      yield encoder.encode(text);
      text = "";
    }
  }
  text += "\n}";
  if (hasGuards) text += ',"guards":{';
  for (const guard of guards) {
    text += guard;
    if (text.length <= PIECE) continue;
    yield encoder.encode(text);
    text = "";
  }
  yield encoder.encode(`${text}${hasGuards ? "\n}" : ""}}\n`);
}

/** Documents of a node by their key. */
export function documentsOf(
  item: Extract<ReferenceItem, { kind: "group" | "array" }>,
  format: ReferenceFormat,
): [key: string, document: JsonObject][] {
  if (item.kind === "group") {
    const { node, document } = item;
    if (format === 3) return [[joinKey(node, "zarr.json"), document]];
    return [
      [joinKey(node, ".zgroup"), ZGROUP],
      [joinKey(node, ".zattrs"), (document["attributes"] ?? {}) as JsonObject],
    ];
  }
  const { node, document, job } = item.array;
  if (format === 3) return [[joinKey(node, "zarr.json"), document]];
  if (item.array.sampledBytes !== undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "references to whole shards need documents of Zarr v3, which know shards: write kerchunk JSON of Zarr v3, or Icechunk",
      { path: node, field: "format", expected: 3, found: 2 },
    );
  }
  const { zarray, zattrs } = toZarr2(job, document);
  return [
    [joinKey(node, ".zarray"), zarray],
    [joinKey(node, ".zattrs"), zattrs],
  ];
}
