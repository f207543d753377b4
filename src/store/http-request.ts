/**
 * Requests over HTTP: a bounded number at a time, and again where an answer may be right the next time.
 *
 * Knows fetch, retries and status codes; must not know ranges and keys.
 */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { dropBody, TransientError } from "./http-response.ts";

/** Status codes of a server that is busy or failing for now. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
/** A server may ask to be left alone longer; nobody waits for it longer than this. */
const MAX_WAIT_MS = 30_000;

/** How requests are made. */
export interface RequesterOptions {
  readonly fetch: typeof globalThis.fetch;
  readonly headers: Readonly<Record<string, string>>;
  /** Tries after the first. */
  readonly retries: number;
  /** Wait before the first further try; doubled for each one after. */
  readonly retryDelayMs: number;
  readonly maxConcurrent: number;
  /** Milliseconds without an answer, or without a byte of its body, after which a try has failed. */
  readonly timeoutMs: number;
}

/** One request, and what is made of its answer. */
export interface Request<T> {
  readonly url: string;
  /** How messages name the object. */
  readonly path: string;
  readonly method: "GET" | "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /** Makes the result; a {@link TransientError} thrown here, or by the body, leads to another try. */
  accept(response: Response): Promise<T>;
}

/** Sends requests to one server. */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(options: RequesterOptions) {
    this.#options = options;
  }

  /**
   * Sends a request until its answer is accepted.
   *
   * @throws IO where every try failed
   */
  async send<T>(request: Request<T>): Promise<T> {
    const { retries, retryDelayMs } = this.#options;
    for (let tried = 1; ; tried++) {
      try {
        return await this.#sendOnce(request);
      } catch (error) {
        request.signal?.throwIfAborted();
        if (isSuperchunkError(error)) throw error;
        if (tried > retries) throw describeFailure(request, tried, error);
        const wanted = error instanceof TransientError ? error.waitMs : undefined;
        const delay = retryDelayMs * 2 ** (tried - 1) * (0.5 + Math.random());
        await pause(Math.min(MAX_WAIT_MS, Math.max(delay, wanted ?? 0)), request.signal);
      }
    }
  }

  async #sendOnce<T>(request: Request<T>): Promise<T> {
    const { url, method, signal } = request;
    await this.#enter();
    const controller = new AbortController();
    const forward = (): void => controller.abort(signal?.reason);
    try {
      signal?.throwIfAborted();
      signal?.addEventListener("abort", forward, { once: true });
      const headers = { ...this.#options.headers, ...request.headers };
      const asking = this.#options.fetch(url, { method, headers, signal: controller.signal });
      const response = await withinTime(asking, this.#options.timeoutMs, controller);
      if (TRANSIENT.has(response.status)) {
        await dropBody(response);
        throw new TransientError(`status ${response.status}`, parseRetryAfter(response));
      }
      return await request.accept(response);
    } finally {
      signal?.removeEventListener("abort", forward);
      this.#leave();
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < this.#options.maxConcurrent) {
      this.#running++;
      return;
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve)); // the place is handed over
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#running--;
    else next();
  }
}

/** Waits for an answer; one that takes longer is given up, and may be right the next time. */
async function withinTime<T>(asking: Promise<T>, ms: number, controller: AbortController): Promise<T> {
  const late = new TransientError(`no answer within ${ms} ms`);
  const timer = setTimeout(() => controller.abort(late), ms);
  try {
    return await asking;
  } finally {
    clearTimeout(timer);
  }
}

/** `Retry-After` in milliseconds, from seconds or a date; undefined where it is missing. */
function parseRetryAfter(response: Response): number | undefined {
  const text = response.headers.get("retry-after");
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function describeFailure(request: Request<unknown>, tries: number, error: unknown): SuperchunkError {
  const cause =
    error instanceof Error && error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : "";
  const reason = cause !== "" ? cause : error instanceof Error ? error.message : String(error);
  const count = tries === 1 ? "1 try" : `${tries} tries`;
  return new SuperchunkError("IO", `${request.method} failed after ${count} (${reason})`, {
    path: request.path,
    found: reason,
    cause: error,
  });
}
