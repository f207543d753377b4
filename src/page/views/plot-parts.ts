/** Parts of plots: candles, and the ticks of axes. */
import type UPlot from "uplot";

const DATE = "\n{YYYY}-{MM}-{DD}";
/** Labels of a time axis by the seconds from one to the next, and what goes below them where it changes. */
export const TIME_LABELS: UPlot.Axis.Values = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DATE, null, DATE, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DATE, null, DATE, null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}.{fff}", DATE, null, DATE, null, null, null, 1],
];

/** Candles of open, high, low and close, which follow the axis in the data. */
export function drawCandles(chart: UPlot, good: string, bad: string): void {
  const { ctx, data, bbox } = chart;
  const [x, ...lines] = data;
  const width = Math.max(1, Math.min(14, (0.65 * bbox.width) / x.length));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [i, of] of x.entries()) {
    const [o, t, l, c] = lines.map((values) => values[i]);
    if (o == null || t == null || l == null || c == null) continue;
    const at = chart.valToPos(of, "x", true);
    const y = (value: number): number => chart.valToPos(value, "y", true);
    ctx.fillStyle = ctx.strokeStyle = c >= o ? good : bad;
    ctx.lineWidth = Math.max(1, width / 6);
    ctx.beginPath();
    ctx.moveTo(at, y(t));
    ctx.lineTo(at, y(l));
    ctx.stroke();
    const [top, bottom] = [y(Math.max(o, c)), y(Math.min(o, c))];
    ctx.fillRect(at - width / 2, top, width, Math.max(1, bottom - top));
  }
  ctx.restore();
}

/** Round numbers between two bounds, about as many as wanted. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const rough = high / wanted - low / wanted;
  if (!(rough > 0)) return [low].filter(Number.isFinite);
  const power = 10 ** Math.floor(Math.log10(rough));
  return multiples(low, high, ([1, 2, 5].find((each) => each * power >= rough) ?? 10) * power);
}

function multiples(low: number, high: number, step: number): number[] {
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => {
    const tick = (first + i) * step;
    // Multiples of a fraction end in digits that are rounding errors.
    return step < 1 ? Number(tick.toPrecision(15)) : tick;
  });
}

const DAY = 86_400;
const SECONDS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, DAY, 2 * DAY, 7 * DAY];
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

/** Times between two bounds, in seconds since 1970: full minutes, hours and days, or the beginnings of months and years. */
export function timeTicks(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / wanted;
  if (rough < 1) return ticks(low, high, wanted);
  const step = SECONDS.find((each) => each >= rough);
  if (step !== undefined) return multiples(low, high, step);
  const months = MONTHS.find((each) => each * 30 * DAY >= rough) ?? 12_000;
  const monthOf = (seconds: number): number => {
    const date = new Date(1000 * seconds);
    return 12 * date.getUTCFullYear() + date.getUTCMonth();
  };
  return multiples(monthOf(low), monthOf(high), months)
    .map((month) => Date.UTC(Math.floor(month / 12), month % 12) / 1000)
    .filter((seconds) => seconds >= low && seconds <= high);
}
