/**
 * The commits of an array, one behind another: what the last one says, and how the next one is told from all that may have
 * arrived. Must not know what is planned. @see FORMAT.md [FG-05] [FG-06]
 */
import { encodeSizes, type StoredLayout } from "../../format/layout.ts";
import type { ArrayRoot } from "./root.ts";

/** What the last commit says. */
export interface Committed {
  readonly layout: StoredLayout;
  readonly rows: number;
  readonly cbytes: number;
}

/** What a commit says beside the layout. Sizes in bytes. */
export interface CommitFacts {
  readonly rows: number;
  readonly rowShape: readonly number[];
  readonly rowBytes: number;
  readonly cbytes: number;
}

export class CommitLine {
  readonly #root: ArrayRoot;
  /** The last commit. */
  last: Committed;
  #generation: number;
  #hasFailed = false;

  constructor(root: ArrayRoot, last: Committed) {
    this.#root = root;
    this.last = last;
    this.#generation = last.layout.generation;
  }

  /** Commits; durable when resolved. The layout gets the next generation. Where it fails, it can be tried again. `prepare` runs right before, where rows come. */
  async put(
    planned: Omit<StoredLayout, "generation">,
    facts: CommitFacts,
    prepare?: (next: Committed) => Promise<void> | undefined,
  ): Promise<void> {
    const root = this.#root;
    if (this.#hasFailed) await root.assertOurs();
    // What arrived though its answer was lost must not pass for what comes in its place.
    const { lostAnswers } = root;
    const layout: StoredLayout = {
      ...planned,
      generation: ++this.#generation,
      epoch: planned.epoch + lostAnswers,
      edition: planned.edition + lostAnswers,
    };
    const { rows, rowShape, rowBytes, cbytes } = facts;
    const sizes = encodeSizes({ shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes }, layout);
    const next: Committed = { layout, rows, cbytes };
    if (rows > this.last.rows) await prepare?.(next);
    this.#hasFailed = true;
    await root.commit(sizes);
    this.#hasFailed = false;
    this.last = next;
  }
}
