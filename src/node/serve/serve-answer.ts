/**
 * Answers one request to a served view, from its path to its body.
 *
 * Never answers 404 for an object that exists but cannot be read, because Zarr readers would use fill values.
 */

import { createHash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { ParquetParts } from "../../convert/targets/parquet-parts.ts";
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import { encodeKey } from "../../store/key.ts";
import type { ParquetView } from "../../view/parquet-view.ts";
import { parseViewKey, type ViewReadOptions, type ZarrView } from "../../view/view.ts";
import { decodePath } from "../locate.ts";
import { type PageBody, PageFiles } from "./page-files.ts";
import type { AnswerGate, AnswerPlace, Caller, ServeBuffers } from "./serve-gate.ts";
import { listingJson, listingPage, servedMessage, servedNodes } from "./serve-listing.ts";

/** Shorter documents are not compressed. */
const GZIP_FROM = 1024;
const METHODS = "GET, HEAD, OPTIONS";
/** Bytes passed to the system at a time, so that it shows whether the client accepts them. */
const PIECE = 256 * 1024;
/** Pieces passed before the first is accepted, so that a fast client never waits. */
const MOST_PIECES = 2;

const compress = promisify(gzip);

/** The reason for ending reads of a client that has gone. Shared, because creating an error with a stack is slow. */
const GONE = new Error("the client has gone");

/** Shared by all answers of a server. */
export interface AnswerContext {
  readonly view: ZarrView;
  /** The page at the root, and its data; undefined if there is none. */
  readonly page: PageFiles | undefined;
  /** Archives as Parquet files; undefined if only a view is served. */
  readonly tables: ParquetView | undefined;
  readonly gate: AnswerGate;
  readonly buffers: ServeBuffers;
  /** Address of the view's root, with a final `/`. */
  readonly url: string;
  /** Origin whose pages may read the answers, `*` for all; undefined for none. */
  readonly cors: string | undefined;
  onError(path: string, error: unknown): void;
}

/** A body and its description. */
interface AnswerBody {
  readonly bytes: Uint8Array;
  readonly type: string;
  /** True for text, which is worth compressing. */
  readonly isText: boolean;
  /** What a page may load; default: only styles. */
  readonly policy?: string | undefined;
}

/** Answers a request whose host was checked. Resolves when the body was sent, or the client has gone. */
export async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  context: AnswerContext,
): Promise<void> {
  allowOrigins(request, response, context.cors);
  if (request.method === "OPTIONS") return end(response, 204, { allow: METHODS });
  if (request.method !== "GET" && request.method !== "HEAD")
    return refuse(response, 405, "BAD_ARGUMENT", "this server only reads: GET and HEAD", { allow: METHODS });
  if (hasBody(request))
    return refuse(response, 413, "BAD_ARGUMENT", "a request to read has no body", { connection: "close" });
  // The unchanged path, without the leading `/`.
  const raw = (request.url ?? "/")
    .replace(/^https?:\/\/[^/?#]*/i, "")
    .replace(/[?#].*$/s, "")
    .replace(/^\//, "");
  const path = decodePath(raw);
  if (path === undefined)
    return refuse(response, 400, "BAD_ARGUMENT", "the path is not valid percent-encoding");
  const gone = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) gone.abort(GONE);
  });
  const caller: Caller = {
    address: request.socket.remoteAddress ?? "",
    connection: request.socket,
    isSmall: isListing(path) || isDocument(path),
    end: () => request.socket.destroy(),
  };
  let place: AnswerPlace | undefined;
  try {
    place = await context.gate.enter(caller, gone.signal);
  } catch {
    return; // the client has gone
  }
  if (place === undefined) {
    request.socket.destroy(); // no honest client sends this many requests before the first answer
    return;
  }
  const lent = context.buffers.lend();
  let body: AnswerBody | undefined;
  try {
    const options = { signal: gone.signal, buffers: lent.list };
    if (context.tables?.has(path) === true)
      return await sendParquet(request, response, {
        path,
        tables: context.tables,
        place,
        signal: gone.signal,
      });
    const own = await readPage(path, request, context, options);
    if (own !== undefined && "info" in own) return await sendStored(request, response, own, place);
    body =
      (own && { ...own, isText: true }) ??
      (await readBody(path, request, context, options)) ??
      // fsspec sends the "%2F" in a node's name unchanged.
      (raw === path ? undefined : await readBody(raw, request, context, options));
    if (body === undefined) return await refuse(response, 404, "NOT_FOUND", "the object does not exist");
    place.hold(body.bytes.buffer.byteLength);
    await send(request, response, body, place);
  } catch (error) {
    if (gone.signal.aborted) return;
    context.onError(`/${path}`, error);
    await fail(response, error);
  } finally {
    lent.giveBack(body?.bytes);
    place.leave();
  }
}

/** The page and its data: at the root for browsers, and at paths that no node can have. */
async function readPage(
  path: string,
  request: IncomingMessage,
  { page }: AnswerContext,
  options: ViewReadOptions,
): Promise<PageBody | undefined> {
  if (page === undefined) return undefined;
  const query = /\?([^#]*)/.exec(request.url ?? "")?.[1] ?? "";
  if (PageFiles.isOwn(path)) return page.find(path, query, options);
  return path !== "" || !wantsPage(request) ? undefined : page.page(query);
}

function wantsPage({ headers }: IncomingMessage): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? "");
}

/** The bytes of an object, or the list of a group if the path ends with `/`. */
async function readBody(
  path: string,
  request: IncomingMessage,
  { view, url }: AnswerContext,
  options: ViewReadOptions,
): Promise<AnswerBody | undefined> {
  if (!isListing(path)) {
    const bytes = await view.get(`/${path}`, options);
    const isText = isDocument(path);
    return bytes && { bytes, isText, type: isText ? "application/json" : "application/octet-stream" };
  }
  const folder = path.slice(0, -1);
  if (folder !== "" && parseViewKey(folder) === undefined) return undefined;
  const nodes = servedNodes(await view.list(folder, { signal: options.signal }));
  if (nodes.length === 0) return undefined;
  const isPage = wantsPage(request);
  const text = isPage ? listingPage(nodes, `${url}${encodeKey(path)}`) : listingJson(nodes);
  return {
    bytes: new TextEncoder().encode(text),
    isText: true,
    type: isPage ? "text/html; charset=utf-8" : "application/json",
  };
}

function isListing(path: string): boolean {
  return path === "" || path.endsWith("/");
}

function isDocument(path: string): boolean {
  return path === "zarr.json" || path.endsWith("/zarr.json");
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  body: AnswerBody,
  place: AnswerPlace,
): Promise<void> {
  const { type, isText, policy } = body;
  let { bytes } = body;
  const headers = headersOf(type);
  if (isText) {
    headers["vary"] = "accept-encoding, accept";
    if (policy !== undefined || type.startsWith("text/html"))
      headers["content-security-policy"] = policy ?? "default-src 'none'; style-src 'unsafe-inline'";
    const isRanged = request.headers.range !== undefined;
    if (bytes.length >= GZIP_FROM && !isRanged && takesGzip(request.headers)) {
      bytes = await compress(bytes);
      headers["content-encoding"] = "gzip";
    }
  }
  // Depends only on the content, so it is the same on every server and at any time.
  const etag = `"${createHash("sha1").update(bytes).digest("base64url")}"`;
  await sendCut(request, response, { headers, etag, size: bytes.length, place }, (first, end) =>
    bytes.subarray(first, end),
  );
}

/** Sends a stored object, or only the requested part, which alone is read. */
function sendStored(
  request: IncomingMessage,
  response: ServerResponse,
  { info, read }: Extract<PageBody, { info: unknown }>,
  place: AnswerPlace,
): Promise<void> {
  const etag = `"${createHash("sha1").update(info.version).digest("base64url")}"`;
  const headers = headersOf("application/octet-stream");
  if (info.modified !== undefined) headers["last-modified"] = new Date(info.modified).toUTCString();
  const whole = { headers, etag, size: info.size, place };
  return sendCut(request, response, whole, async (first, end) => {
    const bytes = await read(first, end - first);
    place.hold(bytes.length);
    return bytes;
  });
}

/** A requested Parquet file. */
interface AskedParquet {
  readonly path: string;
  readonly tables: ParquetView;
  readonly place: AnswerPlace;
  readonly signal: AbortSignal;
}

/** Sends a Parquet file, or a part of it, generating it on the way. */
async function sendParquet(
  request: IncomingMessage,
  response: ServerResponse,
  { path, tables, place, signal }: AskedParquet,
): Promise<void> {
  // Its layout may take longer to compute than the timeout of an idle connection.
  const { timeout = 0 } = request.socket;
  request.socket.setTimeout(0);
  const send = (file: ParquetParts): Promise<void> =>
    sendCut(
      request,
      response,
      {
        headers: headersOf("application/vnd.apache.parquet"),
        etag: `"${file.sha256.slice(0, 40)}"`,
        size: file.size,
        place,
      },
      (first, end) => file.read(first, end, { encoder: tables.encoder, signal }),
    );
  try {
    await send(await tables.open(path));
  } catch (error) {
    // After a change of the archive, the layout and its ETag differ, so the file is opened again.
    if (!isSuperchunkError(error) || response.headersSent || signal.aborted) throw error;
    if (!error.isDamage && error.code !== "STALE") throw error;
    await send(await tables.open(path, true));
  } finally {
    request.socket.setTimeout(timeout);
  }
}

function headersOf(type: string): Record<string, string | number> {
  return {
    "content-type": type,
    "accept-ranges": "bytes",
    // A chunk's bytes change when a writer changes the archive. Clients must revalidate each time, and get the bytes only after a change.
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
  };
}

/** An object of which a part, or all, is sent. */
interface Whole {
  readonly headers: Record<string, string | number>;
  readonly etag: string;
  readonly size: number;
  readonly place: AnswerPlace;
}

/** Sends what conditions and ranges select of an object. `cut` returns the bytes `[first, end)` of it, or pieces of them. */
async function sendCut(
  request: IncomingMessage,
  response: ServerResponse,
  { headers, etag, size, place }: Whole,
  cut: (first: number, end: number) => Uint8Array | Promise<Uint8Array> | AsyncIterableIterator<Uint8Array>,
): Promise<void> {
  headers["etag"] = etag;
  const verdict = judge(request.headers, etag, size);
  if (verdict.status === 304) return end(response, 304, headers);
  if (verdict.status === 412) return refuse(response, 412, "STALE", "the object has changed", { etag });
  if (verdict.status === 416)
    return refuse(response, 416, "BAD_ARGUMENT", `the range begins after the ${size} bytes of the object`, {
      "content-range": `bytes */${size}`,
      etag,
    });
  const { first, last } = verdict.status === 206 ? verdict : { first: 0, last: size - 1 };
  if (verdict.status === 206) headers["content-range"] = `bytes ${first}-${last}/${size}`;
  headers["content-length"] = last + 1 - first;
  if (request.method === "HEAD") return end(response, verdict.status, headers);
  const found = cut(first, last + 1);
  if (Symbol.asyncIterator in found)
    return sendStream(response, verdict.status, headers, { pieces: found, place });
  const bytes = await found;
  if (bytes.length <= PIECE) return end(response, verdict.status, headers, bytes);
  response.writeHead(verdict.status, headers);
  await sendPieces(response, bytes, place);
}

/** Sends pieces as they come, one at a time. The first is made before the head is sent, so that a failure can set the status. */
async function sendStream(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  { pieces, place }: { readonly pieces: AsyncIterableIterator<Uint8Array>; readonly place: AnswerPlace },
): Promise<void> {
  let held = 0;
  for await (const piece of pieces) {
    if (!response.headersSent) response.writeHead(status, headers);
    if (piece.length > held) place.hold(piece.length - held);
    held = Math.max(held, piece.length);
    place.moved();
    await new Promise<void>((resolve) => {
      response.once("close", resolve);
      response.write(piece, (error) => {
        response.off("close", resolve);
        place.moved();
        if (error) response.destroy(); // the client has gone
        resolve();
      });
    });
    if (response.destroyed) return;
  }
  return new Promise((resolve) => {
    response.once("close", resolve);
    response.end(() => resolve());
  });
}

/** Sends a body piece by piece, and reports each accepted piece to the place. Waits as {@link end}. */
function sendPieces(response: ServerResponse, bytes: Uint8Array, place: AnswerPlace): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    response.once("close", resolve);
    let at = 0;
    const sendNext = (): void => {
      if (at === bytes.length || response.destroyed) return;
      const piece = bytes.subarray(at, at + PIECE);
      at += piece.length;
      const taken = (): void => {
        place.moved();
        sendNext();
      };
      if (at === bytes.length) response.end(piece, () => resolve());
      else response.write(piece, taken);
    };
    for (let i = 0; i < MOST_PIECES; i++) sendNext();
  });
}

