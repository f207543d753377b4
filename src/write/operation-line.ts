/** The operations on an array that is written, one behind another. Must not know what they do. */
import { SuperchunkError } from "../errors.ts";

export class OperationLine {
  readonly #name: string;
  readonly #explain: (error: unknown) => Promise<never>;
  #tail: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #isClosed = false;

  /** `explain` throws what is to be told where an operation fails; `name` is that of the array in messages. */
  constructor(name: string, explain: (error: unknown) => Promise<never>) {
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
    this.#tail = outcome.catch(() => undefined); // told to whom asked for it
    return outcome;
  }
}
