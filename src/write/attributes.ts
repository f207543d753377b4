/** Changes of user attributes: what is not changed stays as its writer spelled it. */
import { parseJson } from "../format/json.ts";
import { keepFloats } from "../format/json-float.ts";
import { joinMembers, memberText, splitMembers } from "../format/json-members.ts";
import type { JsonInput, JsonObject, JsonObjectInput } from "../format/types.ts";
import type { WritableStore } from "../store/types.ts";
import type { AttributeChanges } from "./editable.ts";

/**
 * Changes the members of the JSON object at a key. Durable when resolved, with all of them as they are now.
 *
 * @throws CONFLICT where another writer put attributes in the meantime; and the codes of damage, NO_SPACE, IO
 */
export async function changeMembers(
  store: WritableStore,
  key: string,
  changes: AttributeChanges,
): Promise<JsonObject> {
  const path = store.describe(key);
  const info = await store.stat(key);
  const members = splitMembers((await store.get(key)) ?? new Uint8Array(0), path);
  for (const [name, value] of Object.entries(changes))
    if (value === undefined) members.delete(name);
    else members.set(name, memberText(value));
  const text = `${joinMembers(members)}\n`;
  // Of two writers one has not read what the other has put.
  const condition = info === undefined ? { ifAbsent: true } : { ifVersion: info.version };
  await store.put(key, new TextEncoder().encode(text), { durable: true, ...condition });
  return parseJson(text, path) as JsonObject;
}

/** Attributes with changes made: a value sets, undefined removes. */
export function withAttributes(stored: JsonInput | undefined, changes: AttributeChanges): JsonObjectInput {
  const before = (stored ?? {}) as JsonObjectInput;
  const attributes: Record<string, JsonInput> = { ...before };
  for (const [name, value] of Object.entries(changes))
    if (value === undefined) delete attributes[name];
    else attributes[name] = value;
  return keepFloats(attributes, before);
}
