/**
 * Numbers for people: sizes, shapes, ratios, durations, counts.
 *
 * Knows text only; must not know archives.
 */
import { InvalidArgumentError } from "commander";

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** A size with three digits and a binary unit, for example `1.21 MiB`. */
export function formatSize(bytes: number): string {
  if (Number.isNaN(bytes)) return "-";
  let unit = 0;
  let value = bytes;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  if (unit === 0) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}

/** The exact size, followed by a rounded one: `1,268,776 bytes (1.21 MiB)`. */
export function formatExactSize(bytes: number): string {
  if (Number.isNaN(bytes)) return "not known";
  const exact = `${formatCount(bytes)} ${bytes === 1 ? "byte" : "bytes"}`;
  return bytes < 1024 ? exact : `${exact} (${formatSize(bytes)})`;
}

/** A whole number with thousands separated by commas, whatever the locale. */
export function formatCount(count: number | bigint): string {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `1 chunk`, `2 chunks`. */
export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Uncompressed bytes divided by stored bytes, with two decimals and at most six characters: large ratios have fewer decimals,
 * and from a hundred thousand on they are powers of ten, `1.4e12`. `-` if nothing is stored.
 */
export function formatRatio(nbytes: number, cbytes: number): string {
  if (nbytes === 0 || Number.isNaN(nbytes) || cbytes <= 0) return "-";
  const ratio = nbytes / cbytes;
  if (ratio < 999.995) return ratio.toFixed(2);
  return ratio < 99999.5 ? ratio.toFixed(0) : ratio.toExponential(1).replace("+", "");
}

/** Uncompressed divided by stored bytes, for JSON; null if nothing is stored. */
export function ratioOf(nbytes: number, cbytes: number): number | null {
  return cbytes > 0 && !Number.isNaN(nbytes) ? Number((nbytes / cbytes).toFixed(4)) : null;
}

/** A duration: `48 ms`, `1.73 seconds`. */
export function formatDuration(seconds: number): string {
  return seconds < 0.0995 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} seconds`;
}

/** Seconds as `m:ss` or `h:mm:ss`. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const pad = (n: number): string => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

const SIZE_UNITS: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
  t: 1024 ** 4,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
  kb: 1000,
  mb: 1000 ** 2,
  gb: 1000 ** 3,
  tb: 1000 ** 4,
};

/** Bytes of `128MiB`, `1.5G`, `4096`, `100MB` (units of 1000). Throws commander's `InvalidArgumentError`. */
export function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  const unit = SIZE_UNITS[(match?.[2] ?? "?").toLowerCase()];
  const bytes = match === null || unit === undefined ? Number.NaN : Math.round(Number(match[1]) * unit);
  if (!Number.isSafeInteger(bytes) || bytes < 1)
    throw new InvalidArgumentError("Expected a size such as 128MiB, 1.5G or 4096.");
  return bytes;
}

/** A whole number of at least 1. Throws commander's `InvalidArgumentError`. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count) || count < 1)
    throw new InvalidArgumentError("Expected a whole number of at least 1.");
  return count;
}

export function countItems(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** True for an address, which has a scheme; false for a path. */
export function isAddress(path: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(path);
}

export function isBucketAddress(path: string): boolean {
  return /^(?:s3|gs|az):\/\//i.test(path);
}

/** A typed shape: `1000,256` or `1000x256`. */
export function parseShape(text: string): readonly number[] {
  const shape = text.split(/[,x]/).map((part) => part.trim());
  if (!shape.every((part) => /^\d+$/.test(part) && Number.isSafeInteger(Number(part))))
    throw new InvalidArgumentError('Expected whole numbers with commas between, for example "1000,256".');
  return shape.map(Number);
}

/** Adds the value of an option that may be repeated. */
export function collectText(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** Typed names, separated by commas. */
export function parseNames(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.includes("")) throw new InvalidArgumentError("Expected names with commas between.");
  return names;
}
