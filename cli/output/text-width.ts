/**
 * The width of text in terminal columns, and text cut to a width.
 *
 * Knows characters; must not know what the text means. Written here because string-width depends on two packages with tables
 * that Node.js has: one pattern finds wide characters, and Intl.Segmenter finds grapheme clusters.
 */
import { printable } from "../values/cell-text.ts";

const ASCII = /^[\x20-\x7e]*$/;
/** Combining marks and invisible characters. */
const NARROW = /^[\p{Mn}\p{Me}\p{Cf}]/u;
/** Full-width characters of East Asia (Unicode Standard Annex 11), and emoji. */
const WIDE =
  /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}])/u;
/** Requests the emoji form of a character. */
const AS_PICTURE = "\ufe0f";

let segmenter: Intl.Segmenter | undefined;

/** The graphemes of a text. */
function charactersOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Width of a {@link printable} text in columns. */
export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  return charactersOf(text).reduce((sum, each) => sum + widthOf(each), 0);
}

function widthOf(character: string): number {
  if (NARROW.test(character)) return 0;
  return WIDE.test(character) || character.includes(AS_PICTURE) ? 2 : 1;
}

/** The width of the widest cell in each column of rows. */
export function widestOf(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [c, cell] of row.entries()) widths[c] = Math.max(widths[c] ?? 0, textWidth(cell));
  return widths;
}

/** Pads a text at the end to `width` columns; a wider one is returned unchanged. */
export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - textWidth(text)));
}

export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - textWidth(text))) + text;
}

const CUT = "...";

/**
 * The end of a text, printable, in at most `width` columns, with dots for the removed part: of a path, the last parts remain.
 * Graphemes and escapes are not split.
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
