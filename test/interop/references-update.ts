/**
 * An archive that grows, followed by `virtualize --update`: commits cost only what is new, and are read by Icechunk
 * in Python and through `openReferences`.
 */
import { createHash } from "node:crypto";
import { readdir, utimes } from "node:fs/promises";
import { join } from "node:path";
import { create as createArray, edit as openWritable } from "../../src/node/edit.ts";
import { runCommands } from "./commands.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { askPython, checkLines, type OpeningLines } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const CHUNK = 10;
const PER_FILE = 4;

/** What a run printed. */
interface Update {
  readonly virtual: number;
  readonly padded: number;
  readonly kept: number;
  readonly snapshot: string;
  readonly notes: readonly string[];
  readonly open: OpeningLines;
}

/** Follows an array of superchunks through two appends and a day without any. */
export async function checkUpdates(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const { checks, folder } = context;
  const source = join(folder, "growing");
  const target = join(folder, "growing.icechunk");
  const settings = { dtype: "<i8", shape: [0], chunkLength: CHUNK, superchunkLength: PER_FILE };
  const array = await createArray(source, settings);
  await array.close();
  let rows = 0;
  const grow = async (count: number): Promise<void> => {
    const open = await openWritable(source);
    await open.append(BigInt64Array.from({ length: count }, (_, i) => BigInt(rows + i)) as never);
    await open.close();
    rows += count;
  };
  // Days, and what must be referenced again: chunks of the last file as it was, and those after it.
  const days = [
    { grown: 95, virtual: 9, padded: 1, kept: 0 },
    { grown: 100, virtual: 19 - 8, padded: 1, kept: 8 },
    { grown: 5, virtual: 20 - 16, padded: 0, kept: 16 },
    { grown: 0, virtual: 20 - 16, padded: 0, kept: 16 },
  ];
  for (const [day, { grown, ...wanted }] of days.entries()) {
    if (grown > 0) await grow(grown);
    const printed = await virtualize(node, folder, [source, target, ...(day === 0 ? [] : ["--update"])]);
    const label = `day ${day + 1} of an archive that grows`;
    if (typeof printed === "string") {
      checks.fail(label, printed);
      return;
    }
    const { virtual, padded, kept } = printed;
    checks.equal(`${label}: references written`, { virtual, padded, kept }, wanted);
    const values = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i));
    const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
    const wantedValues = { growing: [[rows], sha256] };
    await checkLines(context, node, python, { label, lines: printed.open, wanted: wantedValues });
  }
  // The same bytes in files of a later time, which no append explains.
  const later = new Date(Date.now() + 60_000);
  for (const name of await readdir(join(source, "data")))
    await utimes(join(source, "data", name), later, later);
  const met = await virtualize(node, folder, [source, target, "--update"]);
  const isGiven = typeof met === "string" && met.includes("has changed") && met.includes("--overwrite");
  checks.equal("an archive that changed in the middle: the update says so", isGiven || met, true);
  const update = await virtualize(node, folder, [source, target, "--update", "--overwrite"]);
  const label = "an archive that changed in the middle, referenced again";
  if (typeof update === "string") return checks.fail(label, update);
  checks.equal(`${label}: references written`, [update.virtual, update.padded, update.kept], [20, 0, 0]);
  const values = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i));
  const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
  const [inPython] = await askPython(python, [{ id: 0, names: ["growing"], lines: update.open.Python }]);
  checks.equal(`${label}: Python`, inPython?.values ?? inPython?.error, { growing: [[rows], sha256] });
  // A backup restored with its times: Icechunk refuses only later times, as the guide says.
  const earlier = new Date(Date.now() - 3_600_000);
  for (const name of await readdir(join(source, "data")))
    await utimes(join(source, "data", name), earlier, earlier);
  const [older] = await askPython(python, [{ id: 0, names: ["growing"], lines: update.open.Python }]);
  const [limit, answer] = ["files of an earlier time: Python reads them", older?.values ?? older?.error];
  checks.equal(limit, answer, { growing: [[rows], sha256] });
}

/** A table without one of its columns: an update says so, and one with --overwrite removes the column, so that xarray opens the rest. */
export async function checkColumns(
  { checks, folder }: SuiteContext,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const [source, target] = [join(folder, "columns"), join(folder, "columns.icechunk")];
  const dtype = [
    ["x", "<i8"],
    ["y", "<i8"],
  ] as const;
  await using table = await createArray(source, { format: "bcolz", dtype, chunkLength: 2 });
  await table.append([
    [1n, 10n],
    [2n, 20n],
    [3n, 30n],
  ]);
  await table.flush();
  await virtualize(node, folder, [source, target]);
  await table.deleteColumn("y");
  await table.append([[4n]]);
  await table.flush();
  const noted = await virtualize(node, folder, [source, target, "--update"]);
  const label = "a column that is gone";
  if (typeof noted === "string") return checks.fail(label, noted);
  checks.equal(`${label}: the update says so`, noted.notes.length, 1);
  const removed = await virtualize(node, folder, [source, target, "--update", "--overwrite"]);
  if (typeof removed === "string") return checks.fail(label, removed);
  const values = new Uint8Array(BigInt64Array.of(1n, 2n, 3n, 4n).buffer);
  const [read] = await askPython(python, [{ id: 0, names: ["x"], lines: removed.open.Python }]);
  const wanted = { x: [[4], createHash("sha256").update(values).digest("hex")] };
  checks.equal(`${label}: Python reads the others`, read?.values ?? read?.error, wanted);
}

async function virtualize(
  node: NodeCommand,
  folder: string,
  argv: readonly string[],
): Promise<Update | string> {
  const [printed] = await runCommands(node, folder, [["virtualize", ...argv, "--json"]]);
  if (printed?.code !== 0) return printed?.err ?? "nothing was printed";
  return JSON.parse(printed.out) as Update;
}
