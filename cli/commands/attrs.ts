/** `superchunk attrs`: shows, sets and removes the user attributes of an array or a table. */

import { SuperchunkError } from "../../src/index.ts";
import { edit, open } from "../../src/node/index.ts";
import type { Command, Context, Switches } from "../context.ts";
import { type Attribute, collectAttribute } from "../input/array-options.ts";
import { closing } from "../input/opening.ts";
import { collectText } from "../input/units.ts";

interface AttrsFlags extends Switches<"breakLock" | "json"> {
  readonly set?: readonly Attribute[];
  readonly remove?: readonly string[];
}

export function addAttrs(program: Command, context: Context): void {
  program
    .command("attrs")
    .description(
      "print the user attributes of an archive, a Zarr array or a Zarr group as JSON; set and remove attributes",
    )
    .argument("<path>", "archive, or Zarr array or group")
    .option(
      "--set <name=json>",
      "set an attribute; a value that is not JSON is taken as text; may be repeated",
      collectAttribute,
    )
    .option("--remove <name>", "remove an attribute; may be repeated", collectText)
    .addLockOptions()
    .option("--json", "for a change: print what was done, and the attributes after it")
    .notes(`
Examples:
  superchunk attrs prices.bcolz
  superchunk attrs prices.bcolz --set currency=EUR --set scale=0.01 --remove draft`)
    .action((path: string, flags: AttrsFlags) => run(path, flags, context));
}

async function run(path: string, flags: AttrsFlags, context: Context): Promise<void> {
  const { set = [], remove = [], breakLock, json } = flags;
  const { signal, allow } = context;
  const readAttributes = async () =>
    closing(await open(path, { signal, allow, measureText: false }), async ({ attrs }) => attrs);
  const before = await readAttributes();
  if (set.length + remove.length === 0) return context.json(before);
  const missing = remove.find((name) => !Object.hasOwn(before, name));
  if (missing !== undefined)
    throw new SuperchunkError(
      "NOT_FOUND",
      `no attribute "${missing}", so nothing was changed; "superchunk attrs" without options shows those that exist`,
      { path, field: missing },
    );
  await closing(await edit(path, { breakLock, allow }), (edited) =>
    edited.setAttributes({
      ...Object.fromEntries(remove.map((name) => [name, undefined])),
      ...Object.fromEntries(set),
    }),
  );
  if (json === true)
    await context.json({
      path,
      set: Object.fromEntries(set),
      removed: remove,
      attrs: await readAttributes(),
    });
}
