/**
 * What an address holds: an archive, an array, or a group with everything that its documents list. Loaded for addresses only.
 *
 * Knows web servers; must not know how archives are shown.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { FoundReadable } from "../../open/find-readables.ts";
import type { Readable } from "../../open/open.ts";
import type { OpenAnyOptions } from "../../open/open-node.ts";
import { HttpStore } from "../../store/http.ts";
import type { ReadableStore } from "../../store/types.ts";
import { withCoalescing } from "../../store/wrappers/coalescing.ts";
import { withReadAhead } from "./read-ahead.ts";

/** Something that was found, and how it is opened. */
interface AtAddress {
  readonly name: string;
  readonly found: FoundReadable;
  readonly openIt: (signal?: AbortSignal) => Promise<Readable>;
}

type OpenAt = (
  store: ReadableStore,
  path: string,
  isNode: boolean,
  options: OpenAnyOptions,
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
  // A percent sign stands for itself unless it begins an escape.
  const path = decodeURIComponent((parts.pop() ?? "").replaceAll(/%(?![\da-f]{2})/gi, "%25"));
  url.pathname = `/${parts.map((part) => `${part}/`).join("")}`;
  const store = withReadAhead(withCoalescing(new HttpStore(url.href)));
  const name = path === "" ? url.host : path;
  // Sets of references may read the server that they are on.
  const allow = [`${url.origin}/`];
  let node: Readable;
  try {
    node = await openAt(store, path, false, { allow, signal });
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    // To open it again would repeat all tries.
    yield { name, found: { path, error }, openIt: () => Promise.reject(error) };
    return;
  }
  // To open it again would repeat its requests.
  const openRoot = async (): Promise<Readable> => node;
  if (node.kind !== "group") {
    yield { name, found: { path }, openIt: openRoot };
    return;
  }
  // Over HTTP, groups without consolidated metadata are found with an error instead of their members.
  const { findReadables } = await import("../../open/find-readables.ts");
  for await (const found of findReadables(node, path, { signal })) {
    if (found.isIndex === true) continue;
    if (found.path === path) yield { name, found, openIt: openRoot };
    else {
      const openIt: AtAddress["openIt"] = (end) => openAt(store, found.path, true, { allow, signal: end });
      yield { name: found.path, found, openIt };
    }
  }
}
