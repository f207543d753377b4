/** `superchunk consolidate`: lets a Zarr group list all that is below it. */

import type { Command } from "commander";
import { consolidate } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { formatPlural } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";

/** Adds `consolidate GROUP`. */
export function addConsolidate(program: Command, context: Context): void {
  program
    .command("consolidate")
    .description(
      "bring the consolidated metadata of a Zarr v3 group up to date, so that readers find all its nodes at once",
    )
    .argument("<group>", "folder, or s3://BUCKET/PREFIX")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Groups below it that have consolidated metadata are brought up to date too. What
"superchunk convert" puts into a group is listed without this.

Example:
  superchunk consolidate bundles.zarr`,
    )
    .action(async (group: string, flags: { readonly json?: boolean }) => {
      const { nodes, changed } = await consolidate(group, { signal: context.signal });
      if (flags.json === true) return context.json({ path: group, nodes, changed });
      const what =
        changed.length === 0 ? "were right already" : `changed in ${formatPlural(changed.length, "group")}`;
      await context.out.line(`${printable(group)}: ${formatPlural(nodes, "node")}; metadata ${what}`);
    });
}
