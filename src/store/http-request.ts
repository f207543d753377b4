/**
 * HTTP requests: a bounded number at a time, retried after failures that may pass, and following redirects as far as allowed.
 *
 * Knows fetch, retries, redirects and status codes; must not know ranges and keys.
 */

import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { dropBody, TransientError } from "./http-response.ts";
import { pause, Turns } from "./pool.ts";

/** Status codes of a server that is busy or temporarily failing. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Failures of a first contact that a retry does not mend: a name that does not exist, a refused port, a wrong certificate or protocol. */
const LASTING = /ENOTFOUND|certificate|wrong version|bad port/;
/** Longest pause; a server may ask for more. */
const MAX_WAIT_MS = 30_000;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MOST_REDIRECTS = 5;

/**
 * Where a server may redirect to: `same-origin` only to itself, `any` also to other servers. In both cases headers
 * given for a server are sent to no other, and a server on the web cannot redirect into the local network.
 */
export type Redirects = "same-origin" | "any";

/** How requests are made. */
export interface RequesterOptions {
  readonly fetch: typeof globalThis.fetch;
  /** Sent to every server. */
  readonly headers: Readonly<Record<string, string>>;
  /** The first server, and the headers that are sent only to it: these may hold secrets. */
  readonly origin: string;
  readonly ownHeaders: Readonly<Record<string, string>>;
  readonly redirects: Redirects;
  /** Tries after the first. */
  readonly retries: number;
  /** Wait before the first retry; doubled for each later one. */
  readonly retryDelayMs: number;
  readonly maxConcurrent: number;
  /** Milliseconds without an answer, or without a byte of its body, after which a try fails. */
  readonly timeoutMs: number;
}

/** One request, and the conversion of its answer. */
export interface Request<T> {
  readonly url: string;
  /** Name in messages. */
  readonly path: string;
  readonly method: "GET" | "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /**
   * Makes the result. A {@link TransientError} thrown here, or by the body, leads to a retry. `response` is
   * undefined if the server redirected to a folder of the same name, as servers do for a missing object.
   */
  accept(response: Response | undefined): Promise<T>;
}

/**
 * Sends a request until its answer is accepted.
 *
 * @throws IO if every try failed; UNSAFE_PATH for a redirect that is not allowed
 */
export type Send = <T>(request: Request<T>) => Promise<T>;

