/**
 * What editors that write row by row share: operations run one after another, and appended rows wait in memory until there are
 * many. Must not know any format.
 */

import type { LongOptions } from "../archive/kinds/types.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import type { WritableStore } from "../store/types.ts";
import { Editable, type PublishPolicy, type WriterLock } from "./editable.ts";
import type { ArraySettings } from "./layout/settings.ts";

/** The queue of operations on an array that is written. */
export class OperationLine {
  readonly #name: string;
  readonly #explain: (error: unknown) => Promise<never>;
  #tail: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #count = 0;
  #isClosed = false;

  /** `name` is the array's name in messages. `explain` throws what the caller gets when an operation fails. */
  constructor(name: string, explain: (error: unknown) => Promise<never>) {
    this.#name = name;
    this.#explain = explain;
  }

  /** True if no operation is running or waiting, and one may begin. */
  get isFree(): boolean {
    return this.#underWay === 0 && !this.#isClosed;
  }

  /** How many operations have been requested. */
  get count(): number {
    return this.#count;
  }

  /** True once the last operation has been requested. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Runs an operation after the earlier ones, whether or not they failed. Throws `BAD_ARGUMENT` once it is closed. */
  run<T>(operation: () => Promise<T>): Promise<T> {
    if (!this.#isClosed) return this.#add(operation);
    return Promise.reject(
      new SuperchunkError("BAD_ARGUMENT", "the array is closed; open it again", { path: this.#name }),
    );
  }

  /** Runs the last operation: later ones would run without the lock, and are refused from now on. */
  end(operation: () => Promise<void>): Promise<void> {
    this.#isClosed = true;
    return this.#add(operation);
  }

  #add<T>(operation: () => Promise<T>): Promise<T> {
    this.#underWay++;
    this.#count++;
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

/** True if rows of a stream that arrived since the last commit should be committed. */
export function isDue(
  publish: PublishPolicy,
  now: { readonly rows: number; readonly settings: Pick<ArraySettings, "chunklen" | "superchunklen"> },
  shown: { readonly rows: number; readonly at: number },
): boolean {
  const { rows, settings } = now;
  if (rows === shown.rows || publish === "flush") return rows > shown.rows;
  if (publish !== "full") return performance.now() - shown.at >= publish.everySeconds * 1000;
  const full = settings.chunklen * settings.superchunklen;
  return Math.floor(rows / full) > Math.floor(shown.rows / full);
}

/** Larger appends are separate operations, without a copy. */
const MOST_JOINED = 1 << 16;
/** Most bytes appended together. */
const MOST_TOGETHER = 8 << 20;

/** Small appends that share one operation. */
interface Joined {
  /** The first `length` bytes are theirs. */
  rows: Uint8Array;
  length: number;
  done: Promise<void>;
  /** How many operations had been requested with this one. */
  turn: number;
}

/**
 * Joins small appends that are not awaited one by one: those that arrive while others wait for their turn become one operation
 * with them.
 */
export class JoinedRows {
  readonly #line: OperationLine;
  readonly #append: (rows: Uint8Array) => Promise<void>;
  /** Those whose turn has not come. */
  #last: Joined | undefined;

  constructor(line: OperationLine, append: (rows: Uint8Array) => Promise<void>) {
    this.#line = line;
    this.#append = append;
  }

  /** Copies the rows and returns a promise for their append; undefined for rows too large to join. */
  add(items: Uint8Array): Promise<void> | undefined {
    if (items.length > MOST_JOINED || this.#line.isClosed) return undefined;
    const last = this.#last?.turn === this.#line.count ? this.#last : undefined;
    const joined = last === undefined || last.length + items.length > MOST_TOGETHER ? this.#begin() : last;
    if (joined.length + items.length > joined.rows.length) {
      const larger = new Uint8Array(2 * joined.rows.length);
      larger.set(joined.rows);
      joined.rows = larger;
    }
    joined.rows.set(items, joined.length);
    joined.length += items.length;
    return joined.done;
  }

  /** Reserves a place in the queue for all rows that arrive until its turn, or until another operation is requested. */
  #begin(): Joined {
    const done = this.#line.run((): Promise<void> => {
      if (this.#last === joined) this.#last = undefined;
      return this.#append(joined.rows.subarray(0, joined.length));
    });
    const joined: Joined = { rows: new Uint8Array(MOST_JOINED), length: 0, done, turn: this.#line.count };
    this.#last = joined;
    return joined;
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

  count(rowBytes: number): number {
    return this.#bytes === 0 ? 0 : this.#bytes / rowBytes;
  }

  /** Copies rows. Returns true if enough waits to be appended. Throws `BAD_ARGUMENT` for bytes that end inside a row. */
  add(rows: Uint8Array, rowBytes: number): boolean {
    if (rows.length % Math.max(1, rowBytes) !== 0)
      throw badArgument("source", `${rows.length} bytes`, `whole rows of ${rowBytes} bytes`);
    if (rows.length > 0) this.#pieces.push(rows.slice());
    this.#bytes += rows.length;
    return this.#bytes > this.#most;
  }

  /** Appends what waits. If that fails, it keeps waiting. */
  async commit(append: (pieces: readonly Uint8Array[]) => Promise<void>): Promise<void> {
    if (this.#pieces.length === 0) return;
    await append(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
  }
}

/** The file or folder that is edited. Its store changes if it gets places. */
type EditedPlace = Pick<Editable, "store" | "path">;

/** An editor whose operations run one after another. */
export abstract class QueuedEditor extends Editable {
  readonly #place: EditedPlace;
  protected readonly line: OperationLine;
  readonly #lock: WriterLock | undefined;
  /** Resolves when the lock has been released. */
  #ended: Promise<void> = Promise.resolve();

  constructor(place: EditedPlace, lock: WriterLock | undefined) {
    super();
    this.#place = place;
    this.line = new OperationLine(place.store.describe(place.path), (error) => this.explain(error));
    this.#lock = lock;
  }

  get store(): WritableStore {
    return this.#place.store;
  }
  get path(): string {
    return this.#place.path;
  }

  /** Writes everything that waits, durably. */
  protected abstract commit(options: LongOptions): Promise<void>;

  /** Throws what the caller gets when an operation fails. */
  protected async explain(error: unknown): Promise<never> {
    throw error;
  }

  /** Writes everything that waits, then does more work, without another operation in between. */
  protected onCommit<T>(options: LongOptions, work: () => Promise<T>): Promise<T> {
    return this.line.run(async () => {
      await this.commit(options);
      return work();
    });
  }

  flush(): Promise<void> {
    return this.line.run(() => this.commit({}));
  }

  close(): Promise<void> {
    return this.end(() => this.commit({}));
  }

  abandon(): Promise<void> {
    return this.end(async () => undefined);
  }

  /** Runs the last operation and releases the lock. If it was requested before, only waits for it. */
  protected async end(operation: () => Promise<void>): Promise<void> {
    if (this.line.isClosed) return this.#ended;
    const outcome = this.line.end(operation).finally(() => this.#lock?.release());
    this.#ended = outcome.catch(() => undefined); // reported to the caller that ended it
    return outcome;
  }
}
