/**
 * Locations of objects as references spell them: URLs with a scheme, without parts that lead elsewhere.
 *
 * A location of a local file is `file://` and its path as it is: readers (fsspec 2026, Icechunk 2) take the text
 * behind it for the path, and decode nothing. Must not know stores.
 */
import { SuperchunkError } from "../../errors.ts";

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\//;
/** Characters that no location has a reason to hold. */
const CONTROL = /\p{Cc}/u;

/** Scheme of a location, in lower case. Throws `BAD_FIELD` where there is none. */
export function schemeOf(location: string): string {
  const scheme = SCHEME.exec(location)?.[1];
  if (scheme === undefined)
    throw badLocation(location, "has no scheme such as file://, https:// or s3://", "BAD_FIELD");
  return scheme;
}

/**
 * Checks a location, or the prefix of a container. Throws `BAD_FIELD` for one without a scheme, with a query or a
 * fragment, and `UNSAFE_PATH` for one with `.` or `..` in it, also where they are written with `%2e`.
 */
export function checkLocation(location: string): string {
  const scheme = schemeOf(location);
  if (CONTROL.test(location)) throw badLocation(location, "has control characters", "UNSAFE_PATH");
  const rest = location.slice(scheme.length + 3);
  const isWeb = scheme === "http" || scheme === "https";
  if (isWeb && /[?#]/.test(rest))
    throw badLocation(location, "has a query or a fragment, which no object's address has", "BAD_FIELD");
  // Of az:// and abfs:// what stands before the @ is the name of a container.
  if (isWeb ? /^[^/]*@/.test(rest) : scheme !== "file" && /^[^/]*:[^/]*@/.test(rest))
    throw badLocation(location, "has a user or a password in it; give credentials by name", "BAD_FIELD");
  for (const part of rest.split(/[/\\]/)) {
    const plain = part.replace(/%2e/gi, ".");
    if (plain === "." || plain === ".." || /%2f|%5c|%00/i.test(part))
      throw badLocation(location, `has the part "${part}", which can lead out of its folder`, "UNSAFE_PATH");
  }
  return location;
}

/** The location of an object that a store describes as a path or a URL. Throws `UNSUPPORTED` for other descriptions. */
export function toLocation(described: string): string {
  // Stores name objects for people: what a URL cannot hold is written in its way.
  if (/^https?:/.test(described))
    return checkLocation(described.replace(/[^\x21-\x7e]|["<>\\^`{|}]/gu, encodeURIComponent));
  if (SCHEME.test(described)) return checkLocation(described);
  if (described.startsWith("/")) return checkLocation(`file://${described}`);
  if (/^[A-Za-z]:[\\/]/.test(described)) return checkLocation(`file:///${described.replaceAll("\\", "/")}`);
  throw new SuperchunkError(
    "UNSUPPORTED",
    "only objects with an absolute path or a URL can be referenced; this store has neither",
    { path: described, field: "location" },
  );
}

/** A name that needs no check and no escape, whatever kind of location it is a part of. */
const PLAIN_NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/;

/** {@link toLocation} for many objects, of which most lie in the folder of the one before. */
export class Locations {
  #described = "";
  #folder: string | undefined;

  /** The location of an object. Throws as {@link toLocation}. */
  of(described: string): string {
    const nameAt = described.lastIndexOf("/") + 1;
    const name = described.slice(nameAt);
    if (nameAt === 0 || !PLAIN_NAME.test(name)) return toLocation(described);
    if (this.#folder === undefined || described.slice(0, nameAt) !== this.#described) {
      const folder = toLocation(`${described.slice(0, nameAt)}x`);
      this.#described = described.slice(0, nameAt);
      this.#folder = folder.slice(0, -1);
    }
    return this.#folder + name;
  }
}

/** The folder that all locations have in common, with its final `/`; undefined where there is none. */
export function commonFolder(locations: Iterable<string>): string | undefined {
  let common: string | undefined;
  for (const location of locations) {
    const folder = location.slice(0, location.lastIndexOf("/") + 1);
    if (common === undefined) common = folder;
    while (!location.startsWith(common)) {
      const shorter: string = common.slice(0, common.lastIndexOf("/", common.length - 2) + 1);
      // A scheme alone, or a scheme and two slashes, is no folder.
      if (shorter.length <= schemeOf(location).length + 3 && !shorter.startsWith("file:///"))
        return undefined;
      common = shorter;
    }
  }
  return common;
}

function badLocation(location: string, reason: string, code: "BAD_FIELD" | "UNSAFE_PATH"): SuperchunkError {
  // A password must not reach a log by way of the message.
  const shown = location.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, "$1***@").replace(/\?.*$/s, "?…");
  return new SuperchunkError(code, `the location "${shown}" ${reason}`, {
    field: "location",
    found: shown,
  });
}
