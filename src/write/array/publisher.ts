/** Publishes superchunks while the next ones are made, and keeps those that could not be for another try. */
import { giveWay } from "../../archive/read/breather.ts";
import type { FilledBlocks } from "../rows/arena.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/** A superchunk on its way: for each column its chunks. */
export interface Segment {
  readonly number: number;
  readonly columns: readonly (readonly StoredChunk[])[];
}

/** A segment with what becomes of it. */
interface Publication {
  readonly segment: Segment;
  /** Where its chunks lie, to be used again. */
  readonly blocks: FilledBlocks;
  /** Under way; never rejects. Undefined: to be tried again. */
  publishing: Promise<void> | undefined;
  failure: { readonly error: unknown } | undefined;
}

/**
 * Superchunks that are being published while the next one is made, and their bytes where they are more than one: what bounds
 * the memory. Of full superchunks (32 MiB before they are compressed) that is mostly one.
 */
const MAX_WAITING = 2;
const MAX_BYTES = 24 << 20;

export class Publisher {
  readonly #publish: (segment: Segment) => Promise<void>;
  readonly #giveBack: (blocks: FilledBlocks) => void;
  readonly #waiting = new Set<Publication>();
  #deferred: { readonly error: unknown } | undefined;

  /** `publish` puts a segment and takes note of it; `giveBack` gets the memory of those that were. */
  constructor(publish: (segment: Segment) => Promise<void>, giveBack: (blocks: FilledBlocks) => void) {
    this.#publish = publish;
    this.#giveBack = giveBack;
  }

  /** Starts to publish; waits where too many are under way. What goes wrong waits for {@link throwDeferred}. */
  async add(segment: Segment, blocks: FilledBlocks): Promise<void> {
    const publication = { segment, blocks, publishing: undefined, failure: undefined };
    this.#waiting.add(publication);
    this.#start(publication);
    await this.attempt(() => this.drain(this.#bytes > MAX_BYTES ? 1 : MAX_WAITING));
  }

  /** Lets what is under way go on, now and then: to be called within long calculations. */
  giveWay(): Promise<void> | undefined {
    return this.#waiting.size > 0 ? giveWay() : undefined;
  }

  get #bytes(): number {
    let sum = 0;
    for (const { segment } of this.#waiting)
      for (const chunks of segment.columns) for (const { bytes } of chunks) sum += bytes.length;
    return sum;
  }

  /** Runs a step; what goes wrong waits for {@link throwDeferred}. */
  async attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#deferred ??= { error };
    }
  }

  /** Throws what went wrong, once what was under way is in order. */
  throwDeferred(): void {
    const deferred = this.#deferred;
    this.#deferred = undefined;
    if (deferred !== undefined) throw deferred.error;
  }

  /** Waits until at most `left` are under way. Throws what went wrong; then it can be tried again. */
  async drain(left = 0): Promise<void> {
    while (this.#waiting.size > left) {
      for (const publication of this.#waiting) {
        const { failure } = publication;
        if (failure !== undefined) {
          await this.#settle();
          throw failure.error;
        }
        if (publication.publishing === undefined) this.#start(publication);
      }
      await Promise.race([...this.#waiting].map(({ publishing }) => publishing));
    }
  }

  /** Waits for what is under way, and lets all that failed be tried again: the next call tells only what fails from then on. */
  async #settle(): Promise<void> {
    for (const publication of this.#waiting) {
      await publication.publishing;
      publication.failure = undefined;
    }
  }

  /** Gives up what waits, after what is under way. */
  async clear(): Promise<void> {
    for (const { publishing } of this.#waiting) await publishing;
    for (const { blocks } of this.#waiting) this.#giveBack(blocks);
    this.#waiting.clear();
    this.#deferred = undefined;
  }

  #start(publication: Publication): void {
    publication.publishing = this.#publish(publication.segment).then(
      () => {
        this.#waiting.delete(publication);
        this.#giveBack(publication.blocks);
      },
      (error: unknown) => {
        publication.publishing = undefined;
        publication.failure = { error };
      },
    );
  }
}
