/**
 * Keeps threads from being ended while they load native code: koffi takes the whole process down where its loading is broken
 * off. The pool closes the gate before it ends its threads, and before the process ends. Knows nothing of what is loaded.
 */
import { isMainThread, workerData } from "node:worker_threads";

const CLOSED = 1 << 30;
/** Milliseconds that an end waits for a thread that loads, which takes 20. */
const PATIENCE = 2000;
/** Of the worker's data. */
const MEMBER = "superchunkLoadingGate";

const gates = new Set<LoadingGate>();

/** The pool's side. */
export class LoadingGate {
  /** How many threads load, and {@link CLOSED}. */
  readonly #cell = new Int32Array(new SharedArrayBuffer(4));

  /** What a thread is given to know the gate by; from now on the end of the process closes it. */
  dataForThread(): Readonly<Record<string, Int32Array>> {
    if (gates.size === 0) process.once("exit", closeAll);
    gates.add(this);
    return { [MEMBER]: this.#cell };
  }

  /** From now on no thread begins to load, and none still does. Blocks for as long as one needs. */
  close(): void {
    const until = performance.now() + PATIENCE;
    Atomics.or(this.#cell, 0, CLOSED);
    for (;;) {
      const now = Atomics.load(this.#cell, 0);
      const left = until - performance.now();
      if (now === CLOSED || left <= 0) return;
      Atomics.wait(this.#cell, 0, now, left);
    }
  }

  /** True if threads are about to be ended. */
  get isClosed(): boolean {
    return Atomics.load(this.#cell, 0) >= CLOSED;
  }

  open(): void {
    Atomics.and(this.#cell, 0, ~CLOSED);
  }
}

function closeAll(): void {
  for (const gate of gates) gate.close();
}

/** The thread's side: loads, unless the thread is about to be ended; elsewhere loads in any case. */
async function loadThroughGate<T>(load: () => Promise<T>): Promise<T> {
  const cell: unknown = isMainThread ? undefined : Object(workerData)[MEMBER];
  if (!(cell instanceof Int32Array)) return load();
  const before = Atomics.add(cell, 0, 1);
  try {
    if (before >= CLOSED) throw new Error("the thread is about to be ended");
    return await load();
  } finally {
    Atomics.sub(cell, 0, 1);
    Atomics.notify(cell, 0);
  }
}

// The package koffi, which calls libraries of the system, where the user has installed it.

export type Koffi = typeof import("koffi")["default"];

/** Loads it. Throws what the engine throws where it is not there. */
export async function importKoffi(): Promise<Koffi> {
  return loadThroughGate(async () => (await import("koffi")).default);
}
