/**
 * Keeps threads from being ended while they load native code, or make memory with it: interrupting koffi there crashes the whole
 * process. The pool closes the gate before it ends its threads, and before the process ends. Must not know what is loaded.
 */
import { isMainThread, workerData } from "node:worker_threads";

const CLOSED = 1 << 30;
/** Most milliseconds to wait for a loading thread, which takes 20, and many times as long on a busy machine. */
const PATIENCE = 30_000;
/** Name of the gate in the worker's data. */
const MEMBER = "superchunkLoadingGate";

const gates = new Set<LoadingGate>();

/** The pool's side. */
export class LoadingGate {
  /** Number of threads at it, and the bit {@link CLOSED}. */
  readonly #cell = new Int32Array(new SharedArrayBuffer(4));

  /** The worker data that pass the gate to a thread. From now on the end of the process closes it. */
  dataForThread(): Readonly<Record<string, Int32Array>> {
    if (gates.size === 0) process.once("exit", closeAll);
    gates.add(this);
    return { [MEMBER]: this.#cell };
  }

  /** Closes the gate: no thread begins to load or use koffi, and none is still at it. Blocks for as long as one needs. */
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

/** The thread's side: does the work unless the thread is about to be ended. Without a gate, always does it. */
async function throughGate<T>(work: () => Promise<T>): Promise<T> {
  const cell: unknown = isMainThread ? undefined : Object(workerData)[MEMBER];
  if (!(cell instanceof Int32Array)) return work();
  const before = Atomics.add(cell, 0, 1);
  try {
    if (before >= CLOSED) throw new Error("the thread is about to be ended");
    return await work();
  } finally {
    Atomics.sub(cell, 0, 1);
    Atomics.notify(cell, 0);
  }
}

// The package koffi, which calls system libraries, if the user has installed it.

export type Koffi = typeof import("koffi")["default"];

/** Loads koffi, and uses it before the thread can be ended. Throws if it is not installed or does not run. */
export async function withKoffi<T>(use: (koffi: Koffi) => T): Promise<T> {
  return throughGate(async () => {
    // Bundlers leave an import out that they cannot resolve only if it is caught right here.
    let koffi: Koffi;
    try {
      koffi = (await import("koffi")).default;
    } catch (cause) {
      throw new Error("the package koffi cannot be loaded", { cause });
    }
    return use(koffi);
  });
}

export function importKoffi(): Promise<Koffi> {
  return withKoffi((koffi) => koffi);
}
