/** Runs asynchronous work with a bounded number of tasks at a time. Knows nothing of what the work is. */

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
