/** `superchunk resize`: cuts rows off the end of an array or a table, or puts default values behind them. */
import type { Command } from "commander";
import type { Archive, LongOptions } from "../../src/archive/kinds/types.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { encoderOf, openArchive } from "../../src/node/index.ts";
import { resizeCarray } from "../../src/write/bcolz/carray-write.ts";
import { resizeTable } from "../../src/write/bcolz/table-write.ts";
import { noteBehind, withRoot } from "../actions/writable-root.ts";
import { carrayLock, tableLock, withLock, withStore } from "../actions/writing.ts";
import type { Context } from "../context.ts";
import { integerOf } from "../input/blosc-options.ts";
import { formatPlural } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

interface ResizeFlags {
  readonly dryRun?: boolean;
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Adds `resize PATH ROWS`. */
export function addResize(program: Command, context: Context): void {
  program
    .command("resize")
    .description("make an array or a table so many rows long: cut rows off, or append default values")
    .argument("<path>", "folder of an array or a table")
    .argument("<rows>", "rows that it shall have", integerOf(0, Number.MAX_SAFE_INTEGER))
    .option("--dry-run", "say how many rows would go or come, and change nothing")
    .option("--break-lock", "take the lock from whoever holds it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  superchunk resize prices.bcolz 1000000
  superchunk resize prices.bcolz 0`,
    )
    .action((path: string, rows: number, flags: ResizeFlags) => resize(path, rows, flags, context));
}

async function resize(
  path: string,
  rows: number,
  { dryRun = false, breakLock, json }: ResizeFlags,
  context: Context,
): Promise<void> {
  const archive = await openArchive(path, { signal: context.signal });
  const rowsBefore =
    archive.kind === "table" ? archive.length : archive.kind === "array" ? (archive.shape[0] ?? 0) : 0;
  if (dryRun) {
    await archive.close();
    checkResizable(archive, path);
    if (json === true) return await context.json({ path, dryRun, rowsBefore, rows });
    const change = rows < rowsBefore ? "cut off" : "appended with default values";
    const moved = formatPlural(Math.abs(rows - rowsBefore), "row");
    return context.message(`${path}: ${moved} would be ${change}, ${formatPlural(rows, "row")} then`);
  }
  const bar = startProgress(context.io, "resize", { name: path });
  try {
    await change(archive, path, rows, { breakLock, onProgress: bar.onProgress }, context);
  } finally {
    bar.finish();
    await archive.close();
  }
  if (json === true) await context.json({ path, dryRun, rowsBefore, rows });
  else
    context.message(`${path}: ${formatPlural(rows, "row")} now, ${formatPlural(rowsBefore, "row")} before`);
}

async function change(
  archive: Archive,
  path: string,
  rows: number,
  { breakLock, onProgress }: Pick<LongOptions, "onProgress"> & { readonly breakLock: boolean | undefined },
  context: Context,
): Promise<void> {
  checkResizable(archive, path);
  const { signal } = context;
  const options = { encoder: encoderOf(), signal, onProgress };
  if (archive.kind === "table") {
    await withLock(tableLock(path), breakLock, () =>
      withStore(path, async (store, key) => void (await resizeTable(store, key, rows, options))),
    );
    noteBehind(path, context);
    return;
  }
  if (archive.dialect === "carray") {
    await withLock(carrayLock(path), breakLock, () =>
      withStore(path, async (store, key) => void (await resizeCarray(store, key, rows, options))),
    );
    noteBehind(path, context);
    return;
  }
  return withRoot(path, { breakLock }, context, (array) => array.resize(rows, { signal, onProgress }));
}

function checkResizable({ kind, dialect }: Archive, path: string): void {
  if (kind === "table" || dialect === "carray" || (dialect === "blz-superchunk" && kind === "array")) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "a Bloscpack file is only appended to; decompress it, and compress what is to stay",
    { path, field: "dialect", expected: "an array or a table", found: dialect },
  );
}
