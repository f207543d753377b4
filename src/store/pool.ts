/**
 * Runs asynchronous work with a bounded number of tasks at a time, and lets the event loop run now and then: small reads are done
 * at once, so a long operation could otherwise keep timers, signals and other requests waiting until it ends.
 */

/**
 * Calls `work` for each item, at most `limit` at a time, and waits for all of them. After the first failure no
 * further item is started, the signal given to `work` is aborted, and the failure is thrown once the running
 * ones have ended.
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
        // Work on what is there at once begins at once.
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
 * The results of `work` in the order of the items, up to `ahead` of them begun before they are asked for. Throws the
 * first failure in its turn; once the loop is left, the signal given to `work` is aborted and nothing is under way.
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

/** Milliseconds that an operation may run without a pause. */
const AT_MOST = 50;

let last = 0;

/** Pauses for one turn of the event loop, where the last pause is long enough ago. */
export function breathe(): Promise<void> | undefined {
  const now = performance.now();
  if (now - last < AT_MOST) return undefined;
  last = now;
  return new Promise((resolve) => runSoon(resolve));
}

/** Milliseconds after which {@link giveWay} gives way again. */
const BETWEEN = 1;

let gaveWay = 0;
const { setImmediate: runSoon = runAfterMessage } = globalThis as {
  setImmediate?: (action: () => void) => unknown;
};

/**
 * Lets what is under way beside a long calculation go on: the event loop runs once, where that is long enough ago. For
 * much shorter times than {@link breathe}.
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

/** For browsers. Always with ports of its own: a port may deliver several messages before anything else has its turn. */
function runAfterMessage(action: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    action();
  };
  port2.postMessage(undefined);
}
