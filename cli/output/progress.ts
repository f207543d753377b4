/**
 * A progress bar with rate and time left, only on stderr of a terminal.
 *
 * Written here because cli-progress (3.12, last released in 2023) depends on a chain of packages for string widths, and ora
 * (eight dependencies) draws spinners.
 */
import type { Progress } from "../../src/index.ts";
import { formatClock, formatCount, formatSize } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import type { Io } from "./output.ts";
import { fitEnd, textWidth } from "./text-width.ts";

/** The unit of `done` and `total`. */
export type ProgressUnit = "bytes" | "archives" | "chunks" | "rows";

export interface ProgressBar {
  /** Callback for the library's `onProgress`; undefined if nothing is drawn. */
  readonly onProgress: ((progress: Progress) => void) | undefined;
  /** Clears the bar. May be called twice. */
  finish(): void;
}

const REDRAW_MS = 100;
const BAR = 24;
/** Seconds after which a rate is steady enough to tell the time left. */
const STEADY = 2;

/** The unit and the name of a bar. */
export interface BarAbout {
  /** Default bytes. */
  readonly unit?: ProgressUnit;
  /** A typed path, or another name. */
  readonly name?: string;
}

/** A bar on stderr if that is a terminal that can redraw a line, else one that does nothing. */
export function startProgress(io: Io, verb: string, about: BarAbout = {}): ProgressBar {
  const now = (): number => performance.now();
  const dumb = process.env["TERM"] === "dumb" || process.env["CI"] !== undefined;
  if (io.stderr.isTTY !== true || dumb) return { onProgress: undefined, finish: () => {} };
  const begun = now();
  const { hide = (text: string): string => text } = io;
  const shown = about.name === undefined ? about : { ...about, name: hide(about.name) };
  let drawn = Number.NEGATIVE_INFINITY;
  let visible = false;
  const clear = (): void => {
    if (visible) io.stderr.write("\r\x1b[K");
    visible = false;
  };
  io.bars?.add(clear);
  return {
    onProgress: (progress) => {
      const time = now();
      if (time - drawn < REDRAW_MS && (progress.isOpen === true || progress.done < progress.total)) return;
      drawn = time;
      visible = true;
      // A terminal of unknown size reports 0.
      const { label } = progress;
      const open = label === undefined ? progress : { ...progress, label: hide(label) };
      const line = drawBar(verb, open, (time - begun) / 1000, io.stderr.columns || 80, shown);
      io.stderr.write(`\r${line}\x1b[K`);
    },
    finish: () => {
      clear();
      io.bars?.delete(clear);
    },
  };
}

/** Draws a bar while `work` runs. */
export async function withProgress<T>(
  io: Io,
  verb: string,
  about: BarAbout,
  work: (onProgress: ProgressBar["onProgress"]) => Promise<T>,
): Promise<T> {
  const bar = startProgress(io, verb, about);
  try {
    return await work(bar.onProgress);
  } finally {
    bar.finish();
  }
}

/** Columns reserved for a name before other words are dropped. */
const NAME = 16;

/**
 * One state of the bar, in less than the terminal's width. If space is short, the time left is dropped, then the rate, then the
 * bar itself. Names are cut at the front, so that the file name remains.
 */
export function drawBar(
  verb: string,
  progress: Progress,
  seconds: number,
  columns: number,
  { unit: usual = "bytes", name = "" }: BarAbout = {},
): string {
  const { done, total, label = "", unit = usual, isOpen = false } = progress;
  const part = total > 0 ? Math.min(1, done / total) : 1;
  const filled = Math.round(part * BAR);
  const bar = `[${"#".repeat(filled)}${".".repeat(BAR - filled)}]`;
  const rate = seconds > 0 ? done / seconds : 0;
  const isSlow = rate < (unit === "bytes" ? 0.5 : 0.05);
  const speed = isSlow
    ? ""
    : unit === "bytes"
      ? `${formatSize(Math.round(rate))}/s`
      : `${rate.toFixed(1)} ${unit}/s`;
  const left = isSlow || seconds < STEADY ? "" : `${formatClock((total - done) / rate)} left`;
  const percent = `${String(Math.floor(part * 100)).padStart(3)} %`;
  const found = [
    ...(done > 0 && done < total ? [formatCount(done)] : []),
    `${formatCount(total)} found`,
  ].join(" of ");
  const room = Math.max(0, columns - 1);
  const widths = [textWidth(printable(name)), textWidth(printable(label))] as const;
  const needed = widths.reduce((sum, width) => sum + (width === 0 ? 0 : Math.min(NAME, width) + 2), 0);
  const choices = isOpen
    ? [[found, speed], [found]]
    : [[bar, percent, speed, left], [bar, percent, speed], [bar, percent], [percent]];
  const words =
    choices.find((each) => joinWords([verb, ...each]).length + needed <= room) ?? choices.at(-1) ?? [];
  // The rest is for the names. Of two, each gets half, or what the other does not need.
  const spaces = (name === "" ? 0 : 1) + (label === "" ? 0 : 2);
  const rest = Math.max(0, room - joinWords([verb, ...words]).length - spaces);
  const half = Math.floor(rest / 2);
  const own = Math.min(widths[0], Math.max(half, rest - widths[1]));
  const [shownName, shownLabel] = [fitEnd(name, own), fitEnd(label, rest - own)];
  const line = joinWords([joinWords([verb, shownName], " "), ...words, shownLabel]);
  return textWidth(line) <= room ? line : line.slice(0, room);
}

function joinWords(words: readonly string[], between = "  "): string {
  return words.filter((word) => word !== "").join(between);
}
