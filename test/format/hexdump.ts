/**
 * Annotated bytes of FORMAT.md. Two kinds of fenced blocks: `hexdump KIND`, with one field on each line (offset, bytes in hexadecimal,
 * the same bytes as text between bars, name and value), and `json KIND ANNOTATION`, whose lines are the bytes.
 */
import { hex } from "./hex.ts";

/** One dump: its kind, its bytes, and its annotations in order. */
export interface HexDump {
  /** Line of FORMAT.md where the block starts, from 1. */
  readonly line: number;
  readonly kind: string;
  /** Words after the kind. */
  readonly rest: string;
  readonly bytes: Uint8Array;
  readonly notes: readonly DumpNote[];
  /** What `# name = value` lines after the bytes say about the whole. */
  readonly results: ReadonlyMap<string, string>;
}

/** One annotated field: its offset, its length, and its annotation. */
export interface DumpNote {
  readonly at: number;
  readonly length: number;
  readonly name: string;
  readonly value: string;
}

const LINE = /^([\da-f]{4}) {2}((?:[\da-f]{2} )*[\da-f]{2}) +\|(.{8})\|(?: {2}(\S.*))?$/;

/** All dumps of a text. Throws if a line does not belong to a dump, or the offsets do not follow one another. */
export function parseDumps(text: string): HexDump[] {
  const lines = text.split("\n");
  const dumps: HexDump[] = [];
  for (let i = 0; i < lines.length; i++) {
    const head = /^```(hexdump|json) (\S+) ?(.*)$/.exec(lines[i] ?? "");
    if (head === null) continue;
    const [, language = "", kind = "", rest = ""] = head;
    const line = i + 1;
    const body: string[] = [];
    for (i++; lines[i] !== "```"; i++) {
      const each = lines[i];
      if (each === undefined) throw new Error(`line ${line}: the dump has no end`);
      body.push(each);
    }
    if (language === "hexdump") dumps.push({ line, kind, rest, ...parseBody(body, line) });
    else dumps.push({ line, kind, rest, ...parseText(body.join("\n"), rest) });
  }
  return dumps;
}

/** Plain JSON, with one annotation for all of it. */
function parseText(text: string, note: string): Pick<HexDump, "bytes" | "notes" | "results"> {
  const bytes = new TextEncoder().encode(text);
  const [name = "", value = ""] = split(note);
  return { bytes, notes: [{ at: 0, length: bytes.length, name, value }], results: new Map() };
}

function parseBody(body: readonly string[], line: number): Pick<HexDump, "bytes" | "notes" | "results"> {
  const bytes: number[] = [];
  const notes: { at: number; length: number; name: string; value: string }[] = [];
  const results = new Map<string, string>();
  for (const each of body) {
    if (each.startsWith("# ")) {
      const [name = "", value = ""] = split(each.slice(2));
      results.set(name, value);
      continue;
    }
    const match = LINE.exec(each);
    if (match === null) throw new Error(`FORMAT.md, dump of line ${line}: not a line of a dump: ${each}`);
    const [, at = "", pairs = "", shown = "", note] = match;
    if (Number.parseInt(at, 16) !== bytes.length)
      throw new Error(`FORMAT.md, dump of line ${line}: byte ${bytes.length} is called ${at}`);
    const part = hex(pairs);
    if (shown !== Array.from(part, toPrintable).join("").padEnd(8))
      throw new Error(`FORMAT.md, dump of line ${line}: the text at ${at} is not that of the bytes`);
    if (note !== undefined) {
      const [name = "", value = ""] = split(note);
      notes.push({ at: bytes.length, length: 0, name, value });
    }
    const last = notes.at(-1);
    if (last === undefined)
      throw new Error(`FORMAT.md, dump of line ${line}: the first bytes have no annotation`);
    last.length += part.length;
    bytes.push(...part);
  }
  return { bytes: Uint8Array.from(bytes), notes, results };
}

function toPrintable(byte: number): string {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".";
}

/** `name = value`, or only a name. */
function split(note: string): string[] {
  const at = note.indexOf(" = ");
  return at < 0 ? [note, ""] : [note.slice(0, at), note.slice(at + 3)];
}
