/** A store that refuses to be written to: for plans, which say what would be done. */
import { SuperchunkError } from "../../errors.ts";
import type { WritableStore } from "../types.ts";
import { interceptStore, isWriting, type Wrapped } from "./intercept.ts";

/** The same store, whose writing calls fail with `READ_ONLY`. */
export function asReadOnly(store: WritableStore): Wrapped<WritableStore> {
  return interceptStore(store, {
    onCall({ method, key }, proceed) {
      // Nothing was written that a sync could miss.
      if (method === "sync" || !isWriting(method)) return proceed();
      const refusal = new SuperchunkError("READ_ONLY", "it was opened to plan changes, not to make them", {
        path: store.describe(key),
      });
      return Promise.reject(refusal);
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
}
