/** Changes of decoded bytes: in whole items of an array, or in one of its columns. Must not know where chunks lie. */
import type { ByteEdit } from "../../codec/types.ts";
import { type ColumnLayout, splitField } from "../layout/columns.ts";

/** Makes the changes, in order. */
export function applyEdits(edits: readonly ByteEdit[], target: Uint8Array): void {
  for (const { at, bytes, length = bytes.length } of edits) {
    target.set(bytes.subarray(0, length), at);
    for (let done = bytes.length; done < length; done *= 2)
      target.copyWithin(at + done, at, at + Math.min(done, length - done));
  }
}

/** What changes of whole items are in a column. */
export function columnEdits(
  edits: readonly ByteEdit[],
  column: ColumnLayout,
  itemSize: number,
): readonly ByteEdit[] {
  const { fieldBytes } = column;
  if (fieldBytes === itemSize) return edits;
  const scaled = (length: number): number => (length / itemSize) * fieldBytes;
  return edits.map(({ at, bytes, length = bytes.length }) => {
    const part = new Uint8Array(scaled(bytes.length));
    splitField(bytes, itemSize, column, part, 0);
    return { at: scaled(at), bytes: part, length: scaled(length) };
  });
}

/** True where the last changes leave nothing of the `nbytes` bytes that were there. */
export function isCovered(edits: readonly ByteEdit[], nbytes: number): boolean {
  return edits.some(({ at, bytes, length = bytes.length }) => at === 0 && length === nbytes);
}
