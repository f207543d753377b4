/**
 * A progress bar with rate and time left, on a terminal's stderr only.
 *
 * Of the libraries for it, cli-progress (3.12, the last release in 2023) brings a chain of packages for the width of
 * strings, and ora (eight dependencies) draws spinners: these lines do what is needed.
 */
import type { Progress } from "../../src/index.ts";
import { formatClock, formatSize } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import type { Io } from "./output.ts";
import { fitEnd, textWidth } from "./text-width.ts";

/** What `done` and `total` count. */
export type ProgressUnit = "bytes" | "archives" | "chunks" | "rows";

/** A bar under way. */
export interface ProgressBar {
  /** To be given to the library as `onProgress`; undefined if nothing is to be drawn. */
  readonly onProgress: ((progress: Progress) => void) | undefined;
  /** Wipes the bar. Harmless to call twice. */
  finish(): void;
}

const REDRAW_MS = 100;
const BAR = 24;

/** What is done is counted in, and to what it is done. */
export interface BarAbout {
  /** Default bytes. */
  readonly unit?: ProgressUnit;
  /** A path as it was typed, or another name. */
  readonly name?: string;
}

/** A bar on stderr where that is a terminal that can redraw a line, else one that does nothing. */
export function startProgress(io: Io, verb: string, about: BarAbout = {}): ProgressBar {
  const now = (): number => performance.now();
  const dumb = process.env["TERM"] === "dumb" || process.env["CI"] !== undefined;
  if (io.stderr.isTTY !== true || dumb) return { onProgress: undefined, finish: () => {} };
  const begun = now();
  const { hide = (text: string): string => text } = io;
  const shown = about.name === undefined ? about : { ...about, name: hide(about.name) };
  let drawn = Number.NEGATIVE_INFINITY;
  let visible = false;
  return {
    onProgress: (progress) => {
      const time = now();
      if (time - drawn < REDRAW_MS && progress.done < progress.total) return;
      drawn = time;
      visible = true;
      // A terminal without a size says 0.
      const { label } = progress;
      const open = label === undefined ? progress : { ...progress, label: hide(label) };
      const line = drawBar(verb, open, (time - begun) / 1000, io.stderr.columns || 80, shown);
      io.stderr.write(`\r${line}\x1b[K`);
    },
    finish: () => {
      if (visible) io.stderr.write("\r\x1b[K");
      visible = false;
    },
  };
}

/** Columns that a name gets before other words go. */
const NAME = 16;

/**
 * One state of the bar, in less than the columns of the terminal. Where they are few the time left goes, then the rate, then the
 * bar itself; names are cut at their front, so that of a path the file stays.
 */
export function drawBar(
  verb: string,
  progress: Progress,
  seconds: number,
  columns: number,
  { unit: usual = "bytes", name = "" }: BarAbout = {},
): string {
  const { done, total, label = "", unit = usual } = progress;
  const part = total > 0 ? Math.min(1, done / total) : 1;
  const filled = Math.round(part * BAR);
  const bar = `[${"#".repeat(filled)}${".".repeat(BAR - filled)}]`;
  const rate = seconds > 0 ? done / seconds : 0;
  const speed =
    rate === 0 ? "" : unit === "bytes" ? `${formatSize(Math.round(rate))}/s` : `${rate.toFixed(1)} ${unit}/s`;
  const left = rate > 0 ? `${formatClock((total - done) / rate)} left` : "";
  const percent = `${String(Math.floor(part * 100)).padStart(3)} %`;
  const room = Math.max(0, columns - 1);
  const widths = [textWidth(printable(name)), textWidth(printable(label))] as const;
  const needed = widths.reduce((sum, width) => sum + (width === 0 ? 0 : Math.min(NAME, width) + 2), 0);
  const choices = [[bar, percent, speed, left], [bar, percent, speed], [bar, percent], [percent]];
  const words =
    choices.find((each) => joinWords([verb, ...each]).length + needed <= room) ?? choices.at(-1) ?? [];
  // What is left is for the names; of two each gets half, or what the other does not take.
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
