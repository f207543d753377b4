/** Copies of archives to link, and their original state. */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { basename, join, relative } from "node:path";
import { FileStore } from "../../../src/node/index.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { temporaryFolder } from "../../folder.ts";

export { temporaryFolder } from "../../folder.ts";

/** A copy of a file or folder that may be changed. */
export function copyOf(path: string): string {
  const copy = join(temporaryFolder(), basename(path));
  fs.cpSync(path, copy, { recursive: true });
  return copy;
}

/** Every file and folder below a path: mode, and the hash of its bytes, or its target. */
export function snapshot(path: string): Record<string, string> {
  const found: Record<string, string> = {};
  const visit = (at: string): void => {
    const info = fs.lstatSync(at);
    const mode = (info.mode & 0o7777).toString(8);
    const name = relative(path, at);
    if (info.isDirectory()) {
      found[name] = `folder ${mode}`;
      for (const entry of fs.readdirSync(at)) visit(join(at, entry));
    } else if (info.isSymbolicLink()) found[name] = `link ${fs.readlinkSync(at)}`;
    else found[name] = `file ${mode} ${sha256(fs.readFileSync(at))}`;
  };
  visit(path);
  return found;
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Hash of all values of a Zarr array, byte-swapped in units of `size` bytes. */
export async function hashOfZarr(root: string, node = "", size = 1): Promise<string> {
  const array = await openZarrArray(new FileStore(root), node);
  const hash = createHash("sha256");
  for await (const piece of array.streamBytes()) {
    const bytes = piece.slice();
    for (let at = 0; size > 1 && at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
    hash.update(bytes);
  }
  return hash.digest("hex");
}
