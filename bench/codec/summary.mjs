/** Tables of the codec benchmarks: each sample, then the lowest, the median and the highest of the seven, beside the bars. */
import { median, printTable } from "../report.mjs";
import { SAMPLES } from "../samples.mjs";

const NAMES = Object.keys(SAMPLES);

/**
 * Prints results: `work`, `sample`, `ratio`, `mbPerSecond`, `times` numcodecs.js, `timesLibblosc` and, where sizes differ,
 * `sizes`, libblosc's size for ours. A bar is `{ each, middle }`, in times libblosc.
 */
export function printSummary(results, bars) {
  const cell = (value) => value ?? "";
  printTable(
    "each sample",
    ["", "", "ratio", "MB/s", "x numcodecs.js", "x libblosc", "its size / ours"],
    results.map((row) => [
      row.work,
      row.sample,
      ...[row.ratio, Math.round(row.mbPerSecond), row.times, row.timesLibblosc, row.sizes].map(cell),
    ]),
  );
  const works = [...new Set(results.map(({ work }) => work))];
  const rows = works.flatMap((work) => {
    const found = results.filter((row) => row.work === work && NAMES.includes(row.sample));
    const measured = found.filter(({ timesLibblosc }) => timesLibblosc !== undefined);
    if (measured.length === 0) return [];
    const sorted = measured.sort((a, b) => a.timesLibblosc - b.timesLibblosc);
    const least = sorted[0];
    const middle = median(sorted.map(({ timesLibblosc }) => timesLibblosc));
    const bar = bars[work];
    const isMet = bar === undefined || (least.timesLibblosc >= bar.each && (bar.middle ?? 0) <= middle);
    const wanted = bar === undefined ? "" : `${bar.each}${bar.middle === undefined ? "" : `, ${bar.middle}`}`;
    return [
      [
        work,
        least.timesLibblosc,
        middle,
        sorted.at(-1).timesLibblosc,
        least.sample,
        wanted,
        isMet ? "" : "LOSS",
      ],
    ];
  });
  printTable(
    "the seven samples, times libblosc",
    ["", "lowest", "median", "highest", "the lowest is", "bar", ""],
    rows,
  );
}
