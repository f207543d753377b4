/** Parts of plots: candles, and the plot as a drawing for other programs. */
import type UPlot from "uplot";
import { nameColour } from "../colours.ts";
import type { PlotData } from "../engine/protocol.ts";
import { dateText, formatNumber } from "../text.ts";

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

/** The labels of a drawing. */
interface Labels {
  /** Label of the horizontal axis. */
  readonly x: string;
  /** True if the values are seconds since 1970. */
  readonly areDates: boolean;
}

/** Width and height of a drawing with its axes, the height without the lower axis, and the width of a letter. */
const [WIDTH, HEIGHT, LOW, LETTER] = [1200, 540, 500, 7];

/** The lines, or the candles of open, high, low and close, as an SVG drawing with axes for other programs. */
export function svgOf(
  { x, xKind, series, isExact }: PlotData,
  isCandles: boolean,
  { x: xName, areDates }: Labels,
): string {
  const all = series.flatMap(({ min, max }) => [...min, ...max]).filter((value) => !Number.isNaN(value));
  const [low, high] = all.reduce(
    ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
    [Infinity, -Infinity],
  );
  const [first, last] = [x.at(0) ?? 0, x.at(-1) ?? 1];
  const yTicks = (areDates ? timeTicks : ticks)(low, high, 8);
  const yTexts = yTicks.map((tick) => (areDates ? dateText : formatNumber)(tick));
  const left = 16 + LETTER * Math.max(0, ...yTexts.map((text) => text.length));
  const [width, top] = [WIDTH - left - 20, 30];
  const px = (value: number): string => (left + ((value - first) / (last - first || 1)) * width).toFixed(1);
  const py = (value: number): string => (LOW - ((value - low) / (high - low || 1)) * (LOW - top)).toFixed(1);
  const points = (values: Float64Array): string[] =>
    [...values].flatMap((value, i) => (Number.isNaN(value) ? [] : [`${px(x[i] as number)},${py(value)}`]));
  const shapes = isCandles
    ? candleShapes(series, px, py, x)
    : series.map(({ min, max, first: exact }, i) =>
        isExact
          ? `<polyline fill="none" stroke="${nameColour(i)}" points="${points(exact).join(" ")}"/>`
          : `<polygon fill="${nameColour(i)}" fill-opacity="0.5" stroke="${nameColour(i)}" stroke-width="0.5" points="${[...points(max), ...points(min).reverse()].join(" ")}"/>`,
      );
  let [lines, texts] = ["", ""];
  const text = (
    at: string | number,
    y: string | number,
    words: string,
    more = ' text-anchor="middle"',
  ): void => {
    texts += `<text x="${at}" y="${y}"${more}>${escapeText(words)}</text>`;
  };
  for (const [i, tick] of yTicks.entries()) {
    lines += `M${left} ${py(tick)}H${left + width}`;
    text(left - 8, py(tick), yTexts[i] ?? "", ' text-anchor="end" dominant-baseline="central"');
  }
  const isTime = xKind === "time";
  for (const tick of (isTime ? timeTicks : ticks)(first, last, 8)) {
    lines += `M${px(tick)} ${LOW}V${top}`;
    text(px(tick), LOW + 18, (isTime ? dateText : formatNumber)(tick));
  }
  text(left + width / 2, LOW + 36, xName);
  let at = left;
  for (const [i, { name }] of series.entries()) {
    const words = name || "value";
    text(at, 18, words, isCandles ? "" : ` fill="${nameColour(i)}"`);
    at += 20 + LETTER * words.length;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/><path stroke="#e1e4e8" d="${lines}"/><g fill="#59636e">${texts}</g>${shapes.join("")}</svg>\n`;
}

function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
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

/** Candles in the drawing's coordinates. One that closed at or above its opening is green. */
function candleShapes(
  series: PlotData["series"],
  px: (value: number) => string,
  py: (value: number) => string,
  x: Float64Array,
): string[] {
  const [open, high, low, close] = series;
  const width = Math.max(1, Math.min(14, 780 / x.length));
  return Array.from(x, (at, i) => {
    const [o, t] = [open?.first[i] ?? Number.NaN, high?.max[i] ?? Number.NaN];
    const [l, c] = [low?.min[i] ?? Number.NaN, close?.last[i] ?? Number.NaN];
    if (Number.isNaN(o + t + l + c)) return "";
    const [middle, top, bottom] = [px(at), py(Math.max(o, c)), py(Math.min(o, c))];
    const height = Math.max(1, Number(bottom) - Number(top)).toFixed(1);
    const colour = c >= o ? "#1a7f4b" : "#b3261e";
    return `<path stroke="${colour}" d="M${middle} ${py(t)}V${py(l)}"/><rect fill="${colour}" x="${(Number(middle) - width / 2).toFixed(1)}" y="${top}" width="${width.toFixed(1)}" height="${height}"/>`;
  });
}
