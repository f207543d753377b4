/** The places of an array as `meta/storage` declares them. Pure. @see FORMAT.md [FG-19] */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { badStored, isObject } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";

/** The read feature of arrays with superchunks that may be stored outside `data`. [FG-19] */
export const PLACES_FEATURE = "places";
/** Name of the array's own folder among the places. */
export const HOME = "data";
/** Schemes of places. */
const SCHEMES = ["file", "http", "https", "s3", "gs", "az"];
/** Most places of an array. */
const MAX_PLACES = 1000;

/** A place besides `data` that holds superchunks. */
export interface StoredPlace {
  /** A word; not `data`. */
  readonly name: string;
  /** A URL with a final `/`: a folder, or an address of a web server or in a bucket. No credentials. */
  readonly prefix: string;
}

/**
 * Place of a new superchunk: the places in turn (`round`), the one with the fewest stored bytes (`size`), or always `data`, from which
 * older superchunks are moved (`tier`).
 */
export type PlaceRule = "round" | "size" | "tier";

const RULES: readonly string[] = ["round", "size", "tier"];

/** The places of an array. */
export interface Placing {
  readonly places: readonly StoredPlace[];
  readonly rule: PlaceRule;
}

export const NO_PLACES: Placing = { places: [], rule: "round" };

/** The places declared in the `meta/storage` at `path`. Throws `BAD_FIELD`, `UNSAFE_PATH`. */
export function parsePlaces(storage: JsonObject, path: string): Placing {
  const declared = storage["superchunk"];
  if (!isObject(declared)) return NO_PLACES;
  const { places = [], placeBy = "round" } = declared;
  if (!Array.isArray(places)) throw badStored(path, "superchunk.places", "a list", places);
  if (typeof placeBy !== "string" || !RULES.includes(placeBy))
    throw badStored(path, "superchunk.placeBy", `one of ${RULES.join(", ")}`, placeBy);
  const found = (places as readonly JsonValue[]).map((stored): StoredPlace => {
    if (isObject(stored) && typeof stored["name"] === "string" && typeof stored["prefix"] === "string")
      return { name: stored["name"], prefix: stored["prefix"] };
    throw badStored(path, "superchunk.places", '{"name": …, "prefix": …}', stored);
  });
  try {
    return checkPlacing({ places: found, rule: placeBy as PlaceRule });
  } catch (error) {
    throw isSuperchunkError(error) ? error.storedAt(path) : error;
  }
}

/** Checks places. Throws `BAD_ARGUMENT`, `UNSAFE_PATH`, `UNSUPPORTED`. */
export function checkPlacing(placing: Placing): Placing {
  const { places } = placing;
  if (places.length > MAX_PLACES) throw wrong(`there are ${places.length} places; at most ${MAX_PLACES}`);
  for (const [i, { name, prefix }] of places.entries()) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) || name === HOME)
      throw wrong(
        `"${name}" is not the name of a place: a word of letters, digits, dots and hyphens, not "${HOME}"`,
      );
    checkPrefix(prefix);
    if (!SCHEMES.includes(schemeOf(prefix)))
      throw new SuperchunkError(
        "UNSUPPORTED",
        `place "${name}": superchunks are not kept at ${schemeOf(prefix)}://`,
        { field: "place", expected: SCHEMES.join(", "), found: schemeOf(prefix) },
      );
    const isWhole = prefix.endsWith("/") && !/^(?!file:)[a-z0-9+.-]+:\/\/\/?$/.test(prefix);
    if (!isWhole || /[?#]/.test(prefix))
      throw wrong(
        `place "${name}": ${prefix} is not the URL of a folder, with "/" at its end and no settings`,
      );
    const twin = places.slice(0, i).find((each) => each.name === name || each.prefix === prefix);
    if (twin !== undefined) throw wrong(`there is a place "${twin.name}" (${twin.prefix}) already`);
  }
  return placing;
}

