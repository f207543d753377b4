/** Numbers and names for people. */

/** A count with separators. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${count === 1 ? noun : `${noun}s`}`;
}

/** Compares names in natural order: `a2` before `a10`. */
export const byName: (a: string, b: string) => number = new Intl.Collator("en", { numeric: true }).compare;

/** A shape for people: `1,000 × 20`. */
export function formatShape(shape: readonly number[]): string {
  return shape.length === 0 ? "one value" : shape.map(formatCount).join(" × ");
}

/** The ratio of sizes: `3.2×`. */
export function formatRatio(nbytes: number, cbytes: number): string {
  if (cbytes <= 0 || nbytes <= 0) return "";
  const ratio = nbytes / cbytes;
  return `${ratio >= 100 ? formatCount(Math.round(ratio)) : ratio.toPrecision(ratio >= 10 ? 3 : 2)}×`;
}

/** A number for an axis or a fact, with at most six digits, or more if asked for. */
export function formatNumber(value: number, digits = 6): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return formatCount(value + 0); // removes the sign of a negative zero
  const short = Number(value.toPrecision(digits));
  const isPlain = Math.abs(short) >= 1e-6 && Math.abs(short) < 1e15;
  return isPlain
    ? short.toLocaleString("en-US", { maximumFractionDigits: 12 })
    : short.toExponential().replace("e+", "e");
}

/** How much smaller or larger the stored size is: `3.2× smaller`; empty if nothing is stored, or the sizes are about the same. */
export function formatGain(nbytes: number, cbytes: number): string {
  if (cbytes <= 0 || nbytes <= 0 || Math.abs(nbytes / cbytes - 1) < 0.05) return "";
  return nbytes >= cbytes
    ? `${formatRatio(nbytes, cbytes)} smaller`
    : `${formatRatio(cbytes, nbytes)} larger`;
}

/** A message without the address of files on the page's own server, because their paths are enough. */
export function withoutServer(message: string): string {
  return message.replaceAll(/https?:\/\/[^\s/]+\/__superchunk__\/files\/\d+\//g, "");
}

/** Seconds since 1970 as a date. */
export function dateText(seconds: number): string {
  if (!Number.isFinite(seconds) || Math.abs(seconds) > 8.64e12) return "";
  const iso = new Date(1000 * seconds).toISOString();
  return iso.endsWith("T00:00:00.000Z") ? iso.slice(0, 10) : iso.slice(0, 19).replace("T", " ");
}
