/** The samples of `info`: a line of bars for each column of numbers. Knows text; must not know archives. */
import type { DType } from "../../src/index.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import { scaleText, sparkline } from "../values/plot.ts";
import type { Sample } from "../values/sample.ts";
import { alignRows } from "./layout.ts";

/** A column with what was read of it, or why nothing could be. */
export interface ColumnSample {
  readonly name: string;
  readonly dtype: DType;
  readonly nchunks: number;
  readonly sample?: Sample;
  readonly failure?: string;
}

/** The lines, with what was read for them; none where there is nothing to draw. */
export function sampleLines(samples: readonly ColumnSample[]): string[] {
  if (samples.length === 0) return [];
  const rows = samples.map(({ name, dtype, nchunks, sample, failure }) => {
    if (sample === undefined) return [printable(name), `cannot be read: ${failure ?? ""}`, ""];
    const { means, least, greatest, rows: count, isAll, chunks } = sample;
    return [
      name === "" ? "values" : printable(name),
      sparkline(means),
      least === undefined || greatest === undefined
        ? "no number"
        : `${scaleText(least, dtype)} to ${scaleText(greatest, dtype)}`,
      isAll
        ? "all rows"
        : `${formatPlural(count, "row")} in ${formatCount(chunks)} of ${formatPlural(nchunks, "chunk")}`,
    ];
  });
  return ["", ...alignRows([["sample", "means", "least to greatest", "of"], ...rows])];
}
