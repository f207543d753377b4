/**
 * What a request's headers ask of an object whose bytes are known: all, a part, or nothing because it has not changed.
 *
 * Knows RFC 9110 sections 8.8, 12.5.3, 13 and 14; must not know sockets.
 */
import type { IncomingHttpHeaders } from "node:http";

/** How a request is to be answered. */
export type Verdict =
  | { readonly status: 200 }
  | { readonly status: 206; readonly first: number; readonly last: number }
  | { readonly status: 304 | 412 | 416 };

/** Judges conditions and range of a GET or HEAD for an object of `size` bytes, in the order of RFC 9110 13.2.2. */
export function judge(headers: IncomingHttpHeaders, etag: string, size: number): Verdict {
  const ifMatch = headers["if-match"];
  if (ifMatch !== undefined && !matches(ifMatch, etag, false)) return { status: 412 };
  const ifNoneMatch = headers["if-none-match"];
  if (ifNoneMatch !== undefined && matches(ifNoneMatch, etag, true)) return { status: 304 };
  const range = headers.range;
  const ifRange = headers["if-range"];
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return { status: 200 };
  return judgeRange(range, size);
}

/** One range of bytes. What is no such range, or several of them, is answered with the whole, as the RFC allows. */
function judgeRange(range: string, size: number): Verdict {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(range);
  if (match === null) return { status: 200 };
  const [, from = "", to = ""] = match;
  if (from === "" && to === "") return { status: 200 };
  if (from === "") {
    const length = Math.min(size, Number(to));
    return length === 0 ? { status: 416 } : { status: 206, first: size - length, last: size - 1 };
  }
  const first = Number(from);
  const last = to === "" ? size - 1 : Math.min(size - 1, Number(to));
  if (to !== "" && Number(to) < first) return { status: 200 };
  return first >= size ? { status: 416 } : { status: 206, first, last };
}

function matches(list: string, etag: string, weak: boolean): boolean {
  if (list.trim() === "*") return true;
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? [];
  return tags.some((tag) => tag === etag || (weak && tag.replace(/^W\//, "") === etag));
}

/** True where the client takes gzip. */
export function takesGzip(headers: IncomingHttpHeaders): boolean {
  const codings = String(headers["accept-encoding"] ?? "").split(",");
  return codings.some((coding) => {
    const [name = "", ...parameters] = coding.split(";").map((part) => part.trim().toLowerCase());
    return name === "gzip" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}
