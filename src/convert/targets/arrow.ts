/** Arrow IPC files (Feather 2): one for each table, or for an array by itself, with a record batch for each run of chunks. */
import { ArrowWriter, type BatchColumn } from "../../arrow/record-batch.ts";
import { stepsOf } from "../../bytes/arrays.ts";
import type { Leaf } from "../../parquet/schema.ts";
import { isText, leafValues } from "../../parquet/values.ts";
import type { ColumnFormat, Piece, PieceContext } from "./column-target.ts";
import {
  metadataOf,
  notesOnTable,
  notTextNote,
  pandasMetadata,
  type SchemaColumn,
  tableColumn,
  typeSettings,
  whyNoTable,
  withMinutes,
} from "./table-columns.ts";

/** Approximate bytes of the rows of a batch. */
const BATCH_BYTES = 8 << 20;

/** Arrow. Its values are not compressed, so that readers can map them into memory; so chunks are always decoded. */
export const ARROW: ColumnFormat = {
  format: "arrow",
  ending: ".arrow",
  holdsTables: true,
  settings: typeSettings,
  notes: notesOnTable,
  whyRefused: whyNoTable,
  whyRecoded: () => undefined,
  describe: (column, piece, options) => ({ notes: tableColumn(column, piece, options).schema.notes }),
  arrange: async (piece, options) => [await withMinutes(piece, options)],

  async write(piece, context) {
    const columns = piece.columns.map((column) => tableColumn(column, piece, context.options));
    for (const { schema } of columns) for (const note of schema.notes) context.note(note);
    const { store, options, signal } = context;
    const notText = await notTextOf(columns, signal);
    for (const leaf of notText) context.note(notTextNote(leaf));
    await store.put(piece.key, fileBytes(columns, piece, notText, context), {
      ifAbsent: options.overwrite !== true,
      signal,
    });
  },

  async compare(piece, { store, options, signal }) {
    const { compareArrow } = await import("./arrow-compare.ts");
    const columns = piece.columns.map((column) => tableColumn(column, piece, options));
    await compareArrow(columns, store, piece.key, signal);
  },
};

/** The string leaves with values that are not UTF-8: their type is written before their values. */
async function notTextOf(
  columns: readonly SchemaColumn[],
  signal: AbortSignal | undefined,
): Promise<ReadonlySet<Leaf>> {
  const found = new Set<Leaf>();
  for (const { column, schema, rowBytes } of columns) {
    const leaves = schema.leaves.filter(
      ({ conversion, dtype }) => conversion.kind === "text" && dtype.kind === "bytes",
    );
    if (leaves.length === 0) continue;
    for (const [first, end] of stepsOf(0, column.shape[0] ?? 1, batchRows(columns))) {
      const rows = await column.rows(first, end, signal);
      if (rows.every((byte) => byte < 0x80)) continue;
      for (const leaf of leaves)
        if (leafValues(leaf, rows, rowBytes).texts?.every(isText) === false) found.add(leaf);
    }
  }
  return found;
}

async function* fileBytes(
  columns: readonly SchemaColumn[],
  piece: Piece,
  notText: ReadonlySet<Leaf>,
  context: PieceContext,
): AsyncGenerator<Uint8Array> {
  const [rows = 1] = columns[0]?.column.shape ?? [];
  const metadata = metadataOf(piece, context.options);
  metadata.set("pandas", pandasMetadata(columns, rows, notText));
  const nodes = columns.flatMap(({ schema }) => schema.nodes);
  const writer = new ArrowWriter(nodes, "file", metadata, notText);
  yield writer.start();
  for (const [first, end] of stepsOf(0, rows, batchRows(columns))) {
    const batch: BatchColumn[] = [];
    for (const { column, schema, rowBytes } of columns) {
      const bytes = await column.rows(first, end, context.signal);
      batch.push(...schema.nodes.map((node) => ({ node, rows: bytes, rowBytes })));
      context.advance(bytes.length);
    }
    yield writer.batch(batch, end - first);
  }
  yield writer.end();
}

/** Rows of a batch: a multiple of the longest chunk length of the columns. */
function batchRows(columns: readonly SchemaColumn[]): number {
  const longest = Math.max(1, ...columns.map(({ column }) => column.chunks?.chunkLength ?? 1));
  const widest = Math.max(1, ...columns.map(({ rowBytes }) => rowBytes));
  return Math.max(1, Math.floor(BATCH_BYTES / widest / longest)) * longest;
}
