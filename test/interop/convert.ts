/**
 * Every archive of the corpus is converted by the command and read back by every reader of Zarr v3.
 *
 * The values must be those of the manifest, in each reader that has the data type; the others must refuse.
 */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { corpusFolder, type ExactJson, type Fixture, loadArchives } from "../fixtures/manifest.ts";
import type { Answer } from "./answers.ts";
import type { Checks } from "./checks.ts";
import { runCommand } from "./command.ts";
import { checkJoined } from "./convert-joined.ts";
import { type ExpectedValues, expectColumns, expectValues } from "./expectations.ts";
import { lastLines } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { findRefusal, type ZarrReader, zarrReaders } from "./support.ts";

/** An archive that was converted. */
interface Converted {
  readonly label: string;
  /** Absolute path of the Zarr array or group that it became. */
  readonly root: string;
  readonly row: Fixture;
  /** Whether it has the types that all readers take, or the exact ones. */
  readonly portable: boolean;
}

export const convert: Suite = {
  name: "convert",
  peers: zarrReaders,
  async run(context) {
    const converted = [
      ...(await convertEach(context)),
      ...(await convertTogether(context, "portable", ["--portable"])),
      // Several shards for an array, the last of them with chunks missing.
      ...(await convertTogether(context, "small shards", ["--chunks-per-shard", "2"])),
      // Short last chunks as they are.
      ...(await convertTogether(context, "unequal chunks", ["--grid", "rectilinear"])),
    ];
    for (const reader of zarrReaders) await readValues(context, reader, converted);
    await readGroups(context, converted);
    await checkJoined(context);
  },
};

/** One command per archive. */
async function convertEach({ checks, folder }: SuiteContext): Promise<Converted[]> {
  const waiting = [...loadArchives().entries()];
  const converted: Converted[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, row] = next;
      const root = join(folder, "each", String(index));
      const result = await runCommand("convert", row.file, root);
      if (row.refuse) {
        checks.equal(`convert refuses ${row.path}`, result.code, row.expect === "incomplete" ? 3 : 1);
        checks.equal(
          `${row.path} leaves nothing that looks converted`,
          existsSync(join(root, "zarr.json")),
          false,
        );
      } else if (result.code !== 0) checks.fail(`convert ${row.path}`, lastLines(result));
      else converted.push({ label: row.path, root, row, portable: false });
    }
  };
  await Promise.all([work(), work()]);
  return converted;
}

/** All archives by one command, into one hierarchy: those that cannot be converted do not stop the others. */
async function convertTogether(
  { checks, folder, peer }: SuiteContext,
  name: string,
  args: readonly string[],
): Promise<Converted[]> {
  const rows = loadArchives();
  const dialects = [...new Set(rows.map(({ dialect }) => dialect))];
  const root = join(folder, name.replace(" ", "-"));
  const report = join(folder, `${name}.json`);
  const sources = dialects.map((dialect) => join(corpusFolder, dialect));
  const result = await runCommand("convert", ...args, "--report", report, ...sources, root);
  // One of the refused ones is damaged.
  if (result.code !== 3) checks.fail(`convert all (${name})`, lastLines(result));
  const refused = rows.filter(({ refuse }) => refuse).map(({ path }) => path);
  checks.equal(
    `convert all (${name}) reports what it refused`,
    (await readRefusals(report)).sort(),
    refused.sort(),
  );

  const kept = rows.filter(({ refuse }) => !refuse);
  const columns = kept.flatMap((row) => (expectColumns(row) ?? []).map((column) => `${row.path}/${column}`));
  const [answer] = (await peer("zarr-python")?.read([{ path: root, group: true }])) ?? [];
  if (answer !== undefined) {
    const nodes = [...dialects, ...kept.map(({ path }) => path), ...columns];
    checkMembers(checks, `zarr-python lists all archives (${name})`, answer, nodes);
  }
  const portable = args.includes("--portable");
  return kept.map((row) => ({ label: `${row.path} (${name})`, root: join(root, row.path), row, portable }));
}

/** Nodes that a report says were not converted. */
async function readRefusals(report: string): Promise<string[]> {
  const { archives } = JSON.parse(await readFile(report, "utf8")) as {
    archives: { node: string; status: string }[];
  };
  return archives.filter(({ status }) => status !== "converted").map(({ node }) => node);
}

