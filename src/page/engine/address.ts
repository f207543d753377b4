/**
 * What an address holds: an archive, an array, or a group with everything that its documents list. Loaded for addresses only.
 *
 * Knows web servers; must not know how archives are shown.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { FoundReadable } from "../../open/find-readables.ts";
import type { Readable } from "../../open/open.ts";
import type { OpenPlace } from "../../places/placed-store.ts";
import { HttpStore } from "../../store/http.ts";
import type { ReadableStore } from "../../store/types.ts";
import { withCoalescing } from "../../store/wrappers/coalescing.ts";
import { withReadAhead } from "./read-ahead.ts";

/** Something that was found, how it is opened, and what is open already. */
interface AtAddress {
  readonly name: string;
  readonly found: FoundReadable;
  readonly openIt: () => Promise<Readable>;
  readonly node?: Readable | undefined;
}

type OpenAt = (
  store: ReadableStore,
  path: string,
  isNode: boolean,
  openPlace: OpenPlace | undefined,
  allow: readonly string[],
) => Promise<Readable>;

/** Finds everything. Throws `BAD_ARGUMENT` for what no browser reads, such as `s3://`. */
export async function* findAtAddress(
  address: string,
  openAt: OpenAt,
  signal: AbortSignal | undefined,
): AsyncGenerator<AtAddress> {
  const url = new URL(address);
  if (!/^https?:$/.test(url.protocol))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `a browser reads https:// and http:// addresses only; give the object's https:// address, or run "superchunk view ${address}", whose server reads it for the page`,
      { path: address },
    );
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const path = decodeURIComponent(parts.pop() ?? "");
  url.pathname = `/${parts.map((part) => `${part}/`).join("")}`;
  const store = withReadAhead(withCoalescing(new HttpStore(url.href)));
  const name = path === "" ? url.host : path;
  // Sets of references may read the server that they are on.
  const allow = [`${url.origin}/`];
  const openHere = (at: string, isNode = false) => openAt(store, at, isNode, undefined, allow);
  let node: Readable;
  try {
    node = await openHere(path);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    // To open it again would repeat all tries.
    yield { name, found: { path, error }, openIt: () => Promise.reject(error) };
    return;
  }
  if (node.kind !== "group") {
    yield { name, found: { path }, openIt: () => openHere(path), node };
    return;
  }
  // Over HTTP, groups without consolidated metadata are found with an error instead of their members.
  const { findReadables } = await import("../../open/find-readables.ts");
  for await (const found of findReadables(node, path, { signal })) {
    if (found.isIndex === true) continue;
    const isRoot = found.path === path;
    const openIt = (): Promise<Readable> => openHere(found.path, true);
    yield { name: isRoot ? name : found.path, found, openIt, node: isRoot ? node : undefined };
  }
}
