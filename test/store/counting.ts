/**
 * A store that counts its calls: for tests of economy.
 *
 * Knows calls and bytes; must not know their purpose.
 */
import type { ObjectInfo, ReadableStore } from "../../src/store/types.ts";
import {
  type Interceptor,
  interceptStore,
  isWriting,
  type StoreCall,
  type Wrapped,
} from "../../src/store/wrappers/intercept.ts";

/** Counts so far; they change as calls are made. */
export interface StoreCounts {
  /** Calls that reached the store, failed ones and listings too. */
  requests: number;
  /** Those of them that read: everything but the writing methods. */
  reads: number;
  writes: number;
  /** Bytes handed out. */
  bytesRead: number;
  /** Bytes of puts and of writes in place. */
  bytesWritten: number;
  /** Each call in order, as `method key`. */
  readonly log: string[];
}

/** A store and its counts. */
export interface CountedStore<S extends ReadableStore> {
  readonly store: Wrapped<S>;
  readonly counts: StoreCounts;
  /** Starts again at zero. */
  reset(): void;
}

/** Counts the calls of a store. */
export function withCounting<S extends ReadableStore>(store: S): CountedStore<S> {
  const counts: StoreCounts = { requests: 0, reads: 0, writes: 0, bytesRead: 0, bytesWritten: 0, log: [] };
  const begin = ({ method, key }: StoreCall): void => {
    counts.requests++;
    if (isWriting(method)) counts.writes++;
    else counts.reads++;
    counts.log.push(`${method} ${key}`);
  };
  const end = <T>({ method, args }: StoreCall, outcome: T): T => {
    counts.bytesRead += countRead(method, outcome);
    if (method === "put") counts.bytesWritten += (outcome as ObjectInfo).size;
    if (method === "writeRange" && args[2] instanceof Uint8Array) counts.bytesWritten += args[2].length;
    return outcome;
  };
  const interceptor: Interceptor = {
    async onCall(call, proceed) {
      begin(call);
      return end(call, await proceed());
    },
    onSync(call, proceed) {
      begin(call);
      return end(call, proceed());
    },
    onList: begin,
  };
  const reset = (): void => {
    counts.log.length = 0;
    Object.assign(counts, { requests: 0, reads: 0, writes: 0, bytesRead: 0, bytesWritten: 0 });
  };
  return { store: interceptStore(store, interceptor), counts, reset };
}

/** Bytes that the outcome of a call brought to the caller, where it is one that reads. */
function countRead(method: StoreCall["method"], outcome: unknown): number {
  if (outcome instanceof Uint8Array) return outcome.length;
  return (method === "readInto" || method === "readIntoSync") && typeof outcome === "number" ? outcome : 0;
}
