/**
 * References to many archives as one stream: documents before their chunks, objects and their guards behind them.
 *
 * Knows the order of things; must not know the forms in which references are written.
 */
import type { JsonObject } from "../../format/types.ts";
import { groupDocument } from "../zarr-metadata.ts";
import type { ReferencePlan } from "./plan.ts";
import type { GuardedObject, ReferencedArray } from "./planned-array.ts";
import type { PlannedChunk, ReferenceCounts } from "./types.ts";

/** A piece of a set of references. */
export type ReferenceItem =
  | { readonly kind: "group"; readonly node: string; readonly document: JsonObject }
  | { readonly kind: "array"; readonly array: ReferencedArray }
  | PlannedChunk
  | ({ readonly kind: "object" } & GuardedObject);

/**
 * The pieces of all plans. Every object is compared again behind the archive's chunks, so that none is guarded by
 * what it was while a writer was at work; throws `STALE` where one has changed. `firstOf` tells from which chunk on an
 * array is referenced (default: the first).
 */
export async function* streamReferences(
  plans: AsyncIterable<ReferencePlan> | Iterable<ReferencePlan>,
  counts: ReferenceCounts,
  firstOf: (array: ReferencedArray) => Promise<number> | number = () => 0,
): AsyncGenerator<ReferenceItem> {
  const groups = new Set<string>();
  for await (const { groups: own, arrays } of plans) {
    for (const node of foldersAbove([...own.keys(), ...arrays.map(({ node }) => node)])) {
      if (groups.has(node) || own.has(node)) continue;
      groups.add(node);
      yield { kind: "group", node, document: groupDocument({}) };
    }
    for (const [node, document] of own) {
      groups.add(node);
      yield { kind: "group", node, document };
    }
    for (const array of arrays) {
      yield { kind: "array", array };
      yield* array.chunks(counts, await firstOf(array));
    }
    for (const array of arrays)
      for await (const object of array.recheck()) yield { kind: "object", ...object };
  }
}

/** Every folder that a node lies in, the outermost first. */
export function foldersAbove(nodes: readonly string[]): string[] {
  const folders = new Set<string>();
  for (const node of nodes) {
    if (node === "") continue;
    const parts = node.split("/");
    for (let depth = 0; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
  }
  return [...folders].sort((a, b) => a.length - b.length);
}
