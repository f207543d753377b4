/**
 * A folder on an HTTP server as a read-only store.
 *
 * Knows ranges and versions over HTTP; must not know what the bytes are.
 */
import { checkOptionNames, keepFirst } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { type Redirects, type Send, sendWith } from "./http-request.ts";
import {
  checkPart,
  dropBody,
  formatRange,
  parseContentRange,
  parseLength,
  parseVersion,
  readBody,
  readBodyStart,
  TransientError,
} from "./http-response.ts";
import { checkFolder, checkKey, checkRange, encodeKey, lengthOf, partOf } from "./key.ts";
import type { ByteRange, ListEntry, ObjectHead, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** Most bytes that are accepted from a server that ignores `Range` and sends the whole object. */
const MAX_UNRANGED = 8 << 20;
/** Keys whose version is remembered; the oldest is forgotten first. */
const MAX_VERSIONS = 100_000;

/** Stands for an answer that may be a web page. */
const MAYBE_PAGE: unique symbol = Symbol("maybe a web page");
/** The beginning of a web page. */
const PAGE = /^\uFEFF?\s*(?:<!--[\s\S]*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b/i;
/** Bytes needed to match {@link PAGE}. */
const PAGE_START = 512;

/** Options of a {@link HttpStore}. */
export interface HttpStoreOptions {
  /** Sent with every request to the server itself, for example `Authorization`, but not to servers that it redirects to. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Used instead of the platform's `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** Requests under way at a time, from 1; default 16. */
  readonly maxConcurrent?: number;
  /** Retries after a failure (network, 408, 425, 429, 500, 502 to 504, a short body); default 4. */
  readonly retries?: number;
  /** Milliseconds before the first retry, doubled for each later one; default 100. */
  readonly retryDelayMs?: number;
  /** Milliseconds without an answer, or without a byte of one, after which a try has failed; default 60,000. */
  readonly timeoutMs?: number;
  /**
   * Status codes that mean "no such object"; default 404 and 410. S3 answers 403 for a missing object if the caller may not list the
   * bucket: add 403 there.
   */
  readonly absentStatuses?: readonly number[];
  /**
   * Redirects to follow; default `any`, because many public servers redirect to the bytes. References and containers have `same-origin`,
   * since others wrote them.
   */
  readonly redirects?: Redirects;
}

const OPTIONS = "absentStatuses fetch headers maxConcurrent redirects retries retryDelayMs timeoutMs";

/**
 * Objects below a base URL, read with `GET` and `Range`.
 *
 * - The first version (ETag, else time and size) seen for a key is remembered. A range of another version is refused with `STALE`, so that
 *   bytes of two versions never mix. `close` forgets the versions. `stat` and `get` see the current version.
 * - A web page (by its `Content-Type` and its first bytes) is an absent object: servers of web applications answer unknown paths with their
 *   start page.
 * - HTTP has no listing: `list` throws `UNSUPPORTED`. Archives whose metadata name their files need none.
 * - The base URL's query is sent with every request (signed URLs). Its user and password become `Authorization`. Messages show neither.
 * - A redirect that is not allowed (`redirects`, five in a row, from the web into the local network) is `UNSAFE_PATH`.
 * - A partial answer is refused (`IO`) if its `Content-Range` is missing or is not the requested range. A browser hides this header of a
 *   server of another origin that does not expose it (`Access-Control-Expose-Headers: ETag, Content-Range`): then only the length is
 *   checked, and versions are not.
 */
export class HttpStore implements ReadableStore {
  readonly pinsVersions = true;
  readonly #origin: string;
  readonly #folder: string;
  readonly #query: string;
  readonly #absent: ReadonlySet<number>;
  readonly #request: Send;
  readonly #timeoutMs: number;
  readonly #versions = new Map<string, string>();
  readonly #given: readonly [base: string | URL, options: HttpStoreOptions];
  #page: string | undefined;

  constructor(base: string | URL, options: HttpStoreOptions = {}) {
    checkOptionNames(options, OPTIONS);
    this.#given = [base, options];
    const url = parseBase(base);
    this.#origin = url.origin;
    this.#folder = url.pathname.replace(/\/+$/, "");
    this.#query = url.search;
    this.#absent = new Set(options.absentStatuses ?? [404, 410]);
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#request = sendWith({
      fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
      // With encoded bodies, lengths and ranges would not count the object's bytes. Browsers ignore this header.
      headers: { "accept-encoding": "identity" },
      origin: url.origin,
      ownHeaders: { ...authorize(url), ...options.headers },
      redirects: options.redirects ?? "any",
      maxConcurrent: options.maxConcurrent ?? 16,
      retries: Math.max(0, options.retries ?? 4),
      retryDelayMs: options.retryDelayMs ?? 100,
      timeoutMs: this.#timeoutMs,
    });
  }

  describe(key: string): string {
    return `${this.#origin}${this.#folder}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    return this.#send(key, "GET", {}, options, async (response, path) => {
      // Chromium asks again for the range of an object that it has, and passes on what the server answers.
      const sent = response.status === 206 ? parseContentRange(response) : undefined;
      const isWhole = response.status === 200 || (sent?.first === 0 && sent.last + 1 === sent.total);
      if (!isWhole) throw await this.#refuse(response, path);
      const bytes = await readBody(response, Number.MAX_SAFE_INTEGER, path, this.#timeoutMs);
      keepFirst(this.#versions, key, parseVersion(response, bytes.length), MAX_VERSIONS);
      return bytes;
    });
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    return (await this.#getPart(key, range, options))?.bytes;
  }

  getHead(key: string, length: number, options?: StoreOptions): Promise<ObjectHead | undefined> {
    return this.#getPart(key, { offset: 0, length }, options);
  }

  /** The bytes of a range, with the facts of the object that come with them. */
  async #getPart(key: string, range: ByteRange, options?: StoreOptions): Promise<ObjectHead | undefined> {
    checkKey(key);
    checkRange(range, this.describe(key));
    const header = formatRange(range);
    if (header === undefined) {
      const info = await this.stat(key, options); // HTTP cannot ask for an empty range
      return info && { bytes: new Uint8Array(0), info };
    }
    return this.#send(key, "GET", { range: header }, options, async (response, path) => {
      const info = describeSize(response, sizeIn(response));
      if (response.status === 206) return { bytes: await this.#readPart(response, key, range), info };
      if (response.status === 200) return { bytes: await this.#readOutOfWhole(response, key, range), info };
      if (response.status !== 416) throw await this.#refuse(response, path);
      await dropBody(response); // the range begins after the object's end
      return { bytes: new Uint8Array(0), info };
    });
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const answer = await this.#send(key, "HEAD", {}, options, async (response, path) => {
      if (response.status === 405 || response.status === 501) return "unknown";
      if (response.status !== 200) throw await this.#refuse(response, path);
      const size = parseLength(response);
      if (size !== undefined) keepFirst(this.#versions, key, parseVersion(response, size), MAX_VERSIONS);
      return describeSize(response, size) ?? "unknown";
    });
    return answer === "unknown" ? this.#probe(key, options) : answer;
  }

  // biome-ignore lint/correctness/useYield: listing over HTTP can only fail
  async *list(folder: string): AsyncIterable<ListEntry> {
    checkFolder(folder);
    const advice = "open an archive by its URL, or consolidate the metadata of a Zarr group";
    throw new SuperchunkError("UNSUPPORTED", `HTTP cannot list folders; ${advice}`, {
      path: this.describe(folder),
    });
  }

  explainAbsence(): string | undefined {
    return this.#page && `the server answered with a web page, at ${this.#page}; use the archive's own URL`;
  }

  renew(): HttpStore {
    return new HttpStore(...this.#given);
  }

  /** Forgets the versions seen, so that changed objects can be read. */
  async close(): Promise<void> {
    this.#versions.clear();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #send<T>(
    key: string,
    method: "GET" | "HEAD",
    headers: Readonly<Record<string, string>>,
    options: StoreOptions | undefined,
    accept: (response: Response, path: string) => Promise<T>,
  ): Promise<T | undefined> {
    checkKey(key);
    const signal = options?.signal;
    signal?.throwIfAborted();
    const url = `${this.#origin}${this.#folder}/${encodeKey(key)}${this.#query}`;
    const path = this.describe(key);
    const request = { url, path, method, headers, signal };
    const send = (takesPages: boolean): Promise<T | typeof MAYBE_PAGE | undefined> =>
      this.#request<T | typeof MAYBE_PAGE | undefined>({
        ...request,
        accept: async (response) => {
          if (response === undefined) return undefined;
          const isAbsent = this.#absent.has(response.status);
          if (!isAbsent && (takesPages || !saysPage(response))) return accept(response, path);
          await dropBody(response);
          return isAbsent ? undefined : MAYBE_PAGE;
        },
      });
    const found = await send(false);
    if (found !== MAYBE_PAGE) return found;
    // The header alone is not enough: some servers send every object without an extension as a page.
    if (await this.#beginsAsPage(url, path, signal)) {
      this.#page = path; // of the latest absent object: callers ask right after it
      return undefined;
    }
    const data = await send(true);
    return data === MAYBE_PAGE ? undefined : data;
  }

  #beginsAsPage(url: string, path: string, signal: AbortSignal | undefined): Promise<boolean> {
    const accept = async (response: Response | undefined): Promise<boolean> => {
      const bytes = response === undefined ? undefined : await readBodyStart(response, PAGE_START);
      return PAGE.test(new TextDecoder().decode(bytes));
    };
    const headers = { range: `bytes=0-${PAGE_START - 1}` };
    return this.#request({ url, path, method: "GET", headers, signal, accept });
  }

  /** Gets the size from a request for one byte, for servers whose answer to `HEAD` lacks it. */
  async #probe(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    return this.#send(key, "GET", { range: "bytes=0-0" }, options, async (response, path) => {
      const { status } = response;
      const size = sizeIn(response);
      if (status !== 200 && status !== 206 && status !== 416) throw await this.#refuse(response, path);
      if (status === 200 && size === undefined) {
        const whole = await readBody(response, MAX_UNRANGED, path, this.#timeoutMs);
        return { size: whole.length, version: parseVersion(response, whole.length) ?? String(whole.length) };
      }
      await dropBody(response);
      const info = describeSize(response, size);
      if (info !== undefined) return info;
      throw new SuperchunkError("UNSUPPORTED", "the server does not report its size", { path });
    });
  }

  async #readPart(response: Response, key: string, range: ByteRange): Promise<Uint8Array> {
    const path = this.describe(key);
    const sent = parseContentRange(response);
    const asked = lengthOf(range);
    if (response.headers.get("content-type")?.toLowerCase().startsWith("multipart/")) {
      await dropBody(response);
      throw new SuperchunkError("UNSUPPORTED", "the server answers one range with a multipart body", {
        path,
      });
    }
    try {
      this.#checkVersion(key, parseVersion(response, sent?.total));
      if (sent !== undefined) checkPart(sent, range, path);
      // A browser hides the header if a server of another origin does not expose it.
      else if (response.type !== "cors") throw withoutRange(range, path, response);
    } catch (error) {
      await dropBody(response);
      throw error;
    }
    const bytes = await readBody(response, asked, path, this.#timeoutMs);
    if (sent === undefined && bytes.length !== asked) throw withoutRange(range, path, response);
    if (sent !== undefined && sent.last - sent.first + 1 !== bytes.length)
      throw new TransientError(
        `the body has ${bytes.length} bytes, "content-range" says ${sent.last - sent.first + 1}`,
      );
    return bytes;
  }

  async #readOutOfWhole(response: Response, key: string, range: ByteRange): Promise<Uint8Array> {
    const path = this.describe(key);
    const size = parseLength(response);
    if (size !== undefined && size > MAX_UNRANGED) {
      await dropBody(response);
      throw new SuperchunkError(
        "UNSUPPORTED",
        `a server without Range support sent ${size} bytes, and at most ${MAX_UNRANGED} are read; download the archive`,
        { path, field: "Range", expected: 206, found: 200 },
      );
    }
    const whole = await readBody(response, MAX_UNRANGED, path, this.#timeoutMs);
    this.#checkVersion(key, parseVersion(response, whole.length));
    return partOf(whole, range, path).slice();
  }

  #checkVersion(key: string, found: string | undefined): void {
    keepFirst(this.#versions, key, found, MAX_VERSIONS);
    const expected = this.#versions.get(key);
    if (found === undefined || found === expected) return;
    throw new SuperchunkError(
      "STALE",
      `the object was changed on the server: its version was ${expected}, and is ${found}; open it again`,
      { path: this.describe(key), field: "version", expected, found },
    );
  }

  async #refuse(response: Response, path: string): Promise<SuperchunkError> {
    await dropBody(response);
    const { status } = response;
    const advice =
      status === 401 || status === 403 ? "access denied; check the credentials" : "the server refused";
    return new SuperchunkError(
      "IO",
      `${advice} (status ${status} ${response.statusText})`.replace(" )", ")"),
      { path, found: status },
    );
  }
}

