/** What formats of numbered files in folders share: which tasks make which files, and what the folder then has. */
import { at } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { ConvertOptions, Task, TaskContext } from "../pipeline.ts";
import { wantedChunks } from "../plan/grid.ts";
import { type Column, rowsOfChunk } from "../sources/columns.ts";
import type { Piece } from "./column-target.ts";

/** True for `meta/` of bcolz's folders and of superchunks, and for what makes a folder a table. */
export function isFolderDocument(key: string): boolean {
  return /(?:^|\/)(?:meta\/(?:sizes|storage|attributes)|__rootdirs__|__attrs__)$/.test(key);
}

/**
 * Cuts the rows of a folder's files into tasks: `rowsApart` are the rows of one file, `rowBytes` their bytes. `part` begins the tasks'
 * `part`, to which the first row and the end are added. One task if a part would cost as much as all.
 */
export function rowTasks(
  { key, columns }: Pick<Piece, "key" | "columns">,
  {
    rowsApart,
    rowBytes,
    part = [],
  }: { readonly rowsApart: number; readonly rowBytes: number; readonly part?: Task["part"] },
  { shardSize, chunksPerShard }: ConvertOptions,
): Task[] {
  const rows = Math.min(...columns.map(({ shape }) => at(shape, 0)));
  const lengths = columns.map(rowsOfChunk);
  const least = lengths.includes(undefined) ? rows : Math.max(1, ...lengths.map((length = 1) => length));
  const files = Math.max(
    wantedChunks(rowsApart * rowBytes, { shardSize, chunksPerShard }),
    Math.ceil(least / rowsApart),
  );
  const step = files * rowsApart;
  return Array.from({ length: rowBytes === 0 ? 0 : Math.ceil(rows / step) }, (_, i) => {
    const [first, end] = [i * step, Math.min(rows, (i + 1) * step)];
    return { key, part: [...part, first, end], nbytes: (end - first) * rowBytes };
  });
}

/** Stored bytes of `count` numbered objects of a folder. Throws `NOT_FOUND` if one is missing. */
export async function storedBytes(
  { store, signal }: Pick<TaskContext, "store" | "signal">,
  folder: string,
  numbers: {
    numberOf(name: string): number | undefined;
    readonly first: number;
    readonly count: number;
  },
): Promise<number> {
  const { first, count } = numbers;
  let [found, bytes] = [0, 0];
  for await (const { name, size } of store.list(folder, { signal, sizes: true })) {
    const number = numbers.numberOf(name) ?? -1;
    if (number < first || number >= first + count) continue;
    found++;
    bytes += size ?? (await store.stat(joinKey(folder, name), { signal }))?.size ?? 0;
  }
  if (found === count) return bytes;
  throw new SuperchunkError("NOT_FOUND", "files that were written are gone; convert again", {
    path: store.describe(folder),
    expected: count,
    found,
  });
}

export function otherRows({ path }: Column, expected: number, found: number): SuperchunkError {
  return new SuperchunkError("STALE", "it does not have as many rows as its metadata say", {
    path,
    field: "shape",
    expected,
    found,
  });
}
