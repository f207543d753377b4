/** Statistics of columns: bounds, mean, deviation and a histogram. Loaded when they are opened. */
import { fact, h, refill } from "../dom.ts";
import type { ColumnFacts, Statistics } from "../engine/protocol.ts";
import { dateText, formatCount, formatNumber, formatPlural, withoutServer } from "../text.ts";
import { type Shown, sentenceOf } from "./view.ts";

/** Up to this many bytes of values, statistics are computed without a click. */
const COUNTED_UNASKED = 64 << 20;

/** The statistics of columns, one after the other. For large columns, and those on other servers, after a click. */
export function statistics(
  { background, node, source, signal }: Shown,
  columns: readonly ColumnFacts[],
): HTMLElement {
  const total = columns.reduce((sum, { nbytes }) => sum + nbytes, 0);
  const isUnasked = source.kind !== "url" && total <= COUNTED_UNASKED;
  let before = Promise.resolve();
  const parts = columns.map((column) => {
    const place = h("div", { "data-column": column.name });
    const take = (found: Statistics): void => place.replaceChildren(...describe(column, found));
    const count = (): void => {
      refill(place, title(column), h("p", { class: "note" }, "Reading…"));
      before = before.then(async () => {
        if (signal.aborted) return;
        try {
          const target = { archive: node.name, column: column.name };
          take(await background.statistics(target, { signal, onProgress: take }));
          place.dataset["counted"] = "";
        } catch (error) {
          const text = sentenceOf(error);
          if (text !== undefined && !signal.aborted)
            place.replaceChildren(title(column), h("p", { class: "bad-note" }, text));
        }
      });
    };
    if (isUnasked) count();
    else place.append(title(column), h("p", {}, h("button", { onclick: count }, "Statistics of all values")));
    return place;
  });
  return h("section", { class: "statistics", "aria-label": "Statistics" }, ...parts);
}

function title({ name }: ColumnFacts): HTMLElement {
  return h("h2", {}, name === "" ? "Values" : name);
}

/** The facts of all values, and their distribution. */
function describe(column: ColumnFacts, found: Statistics): HTMLElement[] {
  const { count, missing, min, max, histogram, binWidth, isWhole, isTime, every } = found;
  const text = isTime ? dateText : formatNumber;
  const facts: (readonly [string, string])[] = [
    [formatPlural(count, "value"), every > 1 ? `one in ${every} parts` : ""],
  ];
  if (missing > 0) facts.push([formatCount(missing), isTime ? "without a date" : "not finite"]);
  const { lost, lostRows } = found;
  if (lost !== undefined) facts.push([formatPlural(lostRows, "row"), "cannot be read"]);
  const why = lost === undefined ? [] : [h("p", { class: "bad-note" }, withoutServer(lost))];
  if (count === 0) return [title(column), factsOf(facts), ...why];
  facts.push([text(min), "min"], [text(max), "max"], [text(found.mean), "mean"]);
  if (!isTime) facts.push([formatNumber(found.deviation), "standard deviation"]);
  const most = Math.max(1, ...histogram);
  const all = histogram.reduce((sum, each) => sum + each, 0);
  const startOf = (bin: number): number => min + bin * binWidth;
  const nameOf = (bin: number): string => {
    const end = Math.min(max, startOf(bin + 1) - Number(isWhole && !isTime));
    return startOf(bin) >= end ? text(startOf(bin)) : `${text(startOf(bin))} to ${text(end)}`;
  };
  const bars = histogram.map((each, i) =>
    h("i", {
      style: `height:${each === 0 ? 0 : Math.max(1, (56 * each) / most)}px`,
      title: `${nameOf(i)}: ${((100 * each) / all).toPrecision(2)} %`,
    }),
  );
  const label = `Histogram: most values are ${nameOf(histogram.indexOf(most))}`;
  return [
    title(column),
    factsOf(facts),
    h("div", { class: "histogram", role: "img", "aria-label": label }, ...bars),
    ...why,
  ];
}

function factsOf(facts: readonly (readonly [value: string, what: string])[]): HTMLElement {
  return h("p", { class: "facts" }, ...facts.map((each) => fact(...each)));
}
