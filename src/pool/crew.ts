/**
 * The workers of a pool, and the messages to and from them. Workers are started on demand, each with at most two jobs, so that none waits
 * for its next message. Knows workers of browsers and threads of Node.js; must not know chunks.
 */
import type { ModuleName } from "../codec/kernel-module.ts";
import type { DecodeOptions } from "../codec/types.ts";
import type { Encode2Options } from "../codec2/as-blosc2.ts";
import { type PackedError, SuperchunkError, unpackError } from "../errors.ts";

/** Jobs that a worker has at a time: the running one and the next. */
const JOBS = 2;

/** Memory of finished jobs that is kept for later ones: most pieces, and most bytes. */
const MOST_SPARES = 32;
const MOST_SPARE_BYTES = 16 << 20;

interface Task {
  readonly id: number;
  readonly job: Job;
  resolve(bytes: Uint8Array): void;
  reject(error: unknown): void;
}

interface Member {
  readonly worker: PoolWorker;
  readonly tasks: Map<number, Task>;
}

/** The other members of both kinds of workers: events, and in Node.js whether they keep the process alive. */
interface WorkerEvents {
  addEventListener?(type: string, listener: (event: { data: Reply; message?: string }) => void): void;
  on?(type: string, listener: (value: never) => void): void;
  ref?(): void;
  unref?(): void;
}

/** Workers that do the jobs of one pool. */
export class Crew {
  readonly #size: number;
  readonly #make: () => PoolWorker;
  readonly #members: Member[] = [];
  readonly #queue: Task[] = [];
  readonly #spares: ArrayBuffer[] = [];
  #spareBytes = 0;
  #nextId = 0;

  constructor(size: number, make: (() => PoolWorker) | undefined) {
    this.#size = size;
    this.#make = make ?? makeWorker;
  }

  /** Copies bytes into memory that may move to a worker: that of a finished job if it fits. */
  copy(bytes: Uint8Array): Uint8Array {
    const { length } = bytes;
    const place = this.#spares.findIndex(
      ({ byteLength }) => byteLength >= length && byteLength <= 2 * length,
    );
    const [spare] = place < 0 ? [] : this.#spares.splice(place, 1);
    if (spare === undefined) return new Uint8Array(bytes);
    this.#spareBytes -= spare.byteLength;
    const copied = new Uint8Array(spare, 0, length);
    copied.set(bytes);
    return copied;
  }

  #keep(spare: ArrayBuffer): void {
    this.#spares.push(spare);
    this.#spareBytes += spare.byteLength;
    while (this.#spares.length > MOST_SPARES || this.#spareBytes > MOST_SPARE_BYTES)
      this.#spareBytes -= this.#spares.shift()?.byteLength ?? 0;
  }

  /** Does a job. Rejects with the signal's reason as soon as that aborts; the result of a running job is discarded. */
  async run(job: Job, signal: AbortSignal | undefined): Promise<Uint8Array> {
    let stop: (() => void) | undefined;
    const done = new Promise<Uint8Array>((resolve, reject) => {
      const task: Task = { id: this.#nextId++, job, resolve, reject };
      stop = () => {
        const place = this.#queue.indexOf(task);
        if (place >= 0) this.#queue.splice(place, 1);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
      this.#queue.push(task);
      this.#dispatch();
    });
    try {
      return await done;
    } finally {
      if (stop !== undefined) signal?.removeEventListener("abort", stop);
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#members.splice(0).map(({ worker }) => worker.terminate()));
  }

  #dispatch(): void {
    for (let task = this.#queue[0]; task !== undefined; task = this.#queue[0]) {
      let member: Member | undefined;
      try {
        member = this.#choose();
      } catch (cause) {
        this.#queue.shift();
        task.reject(failed(cause instanceof Error ? cause.message : String(cause), cause));
        continue;
      }
      if (member === undefined) return;
      this.#queue.shift();
      this.#give(member, task);
    }
  }

  /** An idle worker, a new one, or one with room for another job; undefined if all are busy. */
  #choose(): Member | undefined {
    const [first, ...others] = this.#members;
    const idlest = others.reduce(
      (best, each) => (best === undefined || each.tasks.size < best.tasks.size ? each : best),
      first,
    );
    if (idlest?.tasks.size === 0) return idlest;
    if (this.#members.length < this.#size) return this.#start();
    return idlest !== undefined && idlest.tasks.size < JOBS ? idlest : undefined;
  }

  #give({ worker, tasks }: Member, task: Task): void {
    const { id, job } = task;
    tasks.set(id, task);
    (worker as WorkerEvents).ref?.();
    try {
      worker.postMessage({ id, job } satisfies Order, [job.bytes.buffer as ArrayBuffer]);
    } catch (cause) {
      tasks.delete(id);
      task.reject(cause);
    }
  }

  #start(): Member {
    const worker = this.#make();
    const member: Member = { worker, tasks: new Map() };
    this.#members.push(member);
    const onMessage = (reply: Reply): void => this.#take(member, reply);
    const onError = (reason: string, cause?: unknown): void => this.#lose(member, reason, cause);
    const events: WorkerEvents = worker as WorkerEvents;
    if (events.addEventListener !== undefined) {
      events.addEventListener("message", ({ data }) => onMessage(data));
      events.addEventListener("error", ({ message }) => onError(message || "its file did not load"));
      events.addEventListener("messageerror", () => onError("a message could not be read"));
    } else {
      events.on?.("message", onMessage as (reply: never) => void);
      events.on?.("error", ((error: Error) => onError(error.message, error)) as (error: never) => void);
      events.on?.("exit", ((code: number) => onError(`it exited with code ${code}`)) as (
        code: never,
      ) => void);
    }
    return member;
  }

  #take(member: Member, reply: Reply): void {
    const { worker, tasks } = member;
    if ("needs" in reply) {
      textOf(reply.needs)
        .then((text) => worker.postMessage({ module: reply.needs, text } satisfies Order, []))
        .catch((cause: unknown) => this.#lose(member, `its code did not load: ${cause}`, cause));
      return;
    }
    const task = tasks.get(reply.id);
    tasks.delete(reply.id);
    if ("error" in reply) task?.reject(unpackError(reply.error));
    else {
      this.#keep(reply.spare);
      task?.resolve(reply.bytes);
    }
    this.#dispatch();
    if (tasks.size === 0) (worker as WorkerEvents).unref?.();
  }

  #lose(member: Member, reason: string, cause: unknown): void {
    const place = this.#members.indexOf(member);
    if (place < 0) return;
    this.#members.splice(place, 1);
    member.worker.terminate();
    for (const task of member.tasks.values()) task.reject(failed(reason, cause));
    this.#dispatch();
  }
}

