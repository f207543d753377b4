/**
 * The members of a JSON object as text, so that one can be changed and the others stay as they were written: a parsed
 * number does not tell `1` from `1.0`, which Python does. @see FORMAT.md [FJ-08]
 */
import { parseJson, stringifyJson } from "./json.ts";
import type { JsonInput } from "./types.ts";

/**
 * Names and texts of the members, in order; of equal names the last. Empty bytes have none.
 * Throws what `parseJson` throws, and nothing else.
 */
export function splitMembers(bytes: Uint8Array, path: string): Map<string, string> {
  const members = new Map<string, string>();
  if (bytes.length === 0) return members;
  parseJson(bytes, path); // from here on, the text is known to be right
  const text = new TextDecoder().decode(bytes).trim();
  let start = 1;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    else if (character !== "," || depth !== 1) continue;
    if (depth > 1 || (depth === 1 && character !== ",")) continue;
    addMember(members, text.slice(start, at));
    start = at + 1;
  }
  return members;
}

/** The object with these members, as Python's `json.dumps` divides them. */
export function joinMembers(members: ReadonlyMap<string, string>): string {
  const parts = Array.from(members, ([name, text]) => `${stringifyJson(name, { python: true })}: ${text}`);
  return `{${parts.join(", ")}}`;
}

/** A value as Python's `json.dumps` writes it. */
export function memberText(value: JsonInput): string {
  return stringifyJson(value, { python: true });
}

function addMember(members: Map<string, string>, text: string): void {
  const member = text.trim();
  if (member === "") return;
  const end = endOfString(member, 0) + 1;
  const name = parseJson(member.slice(0, end), "name") as string;
  members.set(name, member.slice(member.indexOf(":", end) + 1).trim());
}

/** Where the string ends that starts at `at`. */
function endOfString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end;
}
