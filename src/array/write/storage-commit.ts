/**
 * Changing `meta/storage` together with the rows. The commit carries the new storage in `meta/sizes`; then the file is
 * replaced, and another commit takes it out of `meta/sizes` again. @see FORMAT.md [FG-07]
 */
import { encodeJson } from "../generation.ts";
import type { ArrayWriter } from "./array-writer.ts";

/** Finishes what a commit with `layout.storage` began, in this session or in one that was interrupted. */
export async function commitStorage(writer: ArrayWriter): Promise<void> {
  const { storage } = writer.committed.layout;
  if (storage === undefined) return;
  await writer.root.store.put(writer.root.key("meta/storage"), encodeJson(storage), { durable: true });
  await writer.recommit({});
}
