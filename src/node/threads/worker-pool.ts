/**
 * A few worker threads that do jobs. Knows how threads start and end; must not know what jobs are about.
 *
 * Threads start on demand. They keep the process alive only while they have work.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type ResourceLimits, Worker } from "node:worker_threads";
import { SuperchunkError } from "../../errors.ts";
import { LoadingGate } from "./koffi.ts";
import type { ThreadJob, ThreadReply } from "./thread-messages.ts";

interface Thread<R> {
  readonly worker: Worker;
  readonly pending: Map<number, Waiting<R>>;
}

interface Waiting<R> {
  resolve(reply: R): void;
  reject(error: Error): void;
}

/** Options of a job. */
export interface RunOptions {
  /** Only in one of the first `most` threads (default: any). */
  readonly most?: number;
  /** On abort, the thread gets a message to cancel the job. It still answers, soon; after the answer nothing is under way. */
  readonly signal?: AbortSignal | undefined;
}

type WorkerMessage<R> = { readonly ready: true } | { readonly id: number; readonly reply: R };

/** Stands for the program of threads in a bundle of CommonJS, which has no `import.meta.url`: they do not start, and a warning says so. */
export const NO_FILE: URL = new URL("file:///a-bundle-of-CommonJS-has-no-file-for-threads.js");

/** Threads of one program, which does jobs `J` and answers each with `R`. */
export class WorkerPool<J = ThreadJob, R = ThreadReply> {
  /** Most threads. */
  readonly size: number;
  /** Distinguishes pools. */
  readonly name: string;
  readonly #url: URL;
  readonly #limits: ResourceLimits | undefined;
  readonly #threads: Thread<R>[] = [];
  readonly #gate = new LoadingGate();
  #starting: Promise<boolean> | undefined;
  /** Pending until every started thread has answered or failed. */
  #launching: Promise<void> | undefined;
  #unusable = false;
  #nextId = 0;

  constructor(size: number, url: URL, limits?: ResourceLimits) {
    this.size = size;
    this.name = `${size} ${url.href}`;
    this.#url = url;
    this.#limits = limits;
  }

  get isRunning(): boolean {
    return this.#threads.length > 0;
  }

  /**
   * Starts the missing ones of the first `most` threads, and waits for one. Returns false, from then on always, if none can
   * start: a bundler left out the worker's file, or the host has no threads.
   */
  async start(most: number = this.size): Promise<boolean> {
    if (this.#unusable) return false;
    if (this.#threads.length >= most) return true;
    // One has answered and the others are still starting; starting more would be too many.
    if (this.isRunning && this.#launching !== undefined) return true;
    this.#starting ??= this.#startAll(most).finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #startAll(most: number): Promise<boolean> {
    await this.#launching;
    if (this.#url.protocol === "file:" && !existsSync(fileURLToPath(this.#url))) {
      this.#giveUp(`${fileURLToPath(this.#url)} is missing`);
      return false;
    }
    const missing = Math.max(0, most - this.#threads.length);
    const started = Array.from({ length: missing }, () => this.#startOne());
    this.#launching = Promise.allSettled(started).then(() => {
      this.#launching = undefined;
    });
    try {
      await Promise.any(started);
      return true;
    } catch (error) {
      if (this.#threads.length > 0) return true;
      const [first] = error instanceof AggregateError ? error.errors : [error];
      this.#giveUp(first instanceof Error ? first.message : String(first));
      return false;
    }
  }

  #giveUp(reason: string): void {
    this.#unusable = true;
    process.emitWarning(
      `superchunk works in the calling thread alone: its worker threads do not start (${reason})`,
    );
  }

  #startOne(): Promise<void> {
    return new Promise((resolve, reject) => {
      const worker = new Worker(this.#url, {
        name: "superchunk",
        workerData: this.#gate.dataForThread(),
        ...(this.#limits === undefined ? {} : { resourceLimits: this.#limits }),
      });
      const thread: Thread<R> = { worker, pending: new Map() };
      let failure: Error | undefined;
      worker.on("message", (message: WorkerMessage<R>) => {
        if ("ready" in message) {
          this.#threads.push(thread);
          worker.unref();
          resolve();
        } else this.#settle(thread, message.id, message.reply);
      });
      worker.on("error", (error) => {
        failure = error;
      });
      // Every end of a thread emits this event, and only then nothing of the thread is under way, not even writes in libuv's threads.
      worker.on("exit", (code) => {
        const error = failure ?? new Error(`it exited with code ${code}`);
        reject(error);
        this.#remove(thread, error);
      });
    });
  }

  /** Does a job in one of the threads; `transfer` moves to the thread. Rejects if the thread ends before the job is done. */
  run(job: J, transfer: readonly ArrayBuffer[], { most = this.size, signal }: RunOptions = {}): Promise<R> {
    let idlest: Thread<R> | undefined;
    for (const thread of this.#threads.slice(0, most))
      if (idlest === undefined || thread.pending.size < idlest.pending.size) idlest = thread;
    if (idlest === undefined) return Promise.reject(threadEnded(new Error("none is left")));
    const { worker, pending } = idlest;
    const id = this.#nextId++;
    const done = new Promise<R>((resolve, reject) => {
      worker.postMessage({ id, job }, transfer);
      if (pending.size === 0) worker.ref();
      pending.set(id, { resolve, reject });
    });
    if (signal === undefined) return done;
    const cancel = (): void => worker.postMessage({ id, cancelled: true });
    signal.addEventListener("abort", cancel, { once: true });
    return done.finally(() => signal.removeEventListener("abort", cancel));
  }

  /** Ends all threads, including those that are still starting; jobs under way are rejected. The pool can be used again. */
  async end(): Promise<void> {
    await this.#starting;
    await this.#launching;
    this.#gate.close();
    try {
      await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
    } finally {
      this.#gate.open();
    }
  }

  #settle({ worker, pending }: Thread<R>, id: number, reply: R): void {
    const waiting = pending.get(id);
    pending.delete(id);
    // The last answer of an ending thread must not let the process exit before the thread has ended.
    if (pending.size === 0 && !this.#gate.isClosed) worker.unref();
    waiting?.resolve(reply);
  }

  #remove(thread: Thread<R>, error: Error): void {
    const at = this.#threads.indexOf(thread);
    if (at >= 0) this.#threads.splice(at, 1);
    for (const waiting of thread.pending.values()) waiting.reject(threadEnded(error));
    thread.pending.clear();
  }
}

function threadEnded(cause: Error): SuperchunkError {
  const outOfMemory = "code" in cause && cause.code === "ERR_WORKER_OUT_OF_MEMORY";
  return new SuperchunkError(
    outOfMemory ? "LIMIT" : "IO",
    `a worker thread ended before its work was done (${cause.message}). Try again, or without threads (threads: 0)`,
    { cause },
  );
}
