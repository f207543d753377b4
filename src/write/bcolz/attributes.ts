/** User attributes of carrays and tables: `__attrs__`, which only they have. @see FORMAT.md [FA-11] */
import { SuperchunkError } from "../../errors.ts";
import { joinMembers, memberText, splitMembers } from "../../format/json-members.ts";
import type { JsonObjectInput } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { readCarray } from "./carray-state.ts";

/** What becomes of attributes. */
export interface AttributeChanges {
  readonly set?: JsonObjectInput | undefined;
  readonly remove?: readonly string[] | undefined;
}

/**
 * Sets and removes attributes of a carray or a table; the others stay as they are written.
 *
 * @throws NOT_FOUND where there is neither, or no such attribute to remove; UNSUPPORTED for a BLZ root, to which bcolz
 * would append once it had `__attrs__`; CONFLICT where another writer was faster; damage
 */
export async function changeAttributes(
  store: WritableStore,
  path: string,
  { set = {}, remove = [] }: AttributeChanges,
  options: StoreOptions = {},
): Promise<void> {
  const isTable = (await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined;
  if (!isTable) await readCarray(store, path, options);
  const key = joinKey(path, "__attrs__");
  const info = await store.stat(key, options);
  const members = splitMembers((await store.get(key, options)) ?? new Uint8Array(0), store.describe(key));
  for (const name of remove) {
    if (members.delete(name)) continue;
    throw new SuperchunkError("NOT_FOUND", `there is no attribute "${name}"`, {
      path: store.describe(key),
      field: name,
    });
  }
  for (const [name, value] of Object.entries(set)) members.set(name, memberText(value));
  const condition = info === undefined ? { ifAbsent: true } : { ifVersion: info.version };
  await store.put(key, new TextEncoder().encode(`${joinMembers(members)}\n`), condition);
}