/** Places given by a caller: with names, or as addresses alone (named `place1`, `place2`, …); `known` are the existing ones. */
export function givenPlaces(
  given: readonly (string | StoredPlace)[],
  known: readonly StoredPlace[] = [],
  addressOf: (place: string) => string = (place) => place,
): StoredPlace[] {
  const names = new Set([...known, ...given].map((each) => (typeof each === "string" ? "" : each.name)));
  let next = 1;
  return given.map((each) => {
    if (typeof each !== "string") return { name: each.name, prefix: prefixOf(addressOf(each.prefix)) };
    while (names.has(`place${next}`)) next++;
    return { name: `place${next++}`, prefix: prefixOf(addressOf(each)) };
  });
}

/** The prefix of an address: with a final "/", and without the settings that an address in a bucket may have. */
function prefixOf(address: string): string {
  const [place = ""] = address.split("?");
  return place.endsWith("/") ? place : `${place}/`;
}

/** The members of `superchunk` in `meta/storage` for the places; empty if there are none. */
export function encodePlaces({ places, rule }: Placing): JsonObject {
  if (places.length === 0) return {};
  return { places: places.map(({ name, prefix }) => ({ name, prefix })), placeBy: rule };
}

/** The place with this name; undefined for `data`. Throws `NOT_FOUND`. */
export function placeNamed({ places }: Placing, name: string): StoredPlace | undefined {
  if (name === HOME) return undefined;
  const found = places.find((place) => place.name === name);
  if (found !== undefined) return found;
  const known = [HOME, ...places.map((place) => place.name)].join(", ");
  throw new SuperchunkError("NOT_FOUND", `unknown place "${name}"; expected one of ${known}`, {
    field: "place",
    expected: known,
    found: name,
  });
}

function checkPrefix(prefix: string): void {
  try {
    checkLocation(prefix);
  } catch (error) {
    throw isSuperchunkError(error, "BAD_FIELD") ? wrong(error.summary) : error;
  }
}

function wrong(summary: string): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", summary, { field: "place" });
}

// Locations of objects on any store: URLs with a scheme, without secrets and without parts that lead elsewhere. Must not know stores.

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\//;
const CONTROL = /\p{Cc}/u;

/** True for text that begins like a URL. */
export function hasScheme(text: string): boolean {
  return SCHEME.test(text);
}

/** Scheme of a location, in lower case. Throws `BAD_FIELD` if there is none. */
export function schemeOf(location: string): string {
  const scheme = SCHEME.exec(location)?.[1];
  if (scheme === undefined)
    throw badLocation(location, "is a path: write its address (file://, https://, s3://)", "BAD_FIELD");
  return scheme;
}

/**
 * Checks a location, or the prefix of a container. Throws `BAD_FIELD` for one without a scheme, with a query or a fragment, and
 * `UNSAFE_PATH` for one with `.` or `..` in it, even if written with `%2e`.
 */
export function checkLocation(location: string): string {
  const scheme = schemeOf(location);
  if (CONTROL.test(location)) throw badLocation(location, "has control characters", "UNSAFE_PATH");
  const rest = location.slice(scheme.length + 3);
  const isWeb = scheme === "http" || scheme === "https";
  if (isWeb && /[?#]/.test(rest))
    throw badLocation(location, "has a query or a fragment, which no object's address has", "BAD_FIELD");
  // In az:// and abfs://, the part before the @ is the name of a container.
  if (isWeb ? /^[^/]*@/.test(rest) : scheme !== "file" && /^[^/]*:[^/]*@/.test(rest))
    throw badLocation(location, "has a user or a password in it; give credentials by name", "BAD_FIELD");
  for (const part of rest.split(/[/\\]/)) {
    const plain = part.replace(/%2e/gi, ".");
    if (plain === "." || plain === ".." || /%2f|%5c|%00/i.test(part))
      throw badLocation(location, `has the part "${part}", which can lead out of its folder`, "UNSAFE_PATH");
  }
  return location;
}

function badLocation(location: string, reason: string, code: "BAD_FIELD" | "UNSAFE_PATH"): SuperchunkError {
  // A password must not reach a log through the message.
  const shown = location.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, "$1***@").replace(/\?.*$/s, "?…");
  return new SuperchunkError(code, `the location "${shown}" ${reason}`, { field: "location", found: shown });
}
