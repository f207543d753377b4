/** Writes hierarchies of the transformer's version as zarr 2.18 does. Knows documents; chunks go through the array. */
import { SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import {
  documentKey,
  ENTRY_DOCUMENT,
  isEntryDocument,
  parseTransformerArray,
  SHARDING_URI,
} from "../document/metadata-transformer.ts";
import { WritableZarrArray } from "../write/writable-array.ts";
import type { WriteSettings } from "../write/write-settings.ts";

/** A new array in the words of the transformer's version. */
export interface TransformerSpecification {
  readonly shape: readonly number[];
  /** numpy's type string. */
  readonly dataType: string;
  /** Shape of a chunk. */
  readonly chunkShape: readonly number[];
  /** Chunks of a shard along each dimension. */
  readonly chunksPerShard: readonly number[];
  /** As version 2 has it without `id`: `{"codec": "blosc", "configuration": {…}}`; null for none. */
  readonly compressor?: {
    readonly codec: "blosc" | "gzip" | "zlib" | "zstd";
    readonly configuration: JsonObject;
  } | null;
  readonly fillValue?: JsonValue;
  readonly separator?: "/" | ".";
  readonly order?: "C" | "F";
  readonly attributes?: JsonObject;
}

/** The document of an array, as zarr 2.18 writes it. */
export function transformerDocument(spec: TransformerSpecification): JsonObject {
  const separator = spec.separator ?? "/";
  const compressor = spec.compressor ?? null;
  return {
    attributes: spec.attributes ?? {},
    chunk_grid: { chunk_shape: spec.chunkShape, separator, type: "regular" },
    chunk_memory_layout: spec.order ?? "C",
    ...(compressor === null
      ? {}
      : {
          compressor: {
            codec: `https://purl.org/zarr/spec/codec/${compressor.codec}/1.0`,
            configuration: compressor.configuration,
          },
        }),
    data_type: spec.dataType,
    // zarr 2.18 takes "/" where there is no member, and refuses other places for it.
    ...(separator === "." ? { dimension_separator: "." } : {}),
    extensions: [],
    fill_value: spec.fillValue ?? 0,
    shape: spec.shape,
    storage_transformers: [
      {
        configuration: { chunks_per_shard: spec.chunksPerShard.length === 0 ? [1] : spec.chunksPerShard },
        extension: SHARDING_URI,
        type: "indexed",
      },
    ],
  };
}

/** Refuses attributes that zarr 2.18 would take for filters of the array. Throws `UNSUPPORTED`. [FK-05] */
export function refuseFilters(attributes: JsonObject, path: string): void {
  if (!Object.hasOwn(attributes, "filters")) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    'the array has an attribute "filters", which zarr 2.18 would undo as filters of its chunks; give it another name',
    { path, field: "attributes.filters", found: attributes["filters"] },
  );
}

/**
 * Makes an array in a hierarchy, and the hierarchy where there is none at `base`. Throws `CONFLICT` where the array
 * is, or where something else than such a hierarchy is; `UNSUPPORTED` for an attribute `filters`.
 */
export async function createTransformerArray(
  store: WritableStore,
  base: string,
  path: string,
  spec: TransformerSpecification,
  settings: WriteSettings = {},
): Promise<WritableZarrArray> {
  refuseFilters(spec.attributes ?? {}, store.describe(joinKey(base, documentKey(path, "array"))));
  const entryKey = joinKey(base, "zarr.json");
  const entry = await store.get(entryKey);
  if (entry === undefined) await store.put(entryKey, encodeJson(ENTRY_DOCUMENT), { ifAbsent: true });
  else if (!isEntryDocument(parseJson(entry, store.describe(entryKey)))) {
    throw new SuperchunkError("CONFLICT", "another kind of Zarr node is there; choose another folder", {
      path: store.describe(entryKey),
    });
  }
  const key = joinKey(base, documentKey(path, "array"));
  const document = transformerDocument(spec);
  const model = parseTransformerArray(document, base, path, key, store.describe(key));
  await store.put(key, encodeJson(document), { ifAbsent: true });
  return new WritableZarrArray(store, model, settings);
}

function encodeJson(document: JsonObject): Uint8Array {
  return new TextEncoder().encode(stringifyJson(document, { indent: 4 }));
}
