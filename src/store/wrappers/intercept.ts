/**
 * The frame of all wrappers: a store whose every call passes through one function.
 *
 * Knows the methods of the store contract; must not know why they are intercepted.
 */

import { SuperchunkError } from "../../errors.ts";
import type { ListEntry, ListOptions, ReadableStore, WritableStore } from "../types.ts";

/** Methods of a store that reach its medium. */
type StoreMethod = Exclude<
  keyof WritableStore,
  "describe" | "close" | "pinsVersions" | "unpin" | "readsToStat" | "sizeOf" | "explainAbsence"
>;

export interface StoreCall {
  readonly method: StoreMethod;
  /** Key or folder: the first of several, the old one of two names. */
  readonly key: string;
  /** The arguments as given. */
  readonly args: readonly unknown[];
}

/** Runs around each call; `proceed` makes the call. */
export interface Interceptor {
  /** Around a call that returns a promise. */
  onCall<T>(call: StoreCall, proceed: () => Promise<T>): Promise<T>;
  /** Around `readIntoSync`; if absent, it is passed on. */
  onSync?<T>(call: StoreCall, proceed: () => T): T;
  /** Before a listing begins; its entries are passed on. */
  onList?(call: StoreCall): void | Promise<void>;
}

/** The members of the store contract that `S` has. Other members of `S` are not wrapped. */
export type Wrapped<S extends ReadableStore> = Pick<S, keyof S & keyof WritableStore>;

const CALLS: readonly Exclude<StoreMethod, "list" | "readIntoSync">[] = [
  "get",
  "getRange",
  "stat",
  "readInto",
  "getHead",
  "getHeads",
  "isFolder",
  "identify",
  "put",
  "delete",
  "rename",
  "sync",
  "link",
  "writeRange",
  "removeLeftovers",
];

/** Members whose calls are passed on: they neither read nor write objects. */
const PASSED_ON = ["sizeOf", "explainAbsence", "unpin", "claim", "close"] as const;

/** A store with the same capabilities as `store`, whose calls pass through `interceptor`. */
export function interceptStore<S extends ReadableStore>(store: S, interceptor: Interceptor): Wrapped<S> {
  const inner: ReadableStore & Partial<WritableStore> = store;
  const wrapped: Partial<Record<keyof WritableStore, unknown>> = {
    describe: (key: string) => inner.describe(key),
    async *list(folder: string, options?: ListOptions): AsyncIterable<ListEntry> {
      await interceptor.onList?.({ method: "list", key: folder, args: [folder, options] });
      yield* inner.list(folder, options);
    },
  };
  for (const method of CALLS) {
    const act = inner[method];
    if (act === undefined) continue;
    wrapped[method] = (...args: readonly unknown[]) =>
      interceptor.onCall({ method, key: firstKey(args[0]), args }, () => Reflect.apply(act, inner, args));
  }
  const { readIntoSync } = inner;
  if (readIntoSync !== undefined)
    wrapped.readIntoSync = (...args: readonly unknown[]) => {
      const proceed = () => Reflect.apply(readIntoSync, inner, args);
      const call = { method: "readIntoSync", key: firstKey(args[0]), args } as const;
      return interceptor.onSync === undefined ? proceed() : interceptor.onSync(call, proceed);
    };
  if (inner.pinsVersions !== undefined)
    Object.defineProperty(wrapped, "pinsVersions", { enumerable: true, get: () => inner.pinsVersions });
  if (inner.readsToStat !== undefined) wrapped.readsToStat = inner.readsToStat;
  for (const method of PASSED_ON) {
    const act: unknown = inner[method];
    if (typeof act === "function") wrapped[method] = act.bind(inner);
  }
  // The loop above copied just the members that `store` has; TypeScript cannot follow that.
  return wrapped as unknown as Wrapped<S>;
}

export function isWriting(method: StoreMethod): boolean {
  return ["put", "delete", "rename", "sync", "link", "writeRange", "removeLeftovers"].includes(method);
}

function firstKey(argument: unknown): string {
  const first: unknown = Array.isArray(argument) ? argument[0] : argument;
  return typeof first === "string" ? first : "";
}

// A store that refuses writes, for plans: they say what would be done.

/** The same store, but calls that write fail with `READ_ONLY`. */
export function asReadOnly(store: WritableStore): Wrapped<WritableStore> {
  return interceptStore(store, {
    onCall({ method, key }, proceed) {
      // A sync has nothing to do, because nothing was written.
      if (method === "sync" || !isWriting(method)) return proceed();
      const refusal = new SuperchunkError("READ_ONLY", "it was opened to plan changes, not to make them", {
        path: store.describe(key),
      });
      return Promise.reject(refusal);
    },
  });
}
