/** Which dialect is this file? By its first bytes, never by its name alone. @see FORMAT.md [F1] */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { checkMagic, decodeHeader } from "./header.ts";
import { startsAsJournal } from "./journal.ts";

/** What a single file can be. `superchunk-file` is version 4, which only superchunks have. */
export type FileDialect = "bloscpack-1" | "bloscpack-2" | "bloscpack-3" | "superchunk-file";

const DIALECTS: Readonly<Record<1 | 2 | 3 | 4, FileDialect>> = {
  1: "bloscpack-1",
  2: "bloscpack-2",
  3: "bloscpack-3",
  4: "superchunk-file",
};

/** Names whose bearer claims to be a `blpk` file. */
const CLAIMED = /\.(blp|bin)$/i;

/**
 * Tells the dialect of a file of `size` bytes from its first bytes `head` (32 are enough) and its name.
 * Throws `TRUNCATED` for an empty file and one that ends inside its header, `BAD_MAGIC` for other bytes under a
 * name in `.blp` or `.bin`, `UNSUPPORTED` for other files and unknown versions, `BAD_FIELD` for a bad header.
 */
export function detectFile(head: Uint8Array, name: string, size: number): { readonly dialect: FileDialect } {
  const bytes = head.subarray(0, size);
  if (startsAsJournal(bytes)) throw journalItself(name);
  try {
    checkMagic(bytes, name);
  } catch (error) {
    if (!isSuperchunkError(error, "BAD_MAGIC") || CLAIMED.test(name)) throw error;
    throw new SuperchunkError(
      "UNSUPPORTED",
      `not an archive that superchunk knows: it starts with the bytes ${error.details.found}, not with "blpk"`,
      error.details,
    );
  }
  return { dialect: DIALECTS[decodeHeader(bytes, name).version] };
}

function journalItself(path: string): SuperchunkError {
  const owner = path.endsWith(".journal") ? path.slice(0, -".journal".length) : undefined;
  return new SuperchunkError(
    "UNSUPPORTED",
    `it is the journal of a change in place that was interrupted, and not an archive; name the file that it belongs to${owner === undefined ? "" : `: ${owner}`}`,
    { path, expected: owner, found: "blpkredo" },
  );
}
