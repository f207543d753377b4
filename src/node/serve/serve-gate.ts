/** How many answers are made and sent at a time: bounded by their number, and by the bytes that they hold. */

/** Answers under way at a time. */
const MOST_ANSWERS = 64;
/** Bytes of bodies that are held at a time, before further requests wait. */
const MOST_BYTES = 256 * 1024 * 1024;

/** One answer's place. */
export interface Place {
  /** Counts the bytes that the answer holds from now on. */
  hold(bytes: number): void;
  leave(): void;
}

/** Lets requests in, in order. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #answers = 0;
  #bytes = 0;

  /** Waits for a place; the signal's reason is thrown where nobody waits for the answer any more. */
  async enter(signal: AbortSignal): Promise<Place> {
    signal.throwIfAborted();
    while (this.#answers >= MOST_ANSWERS || this.#bytes >= MOST_BYTES) {
      const isWoken = await new Promise<boolean>((resolve) => {
        const wake = (): void => {
          signal.removeEventListener("abort", stop);
          resolve(true);
        };
        const stop = (): void => {
          const at = this.#waiting.indexOf(wake);
          if (at >= 0) this.#waiting.splice(at, 1);
          resolve(false);
        };
        this.#waiting.push(wake);
        signal.addEventListener("abort", stop, { once: true });
      });
      // Woken in place of another, which must not be forgotten.
      if (signal.aborted && isWoken) this.#waiting.shift()?.();
      signal.throwIfAborted();
    }
    this.#answers++;
    let held = 0;
    let left = false;
    return {
      hold: (bytes) => {
        held += bytes;
        this.#bytes += bytes;
      },
      leave: () => {
        if (left) return;
        left = true;
        this.#answers--;
        this.#bytes -= held;
        this.#waiting.shift()?.();
      },
    };
  }
}
