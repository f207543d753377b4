/** What setting values costs. Pure: knows shapes and layouts only. */

import { LayoutIndex } from "../../archive/places/layout-files.ts";
import type { StoredLayout } from "../../format/layout.ts";
import type { Selection } from "../../values/selection.ts";
import { type Extent, elementsOf, resolveSelection } from "../../values/selection.ts";
import type { SetPlan } from "../editable.ts";

/** What of an array decides what is written. */
export interface SettingFacts {
  readonly shape: readonly number[];
  readonly itemSize: number;
  /** Rows of a chunk. */
  readonly chunklen: number;
  readonly layout: StoredLayout;
}

/** Plans setting a selection of values. Throws `BAD_ARGUMENT` for one that does not fit the shape. */
export function planSetting(
  facts: SettingFacts,
  selection: Selection | null,
): SetPlan & { readonly superchunks: number } {
  const { shape, itemSize, chunklen } = facts;
  const [rows = 0, ...rowShape] = shape;
  const extents = resolveSelection(selection, shape);
  const chunks = listChunks(facts, extents);
  const rowsRewritten = chunks.reduce((sum, chunk) => sum + Math.min(chunklen, rows - chunk * chunklen), 0);
  return {
    valuesSet: elementsOf(extents.map(({ count }) => count)),
    chunksRewritten: chunks.length,
    nbytesRewritten: rowsRewritten * elementsOf(rowShape) * itemSize,
    superchunks: listSuperchunks(facts, chunks).size,
  };
}

/** Numbers of the superchunks that hold a selected value. Throws `BAD_ARGUMENT`. */
export function superchunksOf(facts: SettingFacts, selection: Selection | null): ReadonlySet<number> {
  return listSuperchunks(facts, listChunks(facts, resolveSelection(selection, facts.shape)));
}

function listSuperchunks({ layout }: SettingFacts, chunks: readonly number[]): Set<number> {
  const index = new LayoutIndex(layout);
  // Rows that no commit has named are in no superchunk yet.
  return new Set(chunks.filter((chunk) => chunk < index.nchunks).map((chunk) => index.find(chunk).number));
}

function listChunks({ shape, itemSize, chunklen }: SettingFacts, extents: readonly Extent[]): number[] {
  const [first] = extents;
  const rowBytes = elementsOf(shape.slice(1)) * itemSize;
  const isEmpty = rowBytes === 0 || extents.some(({ count }) => count === 0);
  return isEmpty || first === undefined ? [] : [...touchedChunks(first, chunklen)];
}

/** The chunks that hold a row of the extent, in order, each once. */
export function* touchedChunks({ start, step, count }: Extent, chunklen: number): Generator<number> {
  for (let i = 0; i < count; ) {
    const chunk = Math.floor((start + i * step) / chunklen);
    yield chunk;
    i = Math.max(i + 1, Math.ceil(((chunk + 1) * chunklen - start) / step));
  }
}
