/**
 * A few worker threads that do jobs. Knows threads and their ends; must not know what jobs are about.
 *
 * Threads start at the first need. They keep the process alive only while they have work.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { SuperchunkError } from "../errors.ts";
import type { Job, Reply } from "./thread-messages.ts";

interface Thread {
  readonly worker: Worker;
  readonly pending: Map<number, Waiting>;
}

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

type Message = { readonly ready: true } | { readonly id: number; readonly reply: Reply };

export class WorkerPool {
  /** Threads at most. */
  readonly size: number;
  /** Tells pools apart. */
  readonly name: string;
  readonly #url: URL;
  readonly #threads: Thread[] = [];
  #starting: Promise<boolean> | undefined;
  #unusable = false;
  #nextId = 0;

  constructor(size: number, url: URL) {
    this.size = size;
    this.name = `${size} ${url.href}`;
    this.#url = url;
  }

  /** True where threads run already. */
  get isRunning(): boolean {
    return this.#threads.length > 0;
  }

  /**
   * Starts the threads that are missing, and waits for one. False, from then on, where none can start: a bundler left
   * the worker's file out, or the host has no threads.
   */
  async start(): Promise<boolean> {
    if (this.#unusable) return false;
    if (this.#threads.length === this.size) return true;
    this.#starting ??= this.#startAll().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #startAll(): Promise<boolean> {
    if (this.#url.protocol === "file:" && !existsSync(fileURLToPath(this.#url))) {
      this.#giveUp(`${fileURLToPath(this.#url)} is missing`);
      return false;
    }
    const missing = this.size - this.#threads.length;
    const started = Array.from({ length: missing }, () => this.#startOne());
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
      const worker = new Worker(this.#url, { name: "superchunk" });
      const thread: Thread = { worker, pending: new Map() };
      const onEnd = (error: Error): void => {
        reject(error);
        this.#remove(thread, error);
      };
      worker.on("message", (message: Message) => {
        if ("ready" in message) {
          this.#threads.push(thread);
          worker.unref();
          resolve();
        } else this.#settle(thread, message.id, message.reply);
      });
      worker.on("error", onEnd);
      worker.on("exit", (code) => onEnd(new Error(`it exited with code ${code}`)));
    });
  }

  /** Does a job; `transfer` moves to the thread. Rejects where the thread ends before it is done. */
  run(job: Job, transfer: readonly ArrayBuffer[]): Promise<Reply> {
    let idlest: Thread | undefined;
    for (const thread of this.#threads) {
      if (idlest === undefined || thread.pending.size < idlest.pending.size) idlest = thread;
    }
    if (idlest === undefined) return Promise.reject(threadEnded(new Error("none is left")));
    const { worker, pending } = idlest;
    return new Promise((resolve, reject) => {
      const id = this.#nextId++;
      worker.postMessage({ id, job }, transfer);
      if (pending.size === 0) worker.ref();
      pending.set(id, { resolve, reject });
    });
  }

  /** Ends all threads; jobs under way are rejected. The pool can be used again. */
  async end(): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #settle({ worker, pending }: Thread, id: number, reply: Reply): void {
    const waiting = pending.get(id);
    pending.delete(id);
    if (pending.size === 0) worker.unref();
    waiting?.resolve(reply);
  }

  #remove(thread: Thread, error: Error): void {
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
