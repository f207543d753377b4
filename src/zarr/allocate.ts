/** Memory for results: what the engine does not give is an error with a code. */
import { SuperchunkError } from "../errors.ts";

/** Room for a result. Throws `LIMIT` where the engine has none, `UNSUPPORTED` where it has no shared memory. */
export function allocate(length: number, path: string, shared = false): Uint8Array {
  if (shared && typeof SharedArrayBuffer === "undefined") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "this engine gives no shared memory (a browser does only to pages that are cross-origin isolated); read without shared",
      { path, field: "shared" },
    );
  }
  try {
    return shared ? new Uint8Array(new SharedArrayBuffer(length)) : new Uint8Array(length);
  } catch (cause) {
    throw new SuperchunkError(
      "LIMIT",
      `a result of ${length} bytes does not fit in memory; read a smaller selection, or chunk by chunk`,
      { path, found: length, cause },
    );
  }
}
