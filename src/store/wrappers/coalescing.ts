/**
 * A store that joins ranges requested at the same time into fewer, longer requests.
 *
 * Knows ranges and gaps; must not know what the bytes are.
 */

import { checkRange, groupRanges } from "../key.ts";
import type { ByteRange, ReadableStore, StoreOptions } from "../types.ts";
import { type Interceptor, interceptStore, type Wrapped } from "./intercept.ts";

/** Limits of joining. */
export interface CoalescingOptions {
  /** Most bytes to read and discard between two ranges; default 64 KiB. */
  readonly maxGap?: number;
  /** Most bytes of a joined request; a single longer range is passed on unchanged. Default 8 MiB. */
  readonly maxLength?: number;
}

interface Waiting {
  readonly offset: number;
  readonly length: number;
  readonly signal: AbortSignal | undefined;
  resolve(bytes: Uint8Array | undefined): void;
  reject(reason: unknown): void;
}

/** Microtask turns without a new range, after which the ranges are read. */
const QUIET_TURNS = 3;

/**
 * Joins the `getRange` calls for one key that are made in the same turn of the event loop. Each caller gets its own
 * bytes, and an abort ends only its own wait; a joined request is aborted when no caller waits for it any more.
 * Suffix ranges and other calls are passed on.
 */
export function withCoalescing<S extends ReadableStore>(
  store: S,
  options: CoalescingOptions = {},
): Wrapped<S> {
  const { maxGap = 64 << 10, maxLength = 8 << 20 } = options;
  const queues = new Map<string, Waiting[]>();

  const flush = async (key: string, queue: Waiting[]): Promise<void> => {
    for (let quiet = 0, seen = queue.length; quiet < QUIET_TURNS; quiet++) {
      await undefined;
      if (queue.length > seen) {
        seen = queue.length;
        quiet = -1;
      }
    }
    queues.delete(key);
    for (const group of groupRanges(queue, maxGap, maxLength)) void readGroup(store, key, group);
  };
  const enqueue = (key: string, range: { offset: number; length: number }, call: StoreOptions | undefined) =>
    new Promise<Uint8Array | undefined>((resolve, reject) => {
      const signal = call?.signal;
      const waiting: Waiting = { offset: range.offset, length: range.length, signal, resolve, reject };
      const queue = queues.get(key);
      if (queue !== undefined) {
        queue.push(waiting);
        return;
      }
      const started = [waiting];
      queues.set(key, started);
      void flush(key, started);
    });

  const interceptor: Interceptor = {
    async onCall(call, proceed) {
      const [key, range, callOptions] = call.args as [string, ByteRange, StoreOptions | undefined];
      if (call.method !== "getRange" || "suffixLength" in range) return proceed();
      callOptions?.signal?.throwIfAborted();
      checkRange(range, store.describe(key));
      // Only getRange gets here, so the result types match.
      return enqueue(key, range, callOptions) as ReturnType<typeof proceed>;
    },
  };
  return interceptStore(store, interceptor);
}

async function readGroup(store: ReadableStore, key: string, group: readonly Waiting[]): Promise<void> {
  const [first] = group;
  if (first === undefined) return;
  const offset = first.offset;
  const end = group.reduce((latest, waiting) => Math.max(latest, waiting.offset + waiting.length), offset);
  const { signal, release } = joinSignals(group);
  try {
    const bytes = await store.getRange(key, { offset, length: end - offset }, { signal });
    for (const waiting of group) {
      const at = waiting.offset - offset;
      waiting.resolve(group.length === 1 ? bytes : bytes?.slice(at, at + waiting.length));
    }
  } catch (error) {
    for (const waiting of group) waiting.reject(error);
  } finally {
    release();
  }
}

/** Rejects each caller at its own abort. The signal of the joined request fires once all have aborted. */
function joinSignals(group: readonly Waiting[]): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  let left = group.length;
  const releases = group.map(({ signal, reject }) => {
    const stop = (): void => {
      reject(signal?.reason);
      if (--left === 0) controller.abort(signal?.reason);
    };
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
    return () => signal?.removeEventListener("abort", stop);
  });
  return {
    signal: controller.signal,
    release: () => {
      for (const release of releases) release();
    },
  };
}
