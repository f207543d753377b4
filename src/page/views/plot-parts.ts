/** Parts of plots: candles, and the plot as a drawing for other programs. */
import type UPlot from "uplot";
import { cssOf, NAMED } from "../colours.ts";
import type { PlotData } from "../engine/protocol.ts";
import { formatNumber } from "../text.ts";

/** Candles of open, high, low and close. */
export function drawCandles(chart: UPlot, good: string, bad: string): void {
  const { ctx, data, bbox } = chart;
  const [x, open, high, low, close] = data;
  if (close === undefined || open === undefined || high === undefined || low === undefined) return;
  const width = Math.max(1, Math.min(14, (0.65 * bbox.width) / x.length));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (let i = 0; i < x.length; i++) {
    const [o, t, l, c] = [open[i], high[i], low[i], close[i]];
    if (o == null || t == null || l == null || c == null) continue;
    const at = chart.valToPos(x[i] as number, "x", true);
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

/** The lines, or the candles of open, high, low and close, as an SVG drawing for other programs. */
export function svgOf({ x, series, isExact }: PlotData, isCandles: boolean): string {
  const [width, height] = [1200, 500];
  const all = series.flatMap(({ min, max }) => [...min, ...max]).filter((value) => !Number.isNaN(value));
  const [low, high] = all.reduce(
    ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
    [Infinity, -Infinity],
  );
  const [first, last] = [x.at(0) ?? 0, x.at(-1) ?? 1];
  const px = (value: number): string => (((value - first) / (last - first || 1)) * width).toFixed(1);
  const py = (value: number): string => (height - ((value - low) / (high - low || 1)) * height).toFixed(1);
  const points = (values: Float64Array): string[] =>
    [...values].flatMap((value, i) => (Number.isNaN(value) ? [] : [`${px(x[i] as number)},${py(value)}`]));
  const shapes = isCandles
    ? candleShapes(series, px, py, x)
    : series.map(({ min, max, first: exact }, i) => {
        const colour = cssOf(NAMED[i % NAMED.length] ?? [0, 0, 0]);
        return isExact
          ? `<polyline fill="none" stroke="${colour}" points="${points(exact).join(" ")}"/>`
          : `<polygon fill="${colour}" fill-opacity="0.5" stroke="${colour}" stroke-width="0.5" points="${[...points(max), ...points(min).reverse()].join(" ")}"/>`;
      });
  const label = `<text x="4" y="14" font-size="12" font-family="sans-serif">${formatNumber(high)}</text><text x="4" y="${height - 4}" font-size="12" font-family="sans-serif">${formatNumber(low)}</text>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${shapes.join("")}${label}</svg>\n`;
}

/** Candles in the drawing's coordinates. One that closed at or above its opening is green. */
function candleShapes(
  series: PlotData["series"],
  px: (value: number) => string,
  py: (value: number) => string,
  x: Float64Array,
): string[] {
  const [open, high, low, close] = series;
  if (open === undefined || high === undefined || low === undefined || close === undefined) return [];
  const width = Math.max(1, Math.min(14, 780 / x.length));
  return Array.from(x, (at, i) => {
    const values = [open.first[i], high.max[i], low.min[i], close.last[i]];
    const [o = Number.NaN, t = Number.NaN, l = Number.NaN, c = Number.NaN] = values;
    if ([o, t, l, c].some(Number.isNaN)) return "";
    const [middle, top, bottom] = [px(at), py(Math.max(o, c)), py(Math.min(o, c))];
    const height = Math.max(1, Number(bottom) - Number(top)).toFixed(1);
    const colour = c >= o ? "#1a7f4b" : "#b3261e";
    return `<path stroke="${colour}" d="M${middle} ${py(t)}V${py(l)}"/><rect fill="${colour}" x="${(Number(middle) - width / 2).toFixed(1)}" y="${top}" width="${width.toFixed(1)}" height="${height}"/>`;
  });
}
