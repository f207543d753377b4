/** Reports how far a conversion is. Must not know how it runs. */
import { at } from "../../bytes/arrays.ts";
import type { ConvertOptions, SourceItem } from "../pipeline.ts";
import type { RunSettings } from "./run-source.ts";

/** The sources that are counted. */
interface Sources {
  readonly items: readonly Pick<SourceItem, "path">[];
  readonly isTree: boolean;
}

/** What is done of a conversion, as it is reported: bytes of the only source, or archives of a tree. */
export class ConversionProgress {
  readonly #sources: Sources;
  readonly #onProgress: ConvertOptions["onProgress"];
  /** Done parts of the sources under way, by index. */
  readonly #fractions = new Map<number, number>();
  #done = 0;

  constructor(sources: Sources, onProgress: ConvertOptions["onProgress"]) {
    this.#sources = sources;
    this.#onProgress = onProgress;
  }

  /** Takes the progress of one source in uncompressed bytes. Files and folders of a tree count as wholes. */
  of(index: number, isHierarchy: boolean): RunSettings["onProgress"] {
    if (!this.#sources.isTree) return (done, total, label) => this.#onProgress?.({ done, total, label });
    if (!isHierarchy) return () => undefined;
    return (done, total) => {
      // A source counts as done only once it is published.
      this.#fractions.set(index, total === 0 ? 0 : Math.min(done / total, 0.999));
      this.#report(index);
    };
  }

  /** Counts a source as done, converted or not. */
  advance(index: number): void {
    this.#done++;
    this.#fractions.delete(index);
    if (this.#sources.isTree) this.#report(index);
  }

  #report(index: number): void {
    const { items } = this.#sources;
    const done = [...this.#fractions.values()].reduce((total, fraction) => total + fraction, this.#done);
    this.#onProgress?.({ done, total: items.length, label: at(items, index).path, unit: "archives" });
  }
}
