/**
 * Growing, shrinking, deleting rows. Each plans on an {@link ArrayWriter} with nothing else planned; the caller commits.
 */
import type { LongOptions } from "../../archive/kinds/types.ts";
import { encodeJson } from "../../archive/places/generation.ts";
import { isSuperchunkError } from "../../errors.ts";
import { mergeSpans, withoutSpan } from "../../format/layout.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import { joinField, splitField } from "../layout/columns.ts";
import { dropPatched, truncateRuns } from "../layout/runs.ts";
import type { ArrayWriter } from "./array-writer.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/** Adds rows of the default value, until there are `rows`. Progress is in uncompressed bytes. */
export async function grow(writer: ArrayWriter, rows: number, options: LongOptions = {}): Promise<void> {
  if (writer.rowBytes === 0) {
    writer.appendNothing(rows - writer.rows);
    return;
  }
  const { dtype, dflt, chunklen } = writer.settings;
  const item = encodeItem(dtype, dflt);
  const { buffer } = writer;
  const before = writer.rows;
  const total = (rows - before) * writer.rowBytes;
  const fill = Math.min(rows - writer.rows, chunklen - buffer.rows);
  if (buffer.rows > 0) await writer.append(repeat(item, fill * writer.rowBytes));
  const whole = Math.floor((rows - writer.rows) / chunklen);
  if (whole > 0) {
    const items = repeat(item, chunklen * writer.rowBytes);
    const { superchunklen } = writer.settings;
    const columns: StoredChunk[][] = [];
    for (const column of writer.columns) {
      const data = new Uint8Array(chunklen * column.rowBytes);
      splitField(items, dtype.itemSize, column, data, 0);
      const chunk = await writer.chunks.encode(data, column.itemSize);
      columns.push(repeatChunk(chunk, Math.min(whole, superchunklen)));
    }
    for (let left = whole; left > 0; ) {
      options.signal?.throwIfAborted();
      const count = Math.min(left, superchunklen - (writer.wholeChunks % superchunklen));
      await writer.addChunks(columns.map((chunks) => chunks.slice(0, count)));
      left -= count;
      options.onProgress?.({ done: (writer.rows - before) * writer.rowBytes, total });
    }
  }
  const rest = rows - writer.rows;
  if (rest > 0) await writer.append(repeat(item, rest * writer.rowBytes));
}

/** Bytes of equal chunks that are laid one behind another, so that a superchunk of them is written in few pieces. */
const MAX_LAID = 4 << 20;

/** The same chunk, so many times. */
function repeatChunk({ bytes, digest, nbytes }: StoredChunk, count: number): StoredChunk[] {
  const length = bytes.length + digest.length;
  const laid = Math.max(1, Math.min(count, Math.floor(MAX_LAID / length)));
  const room = new Uint8Array(laid * length);
  room.set(bytes);
  room.set(digest, bytes.length);
  for (let filled = length; filled < room.length; filled *= 2) room.copyWithin(filled, 0, filled);
  const chunks = Array.from({ length: laid }, (_, i) => ({
    bytes: room.subarray(i * length, i * length + bytes.length),
    digest: room.subarray(i * length + bytes.length, (i + 1) * length),
    nbytes,
  }));
  return Array.from({ length: count }, (_, i) => chunks[i % laid] as StoredChunk);
}

function repeat(item: Uint8Array, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  bytes.set(item.subarray(0, length));
  for (let filled = item.length; filled > 0 && filled < length; filled *= 2)
    bytes.copyWithin(filled, 0, filled);
  return bytes;
}

/** Leaves the first `rows` rows. What was cut off is in no chunk that counts. */
export async function shrink(writer: ArrayWriter, rows: number): Promise<void> {
  writer.edition++;
  writer.isDirty = true;
  writer.filled = withoutSpan(writer.filled, { from: rows, to: Number.POSITIVE_INFINITY });
  if (writer.rowBytes === 0) {
    writer.buffer.rows = rows;
    return;
  }
  const { chunklen } = writer.settings;
  const whole = Math.floor(rows / chunklen);
  const short = rows % chunklen;
  if (whole < writer.wholeChunks) {
    const columns = short > 0 ? await writer.source().decoded(whole) : [];
    writer.buffer.load(columns, short);
    writer.runs = truncateRuns(writer.runs, whole);
    writer.patches = dropPatched(writer.patches, (chunk) => chunk >= whole);
  } else writer.buffer.rows = short;
}

/** Takes the rows `[start, end)` out; those after them move up, and are rewritten. Progress is in uncompressed bytes. */
export async function deleteRows(
  writer: ArrayWriter,
  start: number,
  end: number,
  options: LongOptions = {},
): Promise<void> {
  const { rows } = writer;
  if (end <= start) return;
  if (writer.rowBytes === 0) {
    await shrink(writer, rows - (end - start));
    return;
  }
  const { chunklen, dtype } = writer.settings;
  const source = writer.source();
  const moved = withoutSpan(writer.filled, { from: 0, to: end });
  await shrink(writer, start);
  const shift = end - start;
  writer.filled = mergeSpans([
    ...writer.filled,
    ...moved.map(({ from, to }) => ({ from: from - shift, to: to - shift })),
  ]);
  const total = (rows - end) * writer.rowBytes;
  for (let index = Math.floor(end / chunklen); index * chunklen < rows; index++) {
    options.signal?.throwIfAborted();
    const columns = await source.decoded(index);
    const held = Math.min(chunklen, rows - index * chunklen);
    const items = new Uint8Array(held * writer.rowBytes);
    writer.columns.forEach((column, i) => {
      joinField(columns[i] ?? new Uint8Array(0), column, items, dtype.itemSize);
    });
    const from = Math.max(0, end - index * chunklen);
    await writer.append(items.subarray(from * writer.rowBytes));
    options.onProgress?.({ done: (writer.rows - start) * writer.rowBytes, total });
  }
}

// Changing `meta/storage` together with the rows. The commit carries the new storage in `meta/sizes`; then the file is
// replaced, and another commit takes it out of `meta/sizes` again. @see FORMAT.md [FG-07]

/**
 * Finishes what a commit with `layout.storage` began, in this session or in one that was interrupted. The array is whole
 * without it: where it fails, that is a warning, and it is tried again later.
 */
export async function commitStorage(writer: ArrayWriter): Promise<void> {
  const { storage } = writer.committed.layout;
  if (storage === undefined) return;
  const { root } = writer;
  try {
    await root.assertOurs();
    await root.store.put(root.key("meta/storage"), encodeJson(storage), { durable: true });
    await writer.recommit({}, true);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "CONFLICT") throw error;
    root.warnings.push(error.message);
  }
}
