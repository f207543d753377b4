/** What a pool and its workers say to one another. Knows messages; must not know workers. */
import type { ModuleName } from "../codec/kernel-module.ts";
import type { DecodeOptions } from "../codec/types.ts";
import type { Encode2Options } from "../codec2/as-blosc2.ts";
import type { PackedError } from "../errors.ts";

/** A `Worker` of a browser, Deno or Bun, or one of `node:worker_threads`. */
export interface PoolWorker {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  terminate(): unknown;
}

/** One call. `bytes` moves to the worker; `out` in the options is shared memory. */
export type Job =
  | { readonly kind: "decode"; readonly bytes: Uint8Array; readonly options: DecodeOptions }
  | { readonly kind: "encode"; readonly bytes: Uint8Array; readonly options: Encode2Options };

/** To a worker: a job, or a module as `src/kernels/generated` has it, which the worker asked for. */
export type Order =
  | { readonly id: number; readonly job: Job }
  | { readonly module: ModuleName; readonly text: string };

/**
 * From a worker: what became of a job, or which module it needs. A worker asks for each once, so that its own file has none of them. `spare` is
 * the memory that the job came in, for the next one: new memory costs more than the copy into it.
 */
export type Reply =
  | { readonly id: number; readonly bytes: Uint8Array; readonly spare: ArrayBuffer }
  | { readonly id: number; readonly error: PackedError }
  | { readonly needs: ModuleName };
