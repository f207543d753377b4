/** The columns of a table of bcolz, or the one carray, as they are now; and what changes of them would cost. Writes nothing. */
import type { LongOptions } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import type { DType, Field } from "../../format/types.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { type Extent, elementsOf } from "../../values/selection.ts";
import type { ResizePlan, SetPlan } from "../editable.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { touchedChunks } from "../layout/setting-plan.ts";
import { type CarrayState, readCarray } from "./carray-state.ts";

/** A carray, and where its values are in a row of the table. */
export interface Column extends ColumnLayout {
  readonly state: CarrayState;
}

/** Bytes that are read at once where rows move. */
const READ_BYTES = 4 << 20;

/** Reads the columns in these folders. A column without a name is a carray alone. */
export async function readColumns(
  store: WritableStore,
  folders: readonly { readonly name: string | undefined; readonly folder: string }[],
  options: StoreOptions,
): Promise<{ readonly columns: readonly Column[]; readonly dtype: DType }> {
  const columns: Column[] = [];
  let offset = 0;
  for (const { name, folder } of folders) {
    const state = await readCarray(store, folder, options);
    const { dtype, rowBytes } = state.settings;
    const fieldBytes = name === undefined ? dtype.itemSize : rowBytes;
    columns.push({ name, folder, itemSize: dtype.itemSize, rowBytes, offset, fieldBytes, state });
    offset += fieldBytes;
  }
  const first = at(columns, 0);
  if (first.name === undefined) return { columns, dtype: first.state.settings.dtype };
  const fields = columns.map(({ name = "", offset: from, state: { settings } }): Field => {
    return { name, dtype: settings.dtype, shape: settings.rowShape, offset: from };
  });
  return { columns, dtype: { kind: "struct", itemSize: offset, byteOrder: "none", fields } };
}

/** What another shape costs: of more rows the last chunk of each column, of fewer the chunk that is cut. */
export function planColumnsResize(
  columns: readonly Column[],
  shapeBefore: readonly number[],
  shape: readonly number[],
): ResizePlan {
  const isMoved = shape.slice(1).join() !== shapeBefore.slice(1).join();
  const [rows, rowsBefore] = [at(shape, 0), at(shapeBefore, 0)];
  let [chunksRewritten, nbytesRewritten] = [0, 0];
  for (const { state } of columns) {
    const { chunklen, rowBytes } = state.settings;
    const kept = Math.min(rows, rowsBefore);
    const first = isMoved ? 0 : rows === rowsBefore ? kept : kept - (kept % chunklen);
    chunksRewritten += Math.ceil(kept / chunklen) - Math.ceil(first / chunklen);
    nbytesRewritten += (kept - first) * rowBytes;
  }
  return { shapeBefore, shape, chunksRewritten, nbytesRewritten };
}

/** What setting a selection costs. */
export function planColumnsSet(columns: readonly Column[], extents: readonly Extent[]): SetPlan {
  const valuesSet = elementsOf(extents.map(({ count }) => count));
  let [chunksRewritten, nbytesRewritten] = [0, 0];
  for (const { state } of valuesSet === 0 ? [] : columns) {
    const { chunklen, rowBytes } = state.settings;
    for (const chunk of touchedChunks(at(extents, 0), chunklen)) {
      chunksRewritten++;
      nbytesRewritten += Math.min(chunklen, state.rows - chunk * chunklen) * rowBytes;
    }
  }
  return { valuesSet, chunksRewritten, nbytesRewritten };
}

/** The bytes of a carray from one on, in pieces. */
export async function* readBytes(
  { archive }: CarrayState,
  start: number,
  end: number,
  options: LongOptions,
): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end; at += READ_BYTES) {
    options.signal?.throwIfAborted();
    yield await archive.readBytes(at, Math.min(end, at + READ_BYTES), { signal: options.signal });
  }
}
