/** `superchunk unlink`: undoes `link`. */

import type { Command } from "commander";
import { unlink } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { formatPlural, formatSize } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";

interface UnlinkFlags {
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Adds `unlink PATH`. */
export function addUnlink(program: Command, context: Context): void {
  program
    .command("unlink")
    .description("undo link: every data file gets its length and its permissions back, to the last byte")
    .argument("<path>", "folder that is the Zarr array")
    .option("--break-lock", "take the lock of a writer that is sure to be dead")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Example:
  superchunk unlink prices`,
    )
    .action(async (path: string, flags: UnlinkFlags) => {
      const result = await unlink(path, { breakLock: flags.breakLock, signal: context.signal });
      if (flags.json === true) return context.json(result);
      for (const note of result.notes) context.message(`note: ${note}`);
      for (const file of result.replaced)
        context.message(`note: ${file} is another file than the one that was linked; it was left alone`);
      await context.out.line(
        `${printable(path)} is not a Zarr array any more: ${formatPlural(result.files, "file")} as before, ${formatSize(result.removed)} cut off`,
      );
    });
}