function withoutRange(range: ByteRange, path: string, response: Response): SuperchunkError {
  return new SuperchunkError(
    "IO",
    "the server sent a part without a valid Content-Range (status 206); use another server",
    {
      path,
      field: "content-range",
      expected: formatRange(range),
      found: response.headers.get("content-range") ?? "none",
    },
  );
}

function saysPage({ status, headers }: Response): boolean {
  return (status === 200 || status === 206) && /^text\/html\b/i.test(headers.get("content-type") ?? "");
}

/** The size of the object, as the answer to a request for it, or for a range of it, gives it. */
function sizeIn(response: Response): number | undefined {
  const { status, headers } = response;
  if (status === 200) return parseLength(response);
  if (status === 206) return parseContentRange(response)?.total;
  const [, size] = (status === 416 && /^bytes \*\/(\d+)$/.exec(headers.get("content-range") ?? "")) || [];
  return size === undefined ? undefined : Number(size);
}

function describeSize(response: Response, size: number | undefined): ObjectInfo | undefined {
  if (size === undefined) return undefined;
  const etag = response.headers.get("etag");
  const modified = Date.parse(response.headers.get("last-modified") ?? "");
  return {
    size,
    version: parseVersion(response, size) ?? String(size),
    ...(etag === null || etag.startsWith("W/") ? {} : { etag }),
    ...(Number.isNaN(modified) ? {} : { modified }),
  };
}

function parseBase(base: string | URL): URL {
  let url: URL | undefined;
  try {
    url = new URL(base);
  } catch {
    // reported below, like other schemes
  }
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "an HTTP store needs a base URL that begins with http:// or https://",
    {
      // The whole address may hold a password.
      found: url?.protocol ?? "not a URL",
    },
  );
}

/** User and password of a URL as a header, because fetch refuses them in a URL. */
function authorize(url: URL): Record<string, string> {
  if (url.username === "" && url.password === "") return {};
  const bytes = new TextEncoder().encode(
    `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`,
  );
  return { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` };
}