function failed(reason: string, cause?: unknown): SuperchunkError {
  return new SuperchunkError(
    "IO",
    `a worker of the pool did not start, or ended before its work was done (${reason}). Check that the page may start workers and that its server or bundle has the file blosc-worker.js; or give createPool a function worker that makes one`,
    cause === undefined ? {} : { cause },
  );
}

/** The text of a module, for a worker that requests it. */
async function textOf(name: ModuleName): Promise<string> {
  if (name === "decode") return (await import("../kernels/generated/decode-kernels.ts")).hex;
  if (name === "encode") return (await import("../kernels/generated/encode-kernels.ts")).hex;
  return (await import("../kernels/generated/zstd.ts")).wasm;
}

/** The used part of `node:worker_threads`. */
interface NodeThreads {
  readonly Worker: new (file: URL, options: object) => PoolWorker;
}

function makeWorker(): PoolWorker {
  const {
    Worker: Here,
    process,
    location,
  } = globalThis as {
    Worker?: unknown;
    process?: { getBuiltinModule?: (name: string) => unknown };
    location?: { readonly origin: string };
  };
  // Beside this module, in the package and in a build of the sources.
  const file = import.meta.url.replace(/[^/]*$/, "blosc-worker.js");
  if (Here === undefined) {
    const threads = process?.getBuiltinModule?.("node:worker_threads") as NodeThreads | undefined;
    if (threads?.Worker === undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "this host has no workers (a service worker, and Node.js before 20.16, have none); ask for workers: 0",
        { field: "workers" },
      );
    return new threads.Worker(new URL(file), { name: "superchunk" });
  }
  if (location !== undefined && /^https?:/.test(file) && new URL(file).origin !== location.origin)
    return importingWorker(file);
  // Bundlers look for exactly this expression.
  return new Worker(new URL("./blosc-worker.js", import.meta.url), { type: "module" });
}

/** Browsers do not start a worker from another origin's file, so a one-line script imports it. The page must allow `blob:`. */
function importingWorker(file: string): PoolWorker {
  const script = new Blob([`import ${JSON.stringify(file)};`], { type: "text/javascript" });
  const url = URL.createObjectURL(script);
  const worker = new Worker(url, { type: "module" });
  worker.addEventListener("message", () => URL.revokeObjectURL(url), { once: true });
  return worker;
}

// The messages between a pool and its workers.

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
