/** The meaning of `--column` for each kind of archive. */

import type { SuperchunkError } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";
import type { Subject } from "./opening.ts";

/** Names of separately stored columns: of a table, an array with column folders, or a group; else none. */
export function columnNamesOf(archive: Subject): readonly string[] {
  if (archive.kind === "table" || archive.kind === "group") return archive.names;
  return archive.kind === "array" ? archive.columnNames : [];
}

/** The error for `--column` if there are no columns. */
export function noColumns(archive: Subject): SuperchunkError {
  return wrongUse(
    "column",
    `this is ${archive.kind === "bytes" ? "plain bytes" : "one array"} without columns; leave out --column`,
    { path: archive.store.describe(archive.path) },
  );
}
