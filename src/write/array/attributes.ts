/** Changes of `meta/attributes`: what is not changed stays as its writer spelled it. */
import { parseJson } from "../../format/json.ts";
import { joinMembers, memberText, splitMembers } from "../../format/json-members.ts";
import type { JsonInput, JsonObject } from "../../format/types.ts";
import type { ArrayRoot } from "./root.ts";

/**
 * Sets the given attributes, and deletes those that are undefined. Durable when resolved, with all of them as they are now.
 *
 * @throws CONFLICT where another writer put attributes in the meantime; and the codes of damage, NO_SPACE, IO
 */
export async function changeAttributes(
  root: ArrayRoot,
  changes: { readonly [name: string]: JsonInput | undefined },
): Promise<JsonObject> {
  await root.assertOurs();
  const key = root.key("meta/attributes");
  const path = root.store.describe(key);
  const info = await root.store.stat(key);
  const members = splitMembers((await root.store.get(key)) ?? new Uint8Array(0), path);
  for (const [name, value] of Object.entries(changes))
    if (value === undefined) members.delete(name);
    else members.set(name, memberText(value));
  const text = `${joinMembers(members)}\n`;
  // Of two writers one has not read what the other has put.
  const condition = info === undefined ? { ifAbsent: true } : { ifVersion: info.version };
  await root.store.put(key, new TextEncoder().encode(text), { durable: true, ...condition });
  return parseJson(text, path) as JsonObject;
}
