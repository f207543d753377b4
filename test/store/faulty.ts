/**
 * A store that fails on request: the basis of crash sweeps.
 *
 * Knows calls; must not know their purpose.
 */
import { type ErrorCode, SuperchunkError } from "../../src/errors.ts";
import type { ReadableStore, WritableStore } from "../../src/store/types.ts";
import {
  type Interceptor,
  interceptStore,
  isWriting,
  type StoreCall,
  type Wrapped,
} from "../../src/store/wrappers/intercept.ts";

/**
 * How the call fails.
 *
 * - `error`, `no-space`: this call throws `IO`, `NO_SPACE` and has no effect; later ones work.
 * - `crash`: the process dies before the call has an effect: this one and all later ones throw.
 * - `crash-after`: it dies after the call had its effect, before its outcome is known.
 * - `torn-write`: it dies in the middle: of a write in place, the first half arrives; what is atomic has no effect.
 * - `short-read`: a read gives half of its bytes, as if the object ended there; later ones are whole.
 */
export type FaultKind = "error" | "no-space" | "crash" | "crash-after" | "torn-write" | "short-read";

/** Which call fails, and how. */
export interface FaultPlan {
  /** Number of the failing call, from 1, among those that `counts` chooses; none with Infinity. */
  readonly failAt: number;
  readonly kind: FaultKind;
  /** Calls that are counted: those that change the store, those that do not, or all (the default). */
  readonly counts?: "writes" | "reads" | "all";
}

/** A store that fails, and its progress. */
export interface FaultyStore<S extends ReadableStore> {
  readonly store: Wrapped<S>;
  /** Calls counted so far: below `failAt` at the end of a sweep, when nothing failed any more. */
  calls(): number;
  /** True once the planned call was made. */
  failed(): boolean;
}

/** Lets one call of a store fail. */
export function withFaults<S extends ReadableStore>(store: S, plan: FaultPlan): FaultyStore<S> {
  const { failAt, kind, counts = "all" } = plan;
  let calls = 0;
  let isDead = false;
  let hasFailed = false;

  const fail = (code: ErrorCode, call: StoreCall, what: string): SuperchunkError =>
    new SuperchunkError(code, `${what} (planned fault at call ${failAt}, ${call.method})`, {
      path: store.describe(call.key),
    });
  const crash = (call: StoreCall): SuperchunkError => {
    isDead = true;
    return fail("IO", call, "the process is dead");
  };
  /** True if this is the call to fail. */
  const arrive = (call: StoreCall): boolean => {
    if (isDead) throw fail("IO", call, "the process is dead");
    if (counts !== "all" && isWriting(call.method) !== (counts === "writes")) return false;
    if (++calls !== failAt) return false;
    hasFailed = true;
    return true;
  };
  /** Throws for the kinds that fail before anything happens. */
  const failBefore = (call: StoreCall): void => {
    if (kind === "error") throw fail("IO", call, "the storage failed");
    if (kind === "no-space") throw fail("NO_SPACE", call, "the storage is full");
    if (kind === "crash") throw crash(call);
  };
  const tearWrite = async (call: StoreCall): Promise<never> => {
    const [key, offset, bytes] = call.args;
    const writable: Partial<WritableStore> = store;
    if (call.method === "writeRange" && typeof key === "string" && typeof offset === "number") {
      if (bytes instanceof Uint8Array) {
        await writable.writeRange?.(key, offset, bytes.subarray(0, bytes.length >> 1));
      }
    }
    throw crash(call);
  };

  const interceptor: Interceptor = {
    async onCall(call, proceed) {
      if (!arrive(call)) return proceed();
      failBefore(call);
      if (kind === "torn-write") return tearWrite(call);
      const outcome = await proceed();
      if (kind === "crash-after") throw crash(call);
      return halve(outcome);
    },
    onSync(call, proceed) {
      if (!arrive(call)) return proceed();
      failBefore(call);
      if (kind === "torn-write" || kind === "crash-after") throw crash(call);
      return halve(proceed());
    },
    onList(call) {
      if (!arrive(call)) return;
      failBefore(call);
      if (kind === "torn-write" || kind === "crash-after") throw crash(call);
    },
  };
  return { store: interceptStore(store, interceptor), calls: () => calls, failed: () => hasFailed };
}

/** The first half of what was read; other outcomes as they are. */
function halve<T>(outcome: T): T {
  if (outcome instanceof Uint8Array) return outcome.slice(0, outcome.length >> 1) as T & Uint8Array;
  return typeof outcome === "number" ? (Math.floor(outcome / 2) as T & number) : outcome;
}
