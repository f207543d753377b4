/**
 * A few references out of a set in JSON that we wrote, without the memory that the whole would take.
 *
 * Knows that we write a reference, and a guard, a line. @see FORMAT.md [FV-01]
 */
import { SuperchunkError } from "../../errors.ts";
import { MemoryStore } from "../../store/memory.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";

/** Bytes that are read at a time. */
const WINDOW = 1 << 20;

/** A store with a set of only the `wanted` keys of the set at `path`, and their guards. */
export async function excerptKerchunkJson(
  store: ReadableStore,
  path: string,
  wanted: ReadonlySet<string>,
  options: StoreOptions,
): Promise<ReadableStore> {
  const refs: Record<string, unknown> = {};
  const guards: Record<string, unknown> = {};
  const locations = new Set<string>();
  for await (const line of linesOf(store, path, options)) {
    const match = /^("(?:[^"\\]|\\.)*"):(.*?),?$/s.exec(line);
    if (match === null) continue;
    const [, quoted = "", value = ""] = match;
    const name = JSON.parse(quoted) as string;
    if (wanted.has(name)) {
      const reference = JSON.parse(value) as unknown;
      refs[name] = reference;
      if (Array.isArray(reference)) locations.add(String(reference[0]));
    } else if (locations.has(name)) guards[name] = JSON.parse(value);
  }
  const excerpt = new MemoryStore();
  const text = JSON.stringify({ version: 1, refs, guards });
  await excerpt.put(path, new TextEncoder().encode(text));
  return excerpt;
}

async function* linesOf(store: ReadableStore, path: string, options: StoreOptions): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for (let offset = 0; ; offset += WINDOW) {
    const bytes = await store.getRange(path, { offset, length: WINDOW }, options);
    if (bytes === undefined)
      throw new SuperchunkError("NOT_FOUND", "the set of references has vanished", {
        path: store.describe(path),
      });
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (bytes.length < WINDOW) break;
  }
  yield rest;
}
