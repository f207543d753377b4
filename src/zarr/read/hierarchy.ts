/**
 * Nodes of the experimental version 3 of zarr 2.13 to 2.18, which have paths below their hierarchy's root.
 *
 * Loaded for such hierarchies only. Knows where documents are; the metadata module knows what they mean.
 */
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { hasEntries, joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { CustomCodecs } from "../codecs/stage.ts";
import { DOCUMENT } from "../document/make-v3.ts";
import {
  documentKey,
  parseEntryDocument,
  parseTransformerArray,
  parseTransformerGroup,
} from "../document/metadata-transformer.ts";
import type { ArrayModel, GroupModel } from "../document/model.ts";
import type { ZarrArray } from "./array.ts";
import { ZarrGroup } from "./group.ts";

/** A hierarchy: its root, its entry document, and how its nodes are opened. */
interface Hierarchy {
  readonly store: ReadableStore;
  readonly base: string;
  readonly entry: JsonValue;
  readonly codecs: CustomCodecs | undefined;
  readonly signal: AbortSignal | undefined;
  /** A document as JSON; undefined if there is none. */
  readonly read: (key: string) => Promise<JsonValue | undefined>;
  readonly openModel: (model: ArrayModel) => Promise<ZarrArray>;
}

/** Opens the node at a path of a hierarchy. Throws `NOT_FOUND`, and the codes of damaged documents. */
export async function openInHierarchy(hierarchy: Hierarchy, path: string): Promise<ZarrArray | ZarrGroup> {
  const { store, base, entry, codecs, read, openModel } = hierarchy;
  const suffix = parseEntryDocument(entry, store.describe(joinKey(base, DOCUMENT)));
  const arrayKey = joinKey(base, documentKey(path, "array", suffix));
  const array = await read(arrayKey);
  if (array !== undefined)
    return openModel(
      parseTransformerArray(array, base, path, arrayKey, { name: store.describe(arrayKey), codecs }),
    );
  const groupKey = joinKey(base, documentKey(path, "group", suffix));
  const group = await read(groupKey);
  // A group may have no document and exist only through its members. The root always exists.
  if (group === undefined && path !== "" && (await isEmpty(documentsOf(hierarchy, path, suffix)))) {
    if (await hasData(hierarchy, path))
      throw new SuperchunkError(
        "INCOMPLETE",
        "the document of the array is missing, but data are stored for it, which cannot be read without. Look for a copy of the document",
        { path: store.describe(arrayKey), field: "document", expected: "a document", found: "only data" },
      );
    throw new SuperchunkError("NOT_FOUND", `no node "${path}" in the hierarchy`, {
      path: store.describe(arrayKey),
    });
  }
  const members = (): AsyncIterable<string> => membersOf(hierarchy, path, suffix);
  const document: JsonObject = {};
  const model: GroupModel = parseTransformerGroup(
    group ?? document,
    joinKey(base, path),
    store.describe(groupKey),
  );
  return new ZarrGroup(store, model, {
    members,
    open: (name) => openInHierarchy(hierarchy, joinKey(path, name)),
  });
}

/** The names that documents give, and then those of data without a document. */
async function* membersOf(hierarchy: Hierarchy, path: string, suffix: string): AsyncGenerator<string> {
  const seen = new Set<string>();
  for await (const name of documentsOf(hierarchy, path, suffix)) {
    seen.add(name);
    yield name;
  }
  const { store, base, signal } = hierarchy;
  for await (const { name, kind } of store.list(joinKey(base, DATA, path), { signal }))
    if (kind === "folder" && !seen.has(name) && (await hasData(hierarchy, joinKey(path, name)))) yield name;
}

/** Folder of the chunks, below that of the hierarchy. */
const DATA = "data/root";

function hasData({ store, base, signal }: Hierarchy, path: string): Promise<boolean> {
  return hasEntries(store, joinKey(base, DATA, path), { signal });
}

async function* documentsOf(
  { store, base, signal }: Hierarchy,
  path: string,
  suffix: string,
): AsyncGenerator<string> {
  const seen = new Set<string>();
  for await (const { name, kind } of store.list(joinKey(base, "meta/root", path), { signal })) {
    const ending = [`.array${suffix}`, `.group${suffix}`].find((each) => name.endsWith(each));
    const member =
      kind === "folder" ? name : ending === undefined ? undefined : name.slice(0, -ending.length);
    if (member === undefined || seen.has(member)) continue;
    seen.add(member);
    yield member;
  }
}

async function isEmpty(names: AsyncIterable<string>): Promise<boolean> {
  for await (const _ of names) return false;
  return true;
}
