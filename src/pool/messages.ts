/** The messages between a pool and its workers. Must not know workers. */
import type { ModuleName } from "../codec/kernel-module.ts";
import type { DecodeOptions } from "../codec/types.ts";
import type { Encode2Options } from "../codec2/as-blosc2.ts";
import type { PackedError } from "../errors.ts";

/** A `Worker` of a browser, Deno or Bun, or one of `node:worker_threads`. */
export interface PoolWorker {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  terminate(): unknown;
}

/** One call. `bytes` moves to the worker; `out` in the options is in shared memory. */
export type Job =
  | { readonly kind: "decode"; readonly bytes: Uint8Array; readonly options: DecodeOptions }
  | { readonly kind: "encode"; readonly bytes: Uint8Array; readonly options: Encode2Options };

/** To a worker: a job, or a requested module in the form of `src/kernels/generated`. */
export type Order =
  | { readonly id: number; readonly job: Job }
  | { readonly module: ModuleName; readonly text: string };

/**
 * From a worker: the result of a job, or the module that it needs. Each worker requests each module once, because its own file contains
 * none. `spare` is the memory in which the job came, for the next one: allocating takes longer than copying into it.
 */
export type Reply =
  | { readonly id: number; readonly bytes: Uint8Array; readonly spare: ArrayBuffer }
  | { readonly id: number; readonly error: PackedError }
  | { readonly needs: ModuleName };
