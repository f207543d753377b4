/**
 * Archives that are linked: the programs that wrote their formats read them as before, every reader of Zarr reads
 * the same values, and `unlink` leaves no trace.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { type Fixture, loadArchives } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";
import { runCommand } from "./command.ts";
import { type ExpectedValues, expectValues } from "./expectations.ts";
import { appendToLinked } from "./link-append.ts";
import { lastLines } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { findRefusal, zarrReaders } from "./support.ts";

/** What cannot be linked, with the reasons that the tests of `link` give. */
const REFUSED: ReadonlySet<string> = new Set([
  "bloscpack-3/array-f4-3d-fortran.blp",
  "blz-superchunk/f8-streamed",
  "carray/bcolz-i4-snappy",
]);

interface Linked {
  readonly row: Fixture;
  /** The archive, a copy of the corpus'. */
  readonly copy: string;
  readonly root: string;
  readonly before: string;
}

export const link: Suite = {
  name: "link",
  peers: [...zarrReaders, "bloscpack", "bloscpack, writing", "bcolz-zipline"],
  async run(context) {
    await appendToLinked(context);
    const linked: Linked[] = [];
    for (const [index, row] of loadArchives().entries()) {
      if (row.refuse || REFUSED.has(row.path)) continue;
      const made = await linkOne(context, join(context.folder, String(index)), row);
      if (made !== undefined) linked.push(made);
    }
    await readAsZarr(context, linked);
    await readAsBefore(context, linked);
    for (const { row, copy, root, before } of linked) {
      const result = await runCommand("unlink", root);
      context.checks.equal(`unlink ${row.path}`, result.code === 0 ? "" : lastLines(result), "");
      context.checks.equal(`${row.path} is as before, every byte and mode`, fingerprint(copy), before);
      if (root !== copy) context.checks.equal(`${row.path}: its folder is gone`, existsSync(root), false);
    }
  },
};

async function linkOne({ checks }: SuiteContext, folder: string, row: Fixture): Promise<Linked | undefined> {
  const copy = join(folder, basename(row.path));
  cpSync(row.file, copy, { recursive: true });
  const isFile = lstatSync(copy).isFile();
  const root = isFile ? `${copy}.zarr` : copy;
  const before = fingerprint(copy);
  const result = await runCommand("link", copy, ...(isFile ? [root] : []));
  if (result.code === 0) return { row, copy, root, before };
  checks.fail(`link ${row.path}`, lastLines(result));
  return undefined;
}

/** Names, modes and bytes of everything at a path. */
function fingerprint(path: string): string {
  const hash = createHash("sha256");
  const visit = (at: string): void => {
    const info = lstatSync(at);
    hash.update(`${relative(path, at)}\0${info.mode}\0`);
    if (info.isDirectory()) for (const name of readdirSync(at).sort()) visit(join(at, name));
    else hash.update(readFileSync(at));
  };
  visit(path);
  return hash.digest("hex");
}

async function readAsZarr({ checks, peer }: SuiteContext, linked: readonly Linked[]): Promise<void> {
  for (const name of zarrReaders) {
    const reader = peer(name);
    if (reader === undefined) continue;
    const asked = linked.flatMap((each) =>
      expectValues(each.row, false).map((values): [Linked, ExpectedValues] => [each, values]),
    );
    const answers = await reader.read(
      asked.map(([{ root }, { node, dtype, fields }]) => ({
        path: join(root, ...node.split("/")),
        dtype,
        fields,
      })),
    );
    for (const [index, [{ row }, values]] of asked.entries()) {
      const answer = answers[index] ?? { kind: "error", error: "no answer" };
      const what = `${row.path} linked${values.node === "" ? "" : `, ${values.node}`}`;
      const refusal = findRefusal(name, values);
      if (refusal !== undefined) checks.refused(`${name} refuses ${what} (${refusal})`, answer);
      else checks.values(`${name} reads ${what}`, answer, values);
    }
  }
}

/** By the programs that wrote the formats; superchunks, which no program writes, file by file as Bloscpack files. */
async function readAsBefore(context: SuiteContext, linked: readonly Linked[]): Promise<void> {
  const files = linked.filter(({ row }) => row.dialect === "bloscpack-3");
  await compareReads(
    context,
    "bloscpack",
    files.map(({ row, copy }) => ({ label: row.path, original: { path: row.file }, copy: { path: copy } })),
  );
  const superchunks = linked
    .filter(({ row }) => row.dialect === "blz-superchunk")
    .flatMap(({ row, copy }) =>
      filesBelow(join(copy, "data")).map((file): Reading => {
        const name = relative(copy, file);
        return {
          label: `${row.path}/${name}`,
          original: { path: join(row.file, name) },
          copy: { path: file },
        };
      }),
    );
  await compareReads(context, "bloscpack", superchunks);
  const folders = linked.filter(({ row }) => row.dialect === "carray" || row.dialect === "ctable");
  await compareReads(
    context,
    "bcolz-zipline",
    folders.flatMap(({ row, copy }) =>
      expectValues(row, false).map(({ node, dtype }): Reading => {
        const column = node === "" ? {} : { column: node };
        return {
          label: `${row.path}${node === "" ? "" : `, ${node}`}`,
          original: { path: row.file, dtype, ...column },
          copy: { path: copy, dtype, ...column },
        };
      }),
    ),
  );
}

function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

/** One archive to be read twice. */
interface Reading {
  readonly label: string;
  readonly original: Job;
  readonly copy: Job;
}

/** A linked archive reads like the unlinked one, also if its own program refuses both. */
async function compareReads(
  { checks, peer }: SuiteContext,
  name: "bloscpack" | "bcolz-zipline",
  cases: readonly Reading[],
): Promise<void> {
  const reader = peer(name);
  if (reader === undefined) return;
  const [originals, copies] = [
    await reader.read(cases.map(({ original }) => original)),
    await reader.read(cases.map(({ copy }) => copy)),
  ];
  let read = 0;
  for (const [index, { label }] of cases.entries()) {
    const [original, copy] = [originals[index], copies[index]];
    if (original?.kind === "error") {
      checks.equal(`${name} refuses ${label} linked as not linked`, copy?.kind, "error");
      continue;
    }
    read++;
    checks.equal(`${name} reads ${label} linked`, copy, original);
  }
  if (cases.length > 0 && read === 0) checks.fail(`${name} reads what is linked`, "it read nothing");
}
