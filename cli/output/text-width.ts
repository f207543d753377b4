/**
 * How many columns of a terminal text takes, and text that is cut to them.
 *
 * Knows characters; must not know what the text says. Of the libraries for it, string-width brings two packages with tables
 * that Node.js has: what is wide is one pattern here, and characters that belong together are found by Intl.Segmenter.
 */
import { printable } from "../values/cell-text.ts";

const ASCII = /^[\x20-\x7e]*$/;
/** Combining marks, and what is not seen. */
const NARROW = /^[\p{Mn}\p{Me}\p{Cf}]/u;
/** Characters of East Asia in their full width (Unicode Standard Annex 11), and emoji. */
const WIDE =
  /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}])/u;
/** Asks for the picture of a character that may be a sign as well. */
const AS_PICTURE = "\ufe0f";

let segmenter: Intl.Segmenter | undefined;

/** The characters of a text as people count them. */
function charactersOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Columns that a text takes which is {@link printable}. */
export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  return charactersOf(text).reduce((sum, each) => sum + widthOf(each), 0);
}

function widthOf(character: string): number {
  if (NARROW.test(character)) return 0;
  return WIDE.test(character) || character.includes(AS_PICTURE) ? 2 : 1;
}

/** A text with spaces behind it, so that it takes `width` columns; a wider one as it is. */
export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - textWidth(text)));
}

/** The same with the spaces before it. */
export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - textWidth(text))) + text;
}

const CUT = "...";

/**
 * The end of a text, printable, in at most `width` columns, with dots for what is cut off: of a path its last parts. Neither
 * a character nor an escape that stands for one is cut in two.
 */
export function fitEnd(text: string, width: number): string {
  const whole = printable(text);
  if (textWidth(whole) <= width) return whole;
  const dots = width > CUT.length ? CUT : "";
  let [end, left] = ["", width - dots.length];
  for (const each of charactersOf(text).reverse()) {
    const shown = printable(each);
    left -= textWidth(shown);
    if (left < 0) break;
    end = shown + end;
  }
  return dots + end;
}
