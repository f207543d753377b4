/** Converts the sources that a conversion hands over, in the other thread. See convert/run/helpers.ts. */

import type { ConvertOptions, Destination, Target } from "../convert/pipeline.ts";
import { BatchPublisher } from "../convert/run/conversion-store.ts";
import type { HandedOutcome, HandedSource, Helper } from "../convert/run/helpers.ts";
import { convertedOf } from "../convert/run/outcomes.ts";
import { placeAt, planItem, runMember } from "../convert/run/run-source.ts";
import { itemAt } from "../convert/sources/items.ts";
import { isSuperchunkError, packError } from "../errors.ts";
import { stringifyJson } from "../format/json.ts";
import { runPooled } from "../store/pool.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";

/** A helper leaves sources with more uncompressed bytes to the caller, which has threads to encode their chunks. */
const LARGE = 64 << 20;

interface HelperSettings {
  readonly target: Target;
  readonly source: ReadableStore;
  readonly destination: Destination;
  readonly options: ConvertOptions;
  readonly isResumed: boolean;
}

/** The helper's side. */
export class SourceHelper implements Helper {
  readonly #settings: HelperSettings;
  readonly #batch: BatchPublisher;
  readonly #store: WritableStore;

  constructor(settings: HelperSettings) {
    this.#settings = settings;
    this.#store = settings.destination.store;
    this.#batch = new BatchPublisher(this.#store);
  }

  async run(
    sources: readonly HandedSource[],
    describes: boolean,
    signal: AbortSignal,
  ): Promise<HandedOutcome[]> {
    const outcomes: HandedOutcome[] = sources.map(() => ({}));
    await runPooled(
      sources.entries(),
      this.#settings.options.jobs ?? 1,
      async ([index, source], inner) => {
        outcomes[index] = await this.#convert(source, describes, inner);
        await this.#batch.flushIfFull();
      },
      signal,
    );
    return outcomes;
  }

  async finish(signal: AbortSignal): Promise<void> {
    await this.#batch.finish(signal);
  }

  async #convert(
    { found, node, begun }: HandedSource,
    describes: boolean,
    signal: AbortSignal,
  ): Promise<HandedOutcome> {
    const { target, source, destination, options: asked, isResumed } = this.#settings;
    const options = { ...asked, signal };
    try {
      const item = itemAt(source, found, node, { signal, asColumns: false });
      const place = placeAt({ ...destination, isInGroup: true }, node, 1);
      const { run, fingerprint } = await planItem(item, place, target, options);
      if (run.plan.nbytes > LARGE) return {};
      const context = { target, store: this.#store, options, publisher: this.#batch };
      const outcome = await runMember(run, context, {
        key: place.key,
        batch: this.#batch,
        signal,
        isLeftOut: true,
        before: isResumed ? (begun === fingerprint ? "ours" : "other") : "nothing",
        onProgress: () => undefined,
      });
      const done = convertedOf(run, outcome);
      const texts = done.described.map(([path, document]) => [path, stringifyJson(document)] as const);
      return { fingerprint, done: { ...done, described: describes ? texts : [] } };
    } catch (error) {
      signal.throwIfAborted();
      if (!isSuperchunkError(error)) throw error;
      return { error: packError(error) };
    }
  }
}
