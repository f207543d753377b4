/**
 * Virtual references as their readers find them: the lines that the command prints are run in Python, and give the
 * producers' values; VirtualiZarr reads the kerchunk sets; Icechunk refuses a source that has changed.
 */
import { cp, truncate, unlink, utimes } from "node:fs/promises";
import { basename, join } from "node:path";
import { type Fixture, loadFixtures, repositoryRoot } from "../fixtures/manifest.ts";
import { prepareEnvironment } from "./environments.ts";
import { findNodeForIcechunk, type NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { kindOf } from "./support.ts";

const FORMS = [
  { name: "kerchunk", args: ["--to", "kerchunk"], file: "set.json" },
  { name: "kerchunk of Zarr v2", args: ["--to", "kerchunk", "--zarr-format", "2"], file: "set2.json" },
  { name: "kerchunk Parquet", args: ["--to", "kerchunk-parquet"], file: "set.parq" },
  { name: "Icechunk", args: ["--to", "icechunk"], file: "set.icechunk" },
] as const;

interface Wanted {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string | null;
}

/** A set of references that was written, and what must be found in it. */
interface Case {
  readonly label: string;
  readonly lines?: string;
  readonly virtualizarr?: string;
  readonly wanted: Readonly<Record<string, Wanted>>;
  readonly isRefused?: boolean;
}

export const references: Suite = {
  name: "references",
  peers: [],
  async run(context) {
    const { checks } = context;
    const python = await prepareEnvironment({ name: "references", pythons: ["3.12", "3.13"] });
    const node = await findNodeForIcechunk();
    for (const found of [python, node]) {
      if (!("absent" in found)) continue;
      console.log(`absent: references: ${found.absent}`);
      if (process.env["CI"] === "true") checks.fail("references", "a reader is absent, and CI=true");
    }
    if ("absent" in python) return;
    const cases: Case[] = [];
    const rows = loadFixtures("bloscpack-3", "carray", "ctable", "blz-superchunk");
    for (const row of rows) {
      const wanted = wantedOf(row);
      if (wanted === undefined) continue;
      for (const form of FORMS) cases.push(...(await write(context, node, row, wanted, form)));
    }
    if (!("absent" in node)) cases.push(...(await writeChanged(context, node)));
    const asked = cases.map(({ lines, virtualizarr, wanted }, id) => ({
      id,
      lines,
      virtualizarr,
      names: Object.keys(wanted),
    }));
    const script = join(repositoryRoot, "test", "interop", "readers", "references.py");
    const result = await runProgram(python.executable, [script], {
      input: JSON.stringify(asked),
      env: { ...python.env, PYTHONDONTWRITEBYTECODE: "1" },
      timeoutSeconds: 600,
    });
    const answers = new Map<number, { values?: Record<string, unknown>; error?: string }>();
    for (const line of result.stdout.split("\n")) {
      if (!line.startsWith("{")) continue;
      const answer = JSON.parse(line) as { id: number; values?: Record<string, unknown>; error?: string };
      answers.set(answer.id, answer);
    }
    for (const [id, each] of cases.entries()) {
      const answer = answers.get(id) ?? { error: `no answer, ${lastLines(result)}` };
      if (each.isRefused === true) {
        checks.equal(
          `${each.label} is refused`,
          /changed|not found|NotFound/i.test(answer.error ?? ""),
          true,
        );
        continue;
      }
      const wanted = Object.entries(each.wanted).map(([name, { shape, sha256 }]) => [name, [shape, sha256]]);
      if (answer.values === undefined) checks.fail(each.label, answer.error ?? "no values");
      else checks.equal(each.label, answer.values, Object.fromEntries(wanted));
    }
  },
};

/** The arrays of a fixture that every reader has a type for, by name; undefined where there are none. */
function wantedOf(row: Fixture): Readonly<Record<string, Wanted>> | undefined {
  if (row.refuse || row.optional || row.kind === "bytes") return undefined;
  const isPlain = (dtype: unknown, shape: readonly number[]): boolean =>
    typeof dtype === "string" && kindOf(dtype) === "number" && !dtype.startsWith(">") && !shape.includes(0);
  if (row.kind === "array") {
    const { dtype, shape, sha256, path } = row;
    // Snappy, and cuts that are not on rows, are for convert.
    if (typeof dtype !== "string" || !isPlain(dtype, shape) || /snappy|3d-fortran/.test(path))
      return undefined;
    if (shape.length === 0) return undefined;
    return { [basename(path).replace(/\.[^.]+$/, "")]: { dtype, shape, sha256 } };
  }
  const columns = Object.entries(row.columns).flatMap(([name, { dtype, shape, sha256 }]) =>
    typeof dtype === "string" && isPlain(dtype, shape) ? [[name, { dtype, shape, sha256 }] as const] : [],
  );
  return columns.length === row.names.length ? Object.fromEntries(columns) : undefined;
}

async function write(
  { checks, folder }: SuiteContext,
  node: NodeCommand | { readonly absent: string },
  row: Fixture,
  wanted: Readonly<Record<string, Wanted>>,
  { name, args, file }: (typeof FORMS)[number],
): Promise<Case[]> {
  if (name === "Icechunk" && "absent" in node) return [];
  const own: NodeCommand = "absent" in node ? { program: process.execPath, args: [] } : node;
  const target = join(folder, `${row.path.replaceAll("/", "-")}-${file}`);
  const label = `${name} of ${row.path}`;
  const result = await virtualize(own, row.file, target, args);
  if (result.error !== undefined) {
    checks.fail(label, result.error);
    return [];
  }
  const cases: Case[] = [{ label: `xarray reads ${label}`, lines: result.lines, wanted }];
  if (name !== "Icechunk") cases.push({ label: `VirtualiZarr reads ${label}`, virtualizarr: target, wanted });
  return cases;
}

/** Icechunk repositories whose source was touched, cut or deleted after they were written. */
async function writeChanged({ checks, folder }: SuiteContext, node: NodeCommand): Promise<Case[]> {
  const [row] = loadFixtures("bloscpack-3").filter(({ path }) => path.endsWith("array-i4-2d.blp"));
  if (row === undefined) return [];
  const changes: Readonly<Record<string, (file: string) => Promise<void>>> = {
    touched: (file) => utimes(file, new Date(Date.now() + 60_000), new Date(Date.now() + 60_000)),
    cut: async (file) => {
      await truncate(file, 64);
      await utimes(file, new Date(Date.now() + 60_000), new Date(Date.now() + 60_000));
    },
    deleted: unlink,
  };
  const cases: Case[] = [];
  for (const [what, change] of Object.entries(changes)) {
    const file = join(folder, `${what}.blp`);
    await cp(row.file, file);
    const result = await virtualize(node, file, join(folder, `${what}.icechunk`), ["--to", "icechunk"]);
    if (result.error !== undefined) checks.fail(`a source that is ${what}`, result.error);
    await change(file);
    cases.push({
      label: `Icechunk of a source that was ${what}`,
      lines: result.lines,
      wanted: { [what]: { dtype: "<i4", shape: [], sha256: "" } },
      isRefused: true,
    });
  }
  return cases;
}

async function virtualize(
  { program, args }: NodeCommand,
  source: string,
  target: string,
  options: readonly string[],
): Promise<{ readonly lines: string; readonly error?: string }> {
  const command = join(repositoryRoot, "dist", "cli", "main.js");
  const result = await runProgram(program, [
    ...args,
    command,
    "virtualize",
    source,
    target,
    ...options,
    "--json",
  ]);
  if (result.code !== 0) return { lines: "", error: lastLines(result) };
  // Icechunk's own messages stand in front of the document.
  const text = result.stdout.slice(result.stdout.indexOf("\n{") + 1);
  const document = JSON.parse(text.startsWith("{") ? text : result.stdout) as { open: { Python: string } };
  return { lines: document.open.Python };
}
