/**
 * A progress bar with rate and time left, on a terminal's stderr only.
 *
 * Of the libraries for it, cli-progress (3.12, the last release in 2023) brings a chain of packages for the width of
 * strings, and ora (eight dependencies) draws spinners: these lines do what is needed.
 */
import type { Progress } from "../src/array/types.ts";
import type { Io } from "./output.ts";
import { formatClock, formatSize } from "./units.ts";

/** What `done` and `total` count. */
export type ProgressUnit = "bytes" | "archives" | "chunks" | "rows";

/** A bar under way. */
export interface ProgressBar {
  /** To be given to the library as `onProgress`; undefined where nothing is to be drawn. */
  readonly onProgress: ((progress: Progress) => void) | undefined;
  /** Wipes the bar. Harmless to call twice. */
  finish(): void;
}

const REDRAW_MS = 100;
const BAR = 24;

/** A bar on stderr where that is a terminal that can redraw a line, else one that does nothing. */
export function startProgress(io: Io, verb: string, unit: ProgressUnit = "bytes"): ProgressBar {
  const now = (): number => performance.now();
  const dumb = process.env["TERM"] === "dumb" || process.env["CI"] !== undefined;
  if (io.stderr.isTTY !== true || dumb) return { onProgress: undefined, finish: () => {} };
  const begun = now();
  let drawn = Number.NEGATIVE_INFINITY;
  let visible = false;
  return {
    onProgress: (progress) => {
      const time = now();
      if (time - drawn < REDRAW_MS && progress.done < progress.total) return;
      drawn = time;
      visible = true;
      // A terminal without a size says 0.
      const line = drawBar(verb, progress, (time - begun) / 1000, io.stderr.columns || 80, unit);
      io.stderr.write(`\r${line}\x1b[K`);
    },
    finish: () => {
      if (visible) io.stderr.write("\r\x1b[K");
      visible = false;
    },
  };
}

/** One state of the bar, cut to the width of the terminal. */
export function drawBar(
  verb: string,
  progress: Progress,
  seconds: number,
  columns: number,
  unit: ProgressUnit = "bytes",
): string {
  const { done, total, label } = progress;
  const part = total > 0 ? Math.min(1, done / total) : 1;
  const filled = Math.round(part * BAR);
  const bar = `${"#".repeat(filled)}${".".repeat(BAR - filled)}`;
  const rate = seconds > 0 ? done / seconds : 0;
  const speed =
    rate === 0 ? "" : unit === "bytes" ? `${formatSize(Math.round(rate))}/s` : `${rate.toFixed(1)} ${unit}/s`;
  const left = rate > 0 ? `${formatClock((total - done) / rate)} left` : "";
  const percent = `${String(Math.floor(part * 100)).padStart(3)} %`;
  const line = [verb, `[${bar}]`, percent, speed, left, label ?? ""].filter((word) => word !== "").join("  ");
  return line.length < columns ? line : line.slice(0, Math.max(0, columns - 1));
}
