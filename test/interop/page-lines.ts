/**
 * The lines that the page shows to open an archive elsewhere, run as they are, for archives of every kind: zarr-python reads what the page's
 * server serves, JavaScript and the command read the archive where it is, and DuckDB reads what the command made of it.
 */
import { cp, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { formatDType } from "../../src/format/dtype.ts";
import type { DType } from "../../src/format/types.ts";
import { create, openArray, serveView, slice } from "../../src/node/index.ts";
import { PageEngine } from "../../src/page/engine/engine.ts";
import type { ColumnFacts, NodeFacts, Source } from "../../src/page/engine/protocol.ts";
import { snippets } from "../../src/page/views/overview.ts";
import { corpusFolder, loadArchives, repositoryRoot } from "../fixtures/manifest.ts";
import { type Environment, prepareEnvironment } from "./environments.ts";
import { lastLines, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";

/** Others than those of the corpus. */
const OTHERS = ["blosc2/lz4.b2nd", "hdf5/h5py-latest.h5"];
/** Rows that the lines ask for. */
const ROWS = 10;

/** What one archive, or a column of it, is read with. */
interface Lines {
  readonly node: NodeFacts;
  readonly column: ColumnFacts | undefined;
  readonly work: string;
  /** Where superchunks of one array lie. */
  readonly places: string;
  readonly zarr: Environment;
  readonly parquet: Environment;
}

export const pageLines: Suite = {
  name: "page",
  peers: [],
  async run(context) {
    const zarr = await prepareEnvironment({ name: "served", pythons: ["3.12", "3.13"] });
    const parquet = await prepareEnvironment({ name: "parquet", pythons: ["3.12", "3.13"] });
    for (const found of [zarr, parquet]) {
      if (!("absent" in found)) continue;
      console.log(`absent: page: ${found.absent}`);
      if (process.env["CI"] === "true")
        context.checks.fail("page", "what runs its lines is absent, and CI=true");
    }
    if ("absent" in zarr || "absent" in parquet) return;
    const work = join(context.folder, "page");
    const places = join(context.folder, "places");
    await makeFolder(work, places);
    const served = await serveView(work, { allow: [places] });
    const source: Source = { kind: "server", base: `${served.url}__superchunk__/` };
    const engine = new PageEngine();
    try {
      for (const { name } of await engine.list(source)) {
        // Sixty arrays of one kind.
        if (name.includes("/many/")) continue;
        const node = await engine.open(name).catch(() => undefined);
        // Some of what HDF5 files hold is listed, but cannot be opened.
        if (node === undefined) continue;
        // Of what has columns, the lines for the whole and for the first of them; as the page has it, a plain array is its only column.
        const [first] = node.columns;
        for (const column of first === undefined || first.name === "" ? [first] : [undefined, first])
          await runLines(context, source, { node, column, work, places, zarr, parquet });
      }
    } finally {
      await served.close();
    }
  },
};

async function makeFolder(work: string, places: string): Promise<void> {
  for (const { path, refuse, optional } of loadArchives()) {
    if (refuse || optional) continue;
    await mkdir(join(work, path, ".."), { recursive: true });
    await cp(join(corpusFolder, path), join(work, path), { recursive: true });
  }
  for (const path of OTHERS)
    await cp(join(repositoryRoot, "fixtures", path), join(work, path), { recursive: true });
  const array = await create(join(work, "placed"), {
    dtype: "<f8",
    shape: [100],
    data: Float64Array.from({ length: 100 }, (_, i) => i),
    chunkLength: 5,
    superchunkLength: 1,
    places: [places],
    placeBy: "round",
  });
  await array.close();
}

async function runLines(context: SuiteContext, source: Source, lines: Lines): Promise<void> {
  const { node, column, work } = lines;
  const { checks } = context;
  for (const [label, text] of snippets({ source, node, column })) {
    const name = `${label} for ${node.name} ${column?.name ?? ""} (${node.dialect})`;
    try {
      if (text.startsWith("import zarr"))
        checks.equal(name, await runZarr(text, lines), await expected(lines));
      else if (label === "DuckDB")
        checks.equal(name, await runDuckDb(text, lines), await expectedOfTable(lines));
      else {
        const entry = pathToFileURL(join(repositoryRoot, "build", "src", "node", "index.js")).href;
        const script = text.replace("superchunk/node", entry);
        const done = await runProgram(process.execPath, ["--input-type=module", "--eval", script], {
          cwd: work,
        });
        checks.equal(`${name}: ${lastLines(done)}`, done.code, 0);
      }
    } catch (error) {
      checks.fail(name, error instanceof Error ? error.message : String(error));
    }
  }
}

async function python({ executable, env }: Environment, program: string, work: string): Promise<unknown> {
  const done = await runProgram(executable, ["-W", "ignore", "-"], { input: program, env, cwd: work });
  if (done.code !== 0) throw new Error(lastLines(done));
  return JSON.parse(done.stdout);
}

/** Numpy's name of a data type, or undefined where its bytes are not compared. */
function numpyName(dtype: DType): string | undefined {
  const name = dtype.kind === "object" ? undefined : formatDType(dtype);
  return typeof name === "string" && dtype.kind !== "void" ? name : undefined;
}

/** The first rows as bytes, or the names of what is in a table. */
async function expected({ node, column, work, places }: Lines): Promise<unknown> {
  const one = column ?? node.columns.find(({ name }) => name === "");
  if (node.kind === "group") return "a group";
  if (one === undefined) return [...new Set(node.columns.map(({ name }) => name.split("/")[0]))].sort();
  const array = await openArray(join(work, node.name), {
    ...(one.name === "" ? {} : { column: one.name }),
    allow: [places],
  });
  try {
    const rows = one.shape.length === 0 ? [] : [slice(0, ROWS)];
    const bytes = await array.getBytes(rows);
    return numpyName(one.dtype) === undefined
      ? Math.min(ROWS, one.shape.at(0) ?? 1)
      : Buffer.from(bytes).toString("hex");
  } finally {
    await array.close();
  }
}

/** Runs the lines, and gives what the last one is. */
function runZarr(text: string, { node, column, work, zarr }: Lines): Promise<unknown> {
  const dtype = (column ?? node.columns[0])?.dtype;
  const name = dtype && numpyName(dtype);
  const shown =
    name === undefined
      ? "value.shape[0]"
      : `numpy.ascontiguousarray(value).astype(${JSON.stringify(name)}).tobytes().hex()`;
  const lines = text.split("\n");
  const last = lines.at(-1) ?? "";
  const program = last.startsWith("array[")
    ? [...lines.slice(0, -1), `value = ${last}`, `print(json.dumps(${shown}))`]
    : [...lines, node.kind === "group" ? 'print(json.dumps("a group"))' : "print(json.dumps(sorted(group)))"];
  return python(zarr, ["import json, numpy", ...program].join("\n"), work);
}

/** The number of the first rows, and for columns of numbers their bytes. */
async function expectedOfTable({ node, column, work, places }: Lines): Promise<unknown> {
  const columns = column === undefined ? node.columns : [column];
  const rows = columns[0]?.shape.at(0) ?? 1;
  const found: Record<string, string> = {};
  for (const each of columns.filter(isCompared)) {
    const array = await openArray(join(work, node.name), {
      ...(each.name === "" ? {} : { column: each.name }),
      allow: [places],
    });
    found[each.name] = Buffer.from(await array.getBytes([slice(0, ROWS)])).toString("hex");
    await array.close();
  }
  return [Math.min(ROWS, rows), ...Object.values(found)];
}

/** Days of bars become dates in Parquet. */
function isCompared({ name, dtype, shape }: ColumnFacts): boolean {
  if (name === "day") return false;
  return (dtype.kind === "int" || dtype.kind === "uint" || dtype.kind === "float") && shape.length === 1;
}

/** Runs the command's line, and DuckDB's statement in its Python module. */
async function runDuckDb(text: string, { node, column, work, parquet }: Lines): Promise<unknown> {
  const [command = "", query = ""] = text.split("\n");
  const cli = join(repositoryRoot, "build", "cli", "main.js");
  const shell = command.replace(/^superchunk/, `'${process.execPath}' '${cli}'`);
  const made = await runProgram("sh", ["-c", shell], { cwd: work });
  if (made.code !== 0) throw new Error(lastLines(made));
  const statement = /^duckdb -c "(.*)"$/.exec(query)?.[1];
  const columns = column === undefined ? node.columns : [column];
  const dtypes = columns.map((each) => (isCompared(each) ? numpyName(each.dtype) : undefined) ?? null);
  const program = [
    "import duckdb, json, numpy",
    `rows = duckdb.sql(${JSON.stringify(statement)}).fetchall()`,
    `dtypes = json.loads(${JSON.stringify(JSON.stringify(dtypes))})`,
    "found = [numpy.array([row[i] for row in rows], dtype).tobytes().hex() for i, dtype in enumerate(dtypes) if dtype]",
    "print(json.dumps([len(rows), *found]))",
  ].join("\n");
  try {
    return await python(parquet, program, work);
  } finally {
    await rm(join(work, "values.parquet"), { force: true });
  }
}
