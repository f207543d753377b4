/** Placeholder while the tree engine lands. */
import { SuperchunkError } from "../src/errors.ts";
import type { ConvertFlags } from "./commands/convert.ts";
import type { Context } from "./context.ts";

/** Converts several archives, or folders of them, into one hierarchy. */
export async function convertTree(
  _sources: readonly string[],
  destination: string,
  _flags: ConvertFlags,
  _context: Context,
): Promise<void> {
  throw new SuperchunkError("UNSUPPORTED", "trees", { path: destination });
}
