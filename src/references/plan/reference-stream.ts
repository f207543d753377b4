/**
 * References to many archives as one stream: documents before their chunks, objects and their guards after them.
 *
 * Knows this order; must not know the forms in which references are written.
 */

import { failureOf, type NodeFailure } from "../../convert/pipeline.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { groupDocument } from "../../zarr/document/make-v3.ts";
import { foldersAbove } from "../../zarr/document/node-names.ts";
import type { PlannedChunk, ReferenceCounts, ReferencedArray, ReferencePlan } from "./plan.ts";
import type { GuardedObject } from "./scanned-objects.ts";

/** A piece of a set of references. */
export type ReferenceItem =
  | { readonly kind: "group"; readonly node: string; readonly document: JsonObject }
  /** Chunks follow from number `first` on. */
  | { readonly kind: "array"; readonly array: ReferencedArray; readonly first: number }
  | PlannedChunk
  | ({ readonly kind: "object" } & GuardedObject);

/** An archive that is not in the result. */
export type FailedArchive = NodeFailure;

/** Options for joining archives into one stream. */
export interface StreamSettings {
  /** First chunk of an array to reference (default: the first). */
  readonly firstOf?: ((array: ReferencedArray) => Promise<number> | number) | undefined;
  /** Called for an archive that cannot be referenced, which is then left out (default: its error ends the stream). */
  readonly onFailure?: ((failure: FailedArchive) => void) | undefined;
}

/**
 * Yields the pieces of all plans. Checks every object again after its archive's chunks, so that no guard describes a state
 * that a writer was just changing. Throws `STALE` if one has changed, and `INCOMPLETE` if all archives were left out.
 */
export async function* streamReferences(
  plans: AsyncIterable<ReferencePlan> | Iterable<ReferencePlan>,
  counts: ReferenceCounts,
  { firstOf = () => 0, onFailure }: StreamSettings,
): AsyncGenerator<ReferenceItem> {
  const groups = new Set<string>();
  let isEmpty = true;
  for await (const plan of plans) {
    const own: ReferenceCounts = { virtual: 0, padded: 0, recoded: 0, inlined: 0 };
    const pieces =
      onFailure === undefined
        ? piecesOf(plan, own, firstOf)
        : await wholePieces(plan, own, firstOf, onFailure);
    if (pieces === undefined) continue;
    isEmpty = false;
    yield* groupsOf(plan, groups);
    yield* pieces;
    for (const kind of ["virtual", "padded", "recoded", "inlined"] as const) counts[kind] += own[kind];
  }
  if (isEmpty && onFailure !== undefined)
    throw new SuperchunkError("INCOMPLETE", "none of the archives can be referenced, so nothing is written", {
      field: "archives",
      expected: "at least 1",
      found: 0,
    });
}

function* groupsOf(
  { groups: own, arrays }: ReferencePlan,
  known: Set<string>,
): Generator<ReferenceItem, void, undefined> {
  for (const node of foldersAbove([...own.keys(), ...arrays.map(({ node }) => node)])) {
    if (known.has(node) || own.has(node)) continue;
    known.add(node);
    yield { kind: "group", node, document: groupDocument({}) };
  }
  for (const [node, document] of own) {
    known.add(node);
    yield { kind: "group", node, document };
  }
}

async function* piecesOf(
  { arrays }: ReferencePlan,
  counts: ReferenceCounts,
  firstOf: NonNullable<StreamSettings["firstOf"]>,
): AsyncGenerator<ReferenceItem> {
  for (const array of arrays) {
    const first = await firstOf(array);
    yield { kind: "array", array, first };
    yield* array.chunks(counts, first);
  }
  for (const array of arrays) for await (const object of array.recheck()) yield { kind: "object", ...object };
}

/** Most bytes of an archive's pieces to keep until all of them are known. */
const MOST_KEPT = 32 << 20;
/** Approximate bytes of a piece besides its chunk. */
const PIECE_BYTES = 400;

/**
 * The pieces of an archive, once all of them were found; undefined if one cannot be found. An archive with very many pieces
 * is read twice instead of keeping them.
 */
async function wholePieces(
  plan: ReferencePlan,
  counts: ReferenceCounts,
  firstOf: NonNullable<StreamSettings["firstOf"]>,
  onFailure: NonNullable<StreamSettings["onFailure"]>,
): Promise<AsyncIterable<ReferenceItem> | Iterable<ReferenceItem> | undefined> {
  const kept: ReferenceItem[] = [];
  let bytes = 0;
  try {
    for await (const item of piecesOf(plan, counts, firstOf)) {
      bytes += PIECE_BYTES + (item.kind === "native" ? item.bytes.length : 0);
      if (bytes <= MOST_KEPT) kept.push(item);
      else kept.length = 0;
    }
  } catch (error) {
    onFailure({ path: plan.source, node: plan.node, ...failureOf(error, plan.source) });
    return undefined;
  }
  if (bytes <= MOST_KEPT) return kept;
  Object.assign(counts, { virtual: 0, padded: 0, recoded: 0, inlined: 0 });
  return piecesOf(plan, counts, firstOf);
}
