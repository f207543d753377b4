/** Helpers for the tests of this folder. */

import type { LongOptions } from "../../src/archive/kinds/types.ts";
import { edit } from "../../src/edit/edit.ts";
import { type ErrorCode, SuperchunkError } from "../../src/errors.ts";
import type { JsonObjectInput } from "../../src/format/types.ts";
import type { WritableStore } from "../../src/store/types.ts";
import type { AttributeChanges, Editable } from "../../src/write/editable.ts";

/** Bytes that encode their positions: no two thousand in a row are alike. */
export function numbered(length: number, from = 0): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => ((i + from) * 7 + ((i + from) >> 8)) & 0xff);
}

/** All pieces in one. */
export async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece.slice());
  return new Uint8Array(Buffer.concat(parts));
}

/** The error of a promise that must fail with an error of this library. */
export async function rejectionOf(
  promise: Promise<unknown>,
): Promise<SuperchunkError & { readonly code: ErrorCode }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof SuperchunkError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Existing rows, and added rows. */
export interface Changed {
  readonly rows: number;
  readonly rowsAppended: number;
}

/** Opens, changes and closes; a failed change is abandoned. */
export async function changed(
  store: WritableStore,
  path: string,
  change: (array: Editable) => Promise<unknown>,
): Promise<Changed> {
  const array = await edit(store, path);
  const { length } = array;
  try {
    await change(array);
    await array.close();
  } catch (error) {
    await array.abandon();
    throw error;
  }
  return { rows: array.length, rowsAppended: array.length - length };
}

export const appendRows = (
  store: WritableStore,
  path: string,
  rows: unknown,
  options?: LongOptions,
): Promise<Changed> => changed(store, path, (array) => array.append(rows, options));

export const resizeRows = (
  store: WritableStore,
  path: string,
  rows: number,
  options?: LongOptions,
): Promise<Changed> => changed(store, path, (array) => array.resize(rows, options));

export const trimRows = (store: WritableStore, path: string, count: number): Promise<Changed> =>
  changed(store, path, (array) => array.resize(array.length - count));

export const changeAttributes = (
  store: WritableStore,
  path: string,
  { set = {}, remove = [] }: { readonly set?: JsonObjectInput; readonly remove?: readonly string[] },
): Promise<Changed> => {
  const changes: AttributeChanges = {
    ...Object.fromEntries(remove.map((name) => [name, undefined])),
    ...set,
  };
  return changed(store, path, (array) => array.setAttributes(changes));
};
