/**
 * Locations of objects on any store: URLs with a scheme, without secrets and without parts that lead elsewhere. Must not know stores.
 */
import { SuperchunkError } from "../errors.ts";

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
    throw badLocation(location, "has no scheme such as file://, https:// or s3://", "BAD_FIELD");
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
  return new SuperchunkError(code, `the location "${shown}" ${reason}`, {
    field: "location",
    found: shown,
  });
}
