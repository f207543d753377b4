/** What `--column` means for each kind of archive. */
import type { Archive } from "../src/array/types.ts";
import { SuperchunkError } from "../src/errors.ts";

/** Names of the columns that lie apart: of a table, or of an array with column folders; else none. */
export function columnNamesOf(archive: Archive): readonly string[] {
  if (archive.kind === "table") return archive.names;
  return archive.kind === "array" ? archive.columnNames : [];
}

/** The error for `--column` with something that has no columns. */
export function noColumns(archive: Archive): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `this is ${archive.kind === "bytes" ? "plain bytes" : "one array"} without columns; leave out --column`,
    {
      path: archive.store.describe(archive.path),
      field: "column",
    },
  );
}
