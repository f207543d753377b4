/**
 * What editors share that write row by row: operations run one after another, and appended rows wait in memory until there are
 * many. Must not know any format.
 */

import type { LongOptions } from "../archive/kinds/types.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import { Editable } from "./editable.ts";

/** The operations on an array that is written, one after another. */
export class OperationLine {
  readonly #name: string;
  readonly #explain: (error: unknown) => Promise<never>;
  #tail: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #isClosed = false;

  /** `name` is that of the array in messages. `explain` throws what the caller gets when an operation fails (default: its error). */
  constructor(name: string, explain: (error: unknown) => Promise<never> = (error) => Promise.reject(error)) {
    this.#name = name;
    this.#explain = explain;
  }

  /** True where nothing is under way, and something may begin. */
  get isFree(): boolean {
    return this.#underWay === 0 && !this.#isClosed;
  }

  /** True from the moment the last operation was asked for. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Runs an operation when those before it are done, whatever became of them. Throws `BAD_ARGUMENT` once it is closed. */
  run<T>(operation: () => Promise<T>): Promise<T> {
    if (!this.#isClosed) return this.#add(operation);
    return Promise.reject(
      new SuperchunkError("BAD_ARGUMENT", "the array is closed; open it again", { path: this.#name }),
    );
  }

  /** Runs the last operation: what comes after it would work without the lock, and is refused from now on. */
  end(operation: () => Promise<void>): Promise<void> {
    this.#isClosed = true;
    return this.#add(operation);
  }

  #add<T>(operation: () => Promise<T>): Promise<T> {
    this.#underWay++;
    const outcome = this.#tail
      .then(operation)
      .catch(this.#explain)
      .finally(() => {
        this.#underWay--;
      });
    this.#tail = outcome.catch(() => undefined); // its caller gets the error
    return outcome;
  }
}

/** Whole rows that wait to be appended. */
export class WaitingRows {
  readonly #most: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** @param most bytes that may wait */
  constructor(most: number) {
    this.#most = most;
  }

  /** Rows of `rowBytes` bytes that wait. */
  count(rowBytes: number): number {
    return this.#bytes === 0 ? 0 : this.#bytes / rowBytes;
  }

  /** Copies rows. True where so much waits now that it should be appended. Throws `BAD_ARGUMENT` for bytes that end inside a row. */
  add(rows: Uint8Array, rowBytes: number): boolean {
    if (rows.length % Math.max(1, rowBytes) !== 0)
      throw badArgument("source", `${rows.length} bytes`, `whole rows of ${rowBytes} bytes`);
    if (rows.length > 0) this.#pieces.push(rows.slice());
    this.#bytes += rows.length;
    return this.#bytes > this.#most;
  }

  /** Lets what waits be appended. It goes on waiting where that fails. */
  async commit(append: (pieces: readonly Uint8Array[]) => Promise<void>): Promise<void> {
    if (this.#pieces.length === 0) return;
    await append(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
  }
}

/** An editor whose operations run one after another. */
export abstract class QueuedEditor extends Editable {
  protected readonly line: OperationLine;
  readonly #lock: { release(): Promise<void> } | undefined;

  /** @param name of the file or folder in messages */
  constructor(name: string, lock: { release(): Promise<void> } | undefined) {
    super();
    this.line = new OperationLine(name);
    this.#lock = lock;
  }

  /** Brings all that waits into the archive, durably. */
  protected abstract commit(options: LongOptions): Promise<void>;

  flush(): Promise<void> {
    return this.line.run(() => this.commit({}));
  }

  async close(): Promise<void> {
    if (this.line.isClosed) return;
    await this.line.end(() => this.commit({})).finally(() => this.#lock?.release());
  }

  async abandon(): Promise<void> {
    if (this.line.isClosed) return;
    await this.line.end(async () => undefined).finally(() => this.#lock?.release());
  }
}