/** Compares the values of every array in one reader. */
async function readValues(
  { checks, peer }: SuiteContext,
  name: ZarrReader,
  converted: readonly Converted[],
): Promise<void> {
  const reader = peer(name);
  if (reader === undefined) return;
  const asked = converted.flatMap((each) =>
    expectValues(each.row, each.portable).map((values) => ({ each, values })),
  );
  const answers = await reader.read(
    asked.map(({ each, values }) => ({
      path: join(each.root, ...values.node.split("/")),
      dtype: values.dtype,
      fields: values.fields,
      // If types change, fill values do too: the bridge's own tests cover them.
      ...(name === "zarr-python" && values.fill !== undefined && !each.portable ? { fill: values.fill } : {}),
    })),
  );
  for (const [index, { each, values }] of asked.entries()) {
    const answer = answers[index] ?? { kind: "error", error: "no answer" };
    const what = `${each.label}${values.node === "" ? "" : `, ${values.node}`}`;
    const isUnequal =
      (name === "tensorstore" || name === "zarrita") &&
      (await hasUnequalChunks(join(each.root, values.node)));
    const refusal = isUnequal ? "it has no unequal chunks" : findRefusal(name, values);
    if (refusal !== undefined) {
      checks.refused(`${name} refuses ${what} (${refusal})`, answer);
      continue;
    }
    checks.values(`${name} reads ${what}`, answer, values);
    if (name === "zarr-python" && !values.fields) checkAttributes(checks, what, answer, each, values);
  }
}

/** True if an array, or one of a group's, has a rectilinear grid. */
async function hasUnequalChunks(path: string): Promise<boolean> {
  if ((await readFile(join(path, "zarr.json"), "utf8")).includes('"rectilinear"')) return true;
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const below = join(path, entry.name);
    if (entry.isDirectory() && existsSync(join(below, "zarr.json")) && (await hasUnequalChunks(below)))
      return true;
  }
  return false;
}

/** The attributes that the conversion adds to zipline's daily bars: exactly these, and to no other archive. */
const MEANING = Object.entries({
  standard_name: "time",
  units: "seconds since 1970-01-01",
  calendar: "proleptic_gregorian",
  long_name: "sid",
  coordinates: "day id",
});

function withoutMeaning(
  found: Record<string, ExactJson>,
  attrs: Readonly<Record<string, unknown>>,
): Record<string, ExactJson> {
  const added = MEANING.filter(([name, value]) => !(name in attrs) && found[name] === value);
  return Object.fromEntries(
    Object.entries(found).filter(([name]) => !added.some(([other]) => other === name)),
  );
}

function checkAttributes(
  checks: Checks,
  what: string,
  answer: Answer,
  { portable }: Converted,
  { attrs }: ExpectedValues,
): void {
  if (answer.kind !== "values") return;
  const found = withoutMeaning(answer.attrs as Record<string, ExactJson>, attrs);
  // A portable array says in attributes what its values were.
  if (portable)
    for (const name of ["superchunk", "units", "calendar"]) if (!(name in attrs)) delete found[name];
  checks.equal(`${what}: attributes`, found, attrs);
}

/** Tables and nested arrays are groups that list their columns in order. */
async function readGroups({ checks, peer }: SuiteContext, converted: readonly Converted[]): Promise<void> {
  const groups = converted.flatMap((each) => {
    const columns = expectColumns(each.row);
    return columns === undefined ? [] : [{ each, columns }];
  });
  const answers =
    (await peer("zarr-python")?.read(groups.map(({ each }) => ({ path: each.root, group: true })))) ?? [];
  for (const [index, { each, columns }] of groups.entries()) {
    const answer = answers[index];
    if (answer === undefined) continue;
    checkMembers(checks, `zarr-python lists ${each.label}`, answer, columns);
    if (answer.kind === "error" || answer.kind === "done") continue;
    const attrs = { column_order: columns, ...each.row.attrs };
    checks.equal(`${each.label}: attributes`, withoutMeaning(answer.attrs as typeof attrs, attrs), attrs);
  }
}

function checkMembers(checks: Checks, name: string, answer: Answer, members: readonly string[]): void {
  if (answer.kind === "group") checks.equal(name, [...answer.members].sort(), [...members].sort());
  else checks.fail(name, answer.kind === "error" ? answer.error : "found values");
}
