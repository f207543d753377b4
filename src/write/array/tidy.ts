/** When superchunks are put in order without being asked to: where there are too many patches, and where it is cheap. */
import { isSuperchunkError } from "../../errors.ts";
import type { ArrayWriter } from "./array-writer.ts";
import { fold, planFold, settleNames } from "./compact.ts";

/** Entries of the patch map, and patches, above which they are folded into the superchunks. */
const MAX_PATCHED_CHUNKS = 65536;
const MAX_PATCHES = 1024;
/** Bytes that are copied to leave the plain layout, where the session wrote less. */
const CHEAP_FOLD = 1 << 20;

/** Folds patches into the superchunks where there are so many that `meta/sizes` would get long. */
export async function foldMany(writer: ArrayWriter): Promise<void> {
  const { patches } = writer.committed.layout;
  const entries = patches.reduce((sum, { chunks }) => sum + chunks.length, 0);
  if (patches.length > MAX_PATCHES || entries > MAX_PATCHED_CHUNKS) await fold(writer);
}

/**
 * Leaves the plain layout where that costs little, at the end of a session. All rows are committed: where it fails, that is
 * no failure of theirs, and the next writer does it. Throws `CONFLICT` alone.
 */
export async function tidy(writer: ArrayWriter): Promise<void> {
  try {
    await foldCheap(writer);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "CONFLICT") throw error;
    writer.root.warnings.push(`the superchunks were not put in order: ${error.message}`);
  }
}

async function foldCheap(writer: ArrayWriter): Promise<void> {
  if (writer.files.sessionBytes === 0) return;
  const { rewritten } = await planFold(writer);
  const { rows, cbytes, layout } = writer.committed;
  const chunks = Math.max(1, Math.ceil(rows / writer.settings.chunklen));
  const bytes = (rewritten.length * writer.settings.superchunklen * cbytes) / chunks;
  if (layout.patches.length > 0 || bytes > Math.max(CHEAP_FOLD, writer.files.sessionBytes)) return;
  await fold(writer);
  if (writer.root.store.link !== undefined) await settleNames(writer);
}
