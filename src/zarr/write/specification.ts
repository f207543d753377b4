/**
 * What is wrong with the specification of a new array, in the words of the specification: those of the document that it would
 * become are not the caller's. Knows both; must not know stores.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { ZarrSpecification } from "./create.ts";

const MEMBERS: { readonly [name in keyof Required<ZarrSpecification>]: true } = {
  ...{ shape: true, dataType: true, chunkShape: true, shardShape: true, codecs: true, indexLocation: true },
  ...{ indexCodecs: true, order: true, chunkGrid: true, fillValue: true, attributes: true },
  ...{ dimensionNames: true, separator: true },
};

/** Refuses members that would do nothing. Throws `BAD_ARGUMENT`. */
export function checkMembers(spec: ZarrSpecification): void {
  for (const [name, value] of Object.entries(spec)) {
    if (!(name in MEMBERS))
      throw wrong(name, "is no member of a specification", Object.keys(MEMBERS).join(", "), value);
  }
  for (const name of ["indexLocation", "indexCodecs"] as const) {
    if (spec[name] === undefined || spec.shardShape !== undefined) continue;
    throw wrong(name, "says how shards are, but there is no shardShape", "shardShape", spec[name]);
  }
  if (spec.chunkGrid !== undefined && spec.shardShape !== undefined) {
    throw wrong(
      "chunkGrid",
      "and shardShape both say how the array is cut; give the grid of the shards alone, and sharding_indexed in codecs",
      "one of them",
      spec.chunkGrid,
    );
  }
}

/** An error of the document as one of the specification; others as they are. */
export function explainRefusal(error: unknown, spec: ZarrSpecification): unknown {
  if (!isSuperchunkError(error)) return error;
  const { field = "", expected, found } = error.details;
  const member = memberOf(field, spec);
  if (error.code === "BAD_FIELD")
    return wrong(member, `is wrong: ${inDocument(field)}${show(found)}`, textOf(expected), found);
  if (error.code !== "UNSUPPORTED") return error;
  return new SuperchunkError("UNSUPPORTED", `the specification's ${member}: ${error.summary}`, {
    ...(found === undefined ? {} : { found }),
    field: member,
  });
}

/** The member that a field of the document comes from. */
function memberOf(field: string, spec: ZarrSpecification): string {
  if (/^(dataType|data_type)\b/.test(field)) return "dataType";
  if (field.startsWith("chunk_grid"))
    return spec.chunkGrid !== undefined
      ? "chunkGrid"
      : spec.shardShape === undefined
        ? "chunkShape"
        : "shardShape";
  if (field.startsWith("codecs")) {
    const isOwn = spec.shardShape !== undefined;
    const [, first, inside = ""] = /^codecs\.(\d+)\.configuration\.?(.*)$/.exec(field) ?? [];
    if (spec.order !== undefined && first === "0") return "order";
    if (isOwn && inside.startsWith("index_location")) return "indexLocation";
    if (isOwn && inside.startsWith("index_codecs")) return "indexCodecs";
    return isOwn && inside.startsWith("chunk_shape") ? "chunkShape" : "codecs";
  }
  if (field.startsWith("chunk_key_encoding")) return "separator";
  const [first = ""] = field.split(".");
  // What no JSON can say.
  if (first === "JSON") return "attributes";
  return { fill_value: "fillValue", dimension_names: "dimensionNames" }[first] ?? first;
}

function wrong(member: string, what: string, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `the specification's ${member} ${what}; expected ${expected}. Nothing was made`,
    { field: member, expected, found },
  );
}

/** Where in the document, for members that are many things. */
function inDocument(field: string): string {
  const isDeep = field.startsWith("codecs.") || field.includes(".configuration.");
  return isDeep ? `as a document ${field} is ` : "it is ";
}

function show(found: unknown): string {
  if (found === undefined) return "missing";
  const text = JSON.stringify(found, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function textOf(expected: unknown): string {
  return typeof expected === "string" ? expected : show(expected);
}
