/**
 * Changing `meta/storage` together with the rows. The commit carries the new storage in `meta/sizes`; then the file is
 * replaced, and another commit takes it out of `meta/sizes` again. @see FORMAT.md [FG-07]
 */

import { encodeJson } from "../../archive/places/generation.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ArrayWriter } from "./array-writer.ts";

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