/** Sends head and body. Resolves when the client has accepted them or has gone. */
function end(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  body?: Uint8Array | string,
): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    response.once("close", resolve);
    response.writeHead(status, headers);
    response.end(body, () => resolve());
  });
}

/** Answers with an error: its code and message as JSON. */
export function refuse(
  response: ServerResponse,
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const body = `${JSON.stringify({ error: { code, message } })}\n`;
  const isHead = response.req.method === "HEAD";
  const standard = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-length": Buffer.byteLength(body),
  };
  return end(response, status, { ...standard, ...headers }, isHead ? undefined : body);
}

function fail(response: ServerResponse, error: unknown): Promise<void> {
  if (response.headersSent) {
    response.destroy();
    return Promise.resolve();
  }
  if (!isSuperchunkError(error)) return refuse(response, 500, "INTERNAL", "the server failed");
  return refuse(response, statusOf(error), error.code, servedMessage(error));
}

/**
 * The status of a failure. Damage is permanent, so it must not have a status from 500 on, for which clients try again and
 * again. 404 and 410 would be taken for missing chunks with fill values.
 */
function statusOf({ code, isDamage }: SuperchunkError): number {
  if (isDamage || code === "UNSUPPORTED" || code === "LIMIT" || code === "NOT_FOUND") return 422;
  // What changed while it was read can be read again; storage that fails goes on failing.
  if (code === "STALE") return 503;
  return code === "IO" ? 502 : 500;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function allowOrigins(request: IncomingMessage, response: ServerResponse, cors: string | undefined): void {
  if (cors === undefined) return;
  response.setHeader("access-control-allow-origin", cors);
  if (cors !== "*") response.setHeader("vary", "origin");
  // Without these, a page's script cannot check ranges and versions.
  response.setHeader("access-control-expose-headers", "ETag, Content-Range, Content-Length, Accept-Ranges");
  if (request.method !== "OPTIONS") return;
  response.setHeader("access-control-allow-methods", METHODS);
  response.setHeader("access-control-allow-headers", "Range, If-Match, If-None-Match, If-Range");
  response.setHeader("access-control-max-age", "86400");
  if (request.headers["access-control-request-private-network"] === "true")
    response.setHeader("access-control-allow-private-network", "true");
}

// Judges a request's headers for an object of known bytes: all of it, a part, or nothing because it has not changed.
//
// Knows RFC 9110 sections 8.8, 12.5.3, 13 and 14; must not know sockets.

/** The kind of answer. */
type Verdict =
  | { readonly status: 200 }
  | { readonly status: 206; readonly first: number; readonly last: number }
  | { readonly status: 304 | 412 | 416 };

/** Judges conditions and range of a GET or HEAD for an object of `size` bytes, in the order of RFC 9110 13.2.2. */
function judge(headers: IncomingHttpHeaders, etag: string, size: number): Verdict {
  const ifMatch = headers["if-match"];
  if (ifMatch !== undefined && !matches(ifMatch, etag, false)) return { status: 412 };
  const ifNoneMatch = headers["if-none-match"];
  if (ifNoneMatch !== undefined && matches(ifNoneMatch, etag, true)) return { status: 304 };
  const range = headers.range;
  const ifRange = headers["if-range"];
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return { status: 200 };
  return judgeRange(range, size);
}

/** Judges one range of bytes. Any other range, or several, is answered with the whole object, as the RFC allows. */
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

function takesGzip(headers: IncomingHttpHeaders): boolean {
  const codings = String(headers["accept-encoding"] ?? "").split(",");
  return codings.some((coding) => {
    const [name = "", ...parameters] = coding.split(";").map((part) => part.trim().toLowerCase());
    return name === "gzip" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}
