/** What `--column` means for each kind of archive. */

import { SuperchunkError } from "../../src/index.ts";
import type { Subject } from "./opening.ts";

/** Names of the columns that lie apart: of a table, an array with column folders, a group; else none. */
export function columnNamesOf(archive: Subject): readonly string[] {
  if (archive.kind === "table" || archive.kind === "group") return archive.names;
  return archive.kind === "array" ? archive.columnNames : [];
}

/** The error for `--column` with something that has no columns. */
export function noColumns(archive: Subject): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `this is ${archive.kind === "bytes" ? "plain bytes" : "one array"} without columns; leave out --column`,
    { path: archive.store.describe(archive.path), field: "column" },
  );
}
