/**
 * Runs asynchronous work with a bounded number of tasks at a time, and lets the event loop run now and then. Small
 * reads are synchronous, so a long operation could otherwise block timers, signals and other requests until it ends. Also keeps
 * promises by key, and undoes what was begun if one fails.
 */
import { keepLast } from "../bytes/arrays.ts";

/**
 * Calls `work` for each item, at most `limit` at a time, and waits for all of them. After the first failure no further
 * item is started, and the signal given to `work` is aborted. The failure is thrown when the running tasks have ended.
 */
export async function runPooled<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (item: T, signal: AbortSignal) => Promise<void>,
  outer?: AbortSignal,
): Promise<void> {
  const inner = new AbortController();
  const forward = (): void => inner.abort(outer?.reason);
  outer?.throwIfAborted();
  outer?.addEventListener("abort", forward, { once: true });
  const queue = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (!inner.signal.aborted) {
      try {
        // Items that are available synchronously start synchronously.
        const asked = queue.next();
        const next = asked instanceof Promise ? await asked : asked;
        if (next.done === true || inner.signal.aborted) return;
        await work(next.value, inner.signal);
      } catch (error) {
        failures.push(error);
        inner.abort(error);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.max(1, limit) }, worker));
  } finally {
    outer?.removeEventListener("abort", forward);
    await queue.return?.();
  }
  outer?.throwIfAborted();
  if (failures.length > 0) throw failures[0];
}

/**
 * Yields the results of `work` in the order of the items. Up to `ahead` of them are started before they are requested. Throws
 * the first failure in its turn. After the loop is left, the signal given to `work` is aborted and nothing is under way.
 */
export async function* mapAhead<T, U>(
  items: Iterable<T>,
  ahead: number,
  work: (item: T, signal: AbortSignal) => Promise<U>,
  outer?: AbortSignal,
): AsyncGenerator<U> {
  const inner = new AbortController();
  const forward = (): void => inner.abort(outer?.reason);
  outer?.throwIfAborted();
  outer?.addEventListener("abort", forward, { once: true });
  const queue = items[Symbol.iterator]();
  const running: Promise<U>[] = [];
  const begin = (count: number): void => {
    while (running.length < count) {
      const next = queue.next();
      if (next.done === true) return;
      const result = work(next.value, inner.signal);
      result.catch(() => undefined); // thrown when its turn comes
      running.push(result);
    }
  };
  try {
    for (;;) {
      begin(Math.max(1, ahead));
      const first = running.shift();
      if (first === undefined) return;
      const value = await first;
      outer?.throwIfAborted();
      begin(ahead);
      yield value;
    }
  } finally {
    inner.abort();
    await Promise.allSettled(running);
    outer?.removeEventListener("abort", forward);
  }
}

/** Limits the number of tasks at a time, from different callers; waiting ones run in order. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(limit: number) {
    this.#free = Math.max(1, limit);
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve)); // the place is handed over
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Timers that are set to more fire at once. */
const LONGEST_PAUSE = 2 ** 31 - 1;

/** Waits. Throws the reason of the signal if it is aborted meanwhile. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      },
      Math.min(ms, LONGEST_PAUSE),
    );
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Longest time without a pause, in milliseconds. */
const AT_MOST = 50;

let last = 0;

/** Pauses for one turn of the event loop if the last pause was long enough ago. */
export function pauseIfDue(): Promise<void> | undefined {
  const now = performance.now();
  if (now - last < AT_MOST) return undefined;
  last = now;
  return new Promise((resolve) => runSoon(resolve));
}

/** Milliseconds between pauses of {@link giveWay}. */
const BETWEEN = 1;

let gaveWay = 0;
const { setImmediate: runSoon = runAfterMessage } = globalThis as {
  setImmediate?: (action: () => void) => unknown;
};

/**
 * Lets other work continue during a long calculation: runs the event loop once if the last time was long
 * enough ago. Pauses far more often than {@link pauseIfDue}.
 */
export function giveWay(): Promise<void> | undefined {
  if (performance.now() - gaveWay < BETWEEN) return undefined;
  return new Promise((resolve) => {
    runSoon(() => {
      gaveWay = performance.now();
      resolve();
    });
  });
}

/** For browsers. Uses a new channel each time, because a port may deliver several messages in a row before other events. */
function runAfterMessage(action: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    action();
  };
  port2.postMessage(undefined);
}

/**
 * The promise that a map keeps for a key, or `make` gives, which must not depend on one caller's signal. One that fails is not
 * kept; those over `most` that were asked for least recently are dropped.
 */
export function keepMade<K, V>(
  map: Map<K, Promise<V>>,
  key: K,
  make: () => Promise<V>,
  most: number = Number.POSITIVE_INFINITY,
): Promise<V> {
  const known = map.get(key);
  const made = known ?? make();
  keepLast(map, key, made, most);
  if (known === undefined) made.catch(() => map.get(key) === made && map.delete(key));
  return made;
}

/** For `.catch` of a promise: undoes what was begun, and passes the failure on. */
export function rethrowAfter(undo: () => unknown): (error: unknown) => Promise<never> {
  return async (error) => {
    await undo();
    throw error;
  };
}