/** Sends requests to one server. */
export function sendWith(options: RequesterOptions): Send {
  const turns = new Turns(options.maxConcurrent);
  let hasAnswered = false;

  async function send<T>(request: Request<T>): Promise<T> {
    const { retries, retryDelayMs } = options;
    for (let tried = 1; ; tried++) {
      try {
        return await turns.run(async () => sendOnce(request));
      } catch (error) {
        request.signal?.throwIfAborted();
        if (isSuperchunkError(error)) throw error;
        const failure = describeFailure(request, tried, error);
        if (tried > retries || (!hasAnswered && LASTING.test(String(failure.details.found)))) throw failure;
        const wanted = error instanceof TransientError ? error.waitMs : undefined;
        const delay = retryDelayMs * 2 ** (tried - 1) * (0.5 + Math.random());
        await pause(Math.min(MAX_WAIT_MS, Math.max(delay, wanted ?? 0)), request.signal);
      }
    }
  }

  async function sendOnce<T>(request: Request<T>): Promise<T> {
    const { signal } = request;
    const controller = new AbortController();
    const forward = (): void => controller.abort(signal?.reason);
    try {
      signal?.throwIfAborted();
      signal?.addEventListener("abort", forward, { once: true });
      const response = await follow(request, controller);
      hasAnswered = true;
      if (response !== undefined && TRANSIENT.has(response.status)) {
        await dropBody(response);
        throw new TransientError(`status ${response.status}`, parseRetryAfter(response));
      }
      return await request.accept(response);
    } finally {
      signal?.removeEventListener("abort", forward);
    }
  }

  /** Follows redirects. Returns the final answer, or undefined if they lead to a folder. */
  async function follow(
    request: Request<unknown>,
    controller: AbortController,
  ): Promise<Response | undefined> {
    const { origin } = options;
    const shown = request.path;
    let { url } = request;
    for (let followed = 0; ; followed++) {
      const from = new URL(url);
      const response = await ask(request, url, "manual", controller);
      if (response.type === "opaqueredirect") return followBlindly(request, url, controller);
      // A `fetch` that the caller passed in may follow redirects itself.
      if (response.redirected) return checkEnd(response, request);
      const location = response.headers.get("location");
      if (!REDIRECTS.has(response.status) || location === null) return response;
      await dropBody(response);
      const next = URL.canParse(location, url) ? new URL(location, url) : undefined;
      if (next?.protocol !== "http:" && next?.protocol !== "https:")
        throw new SuperchunkError("IO", "the server redirects to what is not an http(s):// address", {
          path: shown,
          field: "location",
        });
      if (next.pathname === `${from.pathname}/`) return undefined;
      if (followed >= MOST_REDIRECTS) throw unsafeRedirect(shown, "on and on", origin, next.origin);
      allow(next, shown);
      url = next.href;
    }
  }

  /** A browser does not report where a redirect leads. The browser follows it, and the final address is checked. */
  async function followBlindly(
    request: Request<unknown>,
    url: string,
    controller: AbortController,
  ): Promise<Response | undefined> {
    if (Object.keys(options.ownHeaders).length > 0)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "the server redirects, and the browser does not say where: headers for the server are not sent",
        { path: request.path, field: "location" },
      );
    return checkEnd(await ask(request, url, "follow", controller), request);
  }

  async function checkEnd(
    response: Response,
    { url, path }: Request<unknown>,
  ): Promise<Response | undefined> {
    const end = new URL(response.url);
    if (end.pathname === `${new URL(url).pathname}/`) {
      await dropBody(response);
      return undefined;
    }
    try {
      allow(end, path);
      return response;
    } catch (error) {
      await dropBody(response);
      throw error;
    }
  }

  function allow(next: URL, path: string): void {
    const { origin, redirects } = options;
    if (next.origin === origin) return;
    const isLocal = isLocalHost(next.hostname) && !isLocalHost(new URL(origin).hostname);
    if (redirects === "any" && !isLocal) return;
    throw unsafeRedirect(path, `to ${next.origin}`, origin, next.origin);
  }

  function ask(
    request: Request<unknown>,
    url: string,
    redirect: "manual" | "follow",
    controller: AbortController,
  ): Promise<Response> {
    const { headers, ownHeaders, origin, timeoutMs } = options;
    const own = new URL(url).origin === origin ? ownHeaders : {};
    const asking = options.fetch(url, {
      method: request.method,
      headers: { ...headers, ...own, ...request.headers },
      signal: controller.signal,
      redirect,
    });
    return withinTime(asking, timeoutMs, controller);
  }

  return send;
}

function unsafeRedirect(path: string, where: string, expected: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "UNSAFE_PATH",
    `the server redirects ${where}, but only ${expected} may be read; give the address where the objects really are`,
    { path, field: "location", expected, found },
  );
}

/** True if the name or address is one of the local network. Names are not resolved. */
function isLocalHost(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/^\[|\]$/g, "");
  if (
    name === "localhost" ||
    name.endsWith(".localhost") ||
    name.endsWith(".local") ||
    name.endsWith(".internal")
  )
    return true;
  if (name.includes(":")) {
    // Loopback, unspecified, unique local, link-local, and IPv4-mapped addresses.
    return /^(?:::1?$|f[cd]|fe[89ab]|::ffff:|64:ff9b:)/.test(name);
  }
  return /^(?:0|10|127|169\.254|192\.168|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.[\d.]+$/.test(
    name,
  );
}

/** Waits for an answer. After `ms` milliseconds the request is aborted with an error that allows a retry. */
async function withinTime<T>(asking: Promise<T>, ms: number, controller: AbortController): Promise<T> {
  const late = new TransientError(`no answer within ${ms} ms`);
  const timer = setTimeout(() => controller.abort(late), ms);
  try {
    return await asking;
  } finally {
    clearTimeout(timer);
  }
}

/** `Retry-After` in milliseconds, from seconds or a date; undefined if it is missing. */
function parseRetryAfter(response: Response): number | undefined {
  const text = response.headers.get("retry-after");
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

function describeFailure(request: Request<unknown>, tries: number, error: unknown): SuperchunkError {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  const reason = cause instanceof Error ? `${message}: ${cause.message}` : message;
  // Browsers say why in their console only, and not to the page.
  const hint = /^(Failed|Load|Network)/.test(reason)
    ? "; no server answers there, or it does not let this page read: it must send Access-Control-Allow-Origin, and ranges without Content-Encoding (CORS; the browser's console says more)"
    : "";
  const count = tries === 1 ? "1 try" : `${tries} tries`;
  return new SuperchunkError("IO", `${request.method} failed after ${count} (${reason})${hint}`, {
    path: request.path,
    found: reason,
    cause: error,
  });
}
