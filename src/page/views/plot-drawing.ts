/** The plot as an SVG drawing for other programs. Loaded when it is saved. */
import { nameColour } from "../colours.ts";
import type { PlotData } from "../engine/protocol.ts";
import { dateText, formatNumber } from "../text.ts";
import { ticks, timeTicks } from "./plot-parts.ts";

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
