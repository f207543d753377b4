/**
 * What a reader that holds an old document takes the shards for, and which other forms may follow under the same keys. Pure.
 *
 * Such a reader looks for an index of the old length. Where the new one has another length its checksum fails; where it has
 * the same, the chunks must be what the old document says. @see FORMAT.md [FY-09]
 */
import { stringifyJson } from "../../format/json-text.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";

/** How the shards of a node are read. */
export interface ShardForm {
  /** Path of the Zarr array below the archive. */
  readonly node: string;
  /** Behind the rows. */
  readonly dimensions: number;
  /** Inner chunks of a shard. */
  readonly capacity: number;
  /** Of a whole inner chunk, decoded. */
  readonly chunkBytes: number;
  /** Data type, shape of an inner chunk and byte order, as JSON. */
  readonly item: string;
}

/** Folders of the archive itself, in which no node lies. */
const ARCHIVES_OWN: readonly string[] = ["data", "meta"];

/** True for the path of a node that a mirror may show: the archive, or below it in no folder of its own. */
export function isNodePath(path: string): boolean {
  if (path === "") return true;
  const parts = path.split("/");
  return !parts.some((part) => ["", ".", ".."].includes(part)) && !ARCHIVES_OWN.includes(parts[0] ?? "");
}

/** What two documents must have in common so that chunks are read alike by both: JSON of it; undefined for no document of ours. */
export function itemOf(document: JsonValue | undefined): string | undefined {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [bytes] = listAt(inner, "codecs");
  const facts = [memberOf(document, "data_type"), memberOf(inner, "chunk_shape"), bytes];
  return facts.includes(undefined) ? undefined : stringifyJson(facts as JsonValue[]);
}

/** True for the document of an array whose shards have this form, compressed as those of a mirror. */
export function isOfForm(document: JsonValue | undefined, form: ShardForm): boolean {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [, compressor] = listAt(inner, "codecs");
  const [rows] = listAt(inner, "chunk_shape");
  const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
  const [shardRows] = listAt(grid, "chunk_shape");
  return (
    itemOf(document) === form.item &&
    memberOf(compressor, "name") === "blosc" &&
    listAt(document, "shape").length === form.dimensions + 1 &&
    typeof rows === "number" &&
    shardRows === rows * form.capacity
  );
}

/** True where two documents tell of the same chunks in the same shards. */
export function isAlike(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  const [one, other] = [a, b].map((document) => {
    const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
    return [itemOf(document), stringifyJson(memberOf(grid, "chunk_shape") ?? null)];
  });
  return one?.[0] !== undefined && one[0] === other?.[0] && one[1] === other?.[1];
}

/** A form that was shown under the same keys, and would be taken for this one. */
export function findMistaken(form: ShardForm, former: readonly ShardForm[]): ShardForm | undefined {
  return former.find(
    ({ node, dimensions, capacity, item }) =>
      node === form.node &&
      (dimensions !== form.dimensions || (capacity === form.capacity && item !== form.item)),
  );
}

/** All forms of two lists, each once. */
export function joinForms(a: readonly ShardForm[], b: readonly ShardForm[]): readonly ShardForm[] {
  const isSame = (one: ShardForm, other: ShardForm): boolean =>
    one.node === other.node && one.capacity === other.capacity && one.item === other.item;
  return [...a, ...b.filter((form) => !a.some((other) => isSame(form, other)))];
}

/** A member of an object; undefined where there is none, or no object. */
export function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return (value as JsonObject)[name];
}

function listAt(value: JsonValue | undefined, name: string): readonly JsonValue[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? (list as readonly JsonValue[]) : [];
}
