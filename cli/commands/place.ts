/** `superchunk place`: shows the places of an array's superchunks; adds and removes places, and moves superchunks. */
import { InvalidArgumentError } from "commander";
import type { Editable, PlaceInfo, PlaceRule } from "../../src/index.ts";
import { movedText, moveTo, withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { addressIn, collectPlace, type GivenPlace, placeByOption } from "../input/array-options.ts";
import { collectText, formatPlural, formatSize } from "../input/units.ts";
import { alignRows } from "../output/layout.ts";

interface PlaceFlags extends Switches<"own" | "breakLock" | "json"> {
  readonly add?: readonly GivenPlace[];
  readonly remove?: readonly string[];
  readonly placeBy?: PlaceRule;
  readonly move?: readonly [first: number, last: number] | "all";
  readonly to?: string;
  readonly allow?: readonly string[];
}

export function addPlace(program: Command, context: Context): void {
  program
    .command("place")
    .description(
      "show which places hold the superchunks of an array; add and remove places, and move superchunks",
    )
    .argument("<root>", "folder of an array of superchunks, or s3://BUCKET/PREFIX")
    .option(
      "--add <[name=]address>",
      "add a folder on another disk, s3://BUCKET/PREFIX, or (read-only) an http(s):// address; may be repeated",
      collectPlace,
    )
    .option("--remove <name>", "remove a place that holds no superchunk; may be repeated", collectText)
    .addOption(placeByOption())
    .option(
      "--move <first..last>",
      'move superchunks, numbered from 0: such as 3..7, 3.. or 3, or "all"',
      parseRange,
    )
    .option("--to <name>", 'with --move: the place; "data" is the folder of the array itself')
    .option("--own", "make the places this array's, after its folder was moved from another disk or machine")
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
The array names its places. You have to allow them with --allow, here and in all
commands that read or change the array; a place that you add is allowed. To move
a superchunk, the command copies it, reads it back and compares it, commits the
copy, and then removes the old one. Readers are not disturbed. A copy of ROOT
names the same superchunks, and cannot write them: use --own only if the other
folder is gone.

Examples:
  superchunk place ticks
  superchunk place prices --add cold=/data/prices
  superchunk place prices --add s3://bucket/prices --place-by tier
  superchunk place ticks --allow /data/ticks --move 0..4 --to cold
  superchunk place ticks --allow /data/ticks --move all --to data
  superchunk place ticks --allow /data/ticks --remove cold`)
    .action((root: string, flags: PlaceFlags) => place(root, flags, context));
}

async function place(root: string, flags: PlaceFlags, context: Context): Promise<void> {
  const { add = [], remove = [], placeBy, move, to, own, breakLock } = flags;
  if ((move === undefined) !== (to === undefined)) throw wrongUse("to", "--move and --to go together");
  const isChange = add.length + remove.length > 0 || placeBy !== undefined;
  if (!isChange && move === undefined && own !== true) {
    const found = await withRoot(root, { readOnly: true }, context, (array) => array.places());
    return printPlaces(root, found, flags, context);
  }
  const allow = [...(flags.allow ?? []), ...add.map(addressIn)];
  const { places, moved } = await withRoot(
    root,
    { allow, breakLock, ownPlaces: own },
    context,
    async (array: Editable) => {
      if (isChange) await array.changePlaces({ add, remove, rule: placeBy });
      const superchunks = move === "all" ? undefined : move;
      const gone = move && (await moveTo(array, to, { superchunks }, context));
      return { places: await array.places(), moved: gone };
    },
  );
  if (flags.json === true) return context.json({ path: root, moved, places });
  if (own === true) context.message(`${root}: owns ${formatPlural(places.length - 1, "place")} now`);
  if (moved !== undefined) context.message(`${root}: ${movedText(moved)} to ${to}`);
  if (isChange) context.message(`${root}: places ${places.map(({ name }) => name).join(", ")}`);
}

async function printPlaces(
  root: string,
  places: readonly PlaceInfo[],
  { json }: PlaceFlags,
  context: Context,
): Promise<void> {
  if (json === true) return context.json({ path: root, places });
  const rows = places.map(({ name, prefix, superchunks, spans, patches, bytes, isAbsent }) => [
    name,
    formatPlural(superchunks, "superchunk") + (patches === 0 ? "" : ` and ${formatPlural(patches, "patch")}`),
    isAbsent ? "not there" : bytes === undefined ? "not allowed" : formatSize(bytes),
    spansText(spans),
    prefix ?? root,
  ]);
  await context.out.lines(alignRows(rows, new Set(), context.out.columns));
}

/** The first few ranges of superchunks. */
function spansText(spans: PlaceInfo["spans"]): string {
  const shown = spans.slice(0, 4).map(([first, last]) => (first === last ? `${first}` : `${first}..${last}`));
  return shown.join(", ") + (spans.length > shown.length ? ", …" : "");
}

/** `3..7`, `3..`, `3` or `all`. Throws commander's `InvalidArgumentError`. */
function parseRange(text: string): readonly [number, number] | "all" {
  if (text === "all") return text;
  const [, first = "", last = first] = /^(\d{1,15})(?:\.\.(\d{0,15}))?$/.exec(text) ?? [];
  const end = last === "" ? Number.POSITIVE_INFINITY : Number(last);
  if (first === "" || end < Number(first))
    throw new InvalidArgumentError('Expected superchunks such as 3..7, 3.. or 3, counted from 0, or "all".');
  return [Number(first), end];
}
