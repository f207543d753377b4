/** Arithmetic of the places of superchunks: pure. @see FORMAT.md [FG-20] */
import { at, countLeading } from "../bytes/arrays.ts";
import type { PlaceSpan } from "../format/layout.ts";

interface Numbers {
  readonly first: number;
  readonly count: number;
}

/** The place of each superchunk, by number: as committed, and as changed since. */
export class PlaceTable {
  /** By number, without overlaps. */
  #spans: readonly PlaceSpan[] = [];
  readonly #changed = new Map<number, string | undefined>();

  constructor(spans: readonly PlaceSpan[]) {
    this.adopt(spans);
  }

  /** Takes over the spans of another commit. Later changes are kept, because a number is never in two places. */
  adopt(spans: readonly PlaceSpan[]): void {
    this.#spans = [...spans].sort((a, b) => a.first - b.first);
  }

  /** Name of the place of a superchunk; undefined for `data`. */
  of(number: number): string | undefined {
    if (this.#changed.has(number)) return this.#changed.get(number);
    const span = this.#spans[this.#indexOf(number)];
    return span !== undefined && number < span.first + span.count ? span.place : undefined;
  }

  set(number: number, place: string | undefined): void {
    this.#changed.set(number, place);
  }

  /** The spans of those of these numbers that are not in `data`, by number; adjacent ones are joined. */
  within(numbers: Iterable<Numbers>): PlaceSpan[] {
    const found: { first: number; count: number; place: string }[] = [];
    const add = (first: number, count: number, place: string | undefined): void => {
      const last = found.at(-1);
      if (count < 1 || place === undefined) return;
      if (last?.place === place && last.first + last.count === first) last.count += count;
      else found.push({ first, count, place });
    };
    const changed = [...this.#changed.keys()].sort((a, b) => a - b);
    let next = 0;
    for (const { first, count } of [...numbers].sort((a, b) => a.first - b.first)) {
      const end = first + count;
      while (next < changed.length && at(changed, next) < first) next++;
      let from = first;
      while (next < changed.length && at(changed, next) < end) {
        const number = at(changed, next++);
        this.#addCommitted(from, number, add);
        add(number, 1, this.#changed.get(number));
        from = number + 1;
      }
      this.#addCommitted(from, end, add);
    }
    return found;
  }

  #addCommitted(from: number, end: number, add: (first: number, count: number, place: string) => void): void {
    for (let i = Math.max(0, this.#indexOf(from)); i < this.#spans.length; i++) {
      const span = at(this.#spans, i);
      if (span.first >= end) break;
      const first = Math.max(from, span.first);
      add(first, Math.min(end, span.first + span.count) - first, span.place);
    }
  }

  /** Index of the last span that begins at or before the number; -1 if there is none. */
  #indexOf(number: number): number {
    return countLeading(this.#spans.length, (i) => at(this.#spans, i).first <= number) - 1;
  }
}
