/**
 * Virtual references as their readers find them: the printed lines are run in Python and JavaScript, and give the
 * producers' values; VirtualiZarr reads the kerchunk sets; Icechunk refuses a source that has changed.
 */
import { createHash } from "node:crypto";
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  stat,
  truncate,
  unlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { create as createArray } from "../../src/node/edit.ts";
import { type Fixture, loadFixtures } from "../fixtures/manifest.ts";
import { type Printed, runCommands } from "./commands.ts";
import { prepareEnvironment } from "./environments.ts";
import { findNodeForIcechunk, type NodeCommand } from "./newer-node.ts";
import { type Answer, askJavaScript, askPython, linesIn, makeLong } from "./references-answers.ts";
import { checkIcechunkInS3 } from "./references-s3.ts";
import { checkKerchunkInS3 } from "./references-s3-kerchunk.ts";
import { checkColumns, checkUpdates } from "./references-update.ts";
import { checkKerchunkOverHttp } from "./references-web.ts";
import type { Suite, SuiteContext } from "./suite.ts";

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
  /** The same in JavaScript. */
  readonly script?: string;
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
    const own = "absent" in node ? { program: process.execPath, args: [] } : node;
    const jobs = loadFixtures("bloscpack-3", "carray", "ctable", "blz-superchunk").flatMap((row) =>
      jobsOf(row, context.folder, "absent" in node),
    );
    const changed = "absent" in node ? [] : await jobsOfChanged(context.folder);
    const linked = await jobsOfLinked(context, own, "absent" in node);
    const long = await jobsOfLong(context.folder);
    const cases = await write(context, own, [...jobs, ...linked, ...long, ...changed]);
    const files = (await readdir(context.folder)).filter((name) => /^long-set2?\.\w+\.chunks$/.test(name));
    checks.equal("kerchunk of a long padded chunk has a chunk file", files.length, 2);
    for (const { change } of changed) await change?.();
    const asked = cases.map(({ lines, virtualizarr, wanted }, id) => ({
      id,
      lines,
      virtualizarr,
      names: Object.keys(wanted),
      dtypes: Object.fromEntries(Object.entries(wanted).map(([name, { dtype }]) => [name, dtype])),
    }));
    judge(context, cases, await askPython(python, asked));
    const scripted = cases.filter(({ script, wanted }) => script !== undefined && isForZarrita(wanted));
    const inNode = scripted.map(({ script, wanted }, id) => ({
      id,
      lines: script,
      names: Object.keys(wanted),
    }));
    judge(
      context,
      scripted.map((each) => ({ ...each, label: each.label.replace("xarray reads", "zarrita reads") })),
      await askJavaScript(own, context.folder, inNode),
    );
    await checkOwnReader(context, own, [...jobs, ...long]);
    await checkKerchunkOverHttp(context, own, python);
    await checkKerchunkInS3(context, own, python);
    if ("absent" in node) return;
    await checkIcechunkAlone(context, node, jobs);
    await checkUpdates(context, node, python);
    await checkColumns(context, node, python);
    await checkIcechunkInS3(context, node, python);
  },
};

function judge({ checks }: SuiteContext, cases: readonly Case[], answers: readonly Answer[]): void {
  for (const [id, each] of cases.entries()) {
    const answer = answers[id] ?? { error: "no answer" };
    if (each.isRefused === true) {
      checks.equal(
        `${each.label} is refused`,
        /^STALE|changed|not found|NotFound|no longer exists|not there any more/i.test(answer.error ?? "") ||
          `it ended with ${answer.error}`,
        true,
      );
      continue;
    }
    const wanted = Object.entries(each.wanted).map(([name, { shape, sha256 }]) => [name, [shape, sha256]]);
    if (answer.values === undefined) checks.fail(each.label, answer.error ?? "no values");
    else checks.equal(each.label, answer.values, Object.fromEntries(wanted));
  }
}

/** The sets as the command itself reads them, and as it converts what is in them, against the values that were written. */
async function checkOwnReader(
  { checks, folder }: SuiteContext,
  node: NodeCommand,
  jobs: readonly Job[],
): Promise<void> {
  const asked = jobs.flatMap(({ label, target, wanted, source }) =>
    Object.entries(wanted).map(([name, { sha256: hash, dtype }]) => ({
      label,
      name,
      target,
      hash,
      dtype,
      source,
    })),
  );
  const out = await mkdtemp(join(folder, "own-"));
  const files = asked.map((_, i) => join(out, `${i}.npy`));
  const printed = await runCommands(
    node,
    folder,
    asked.map(({ target, name, source }, i) => [
      ...["convert", join(target, name), files[i] ?? "", "--to", "npy"],
      ...["--allow", source.endsWith(".blp") ? dirname(source) : source],
    ]),
  );
  for (const [i, { label, name, hash, dtype }] of asked.entries()) {
    const one = printed[i];
    const text = `superchunk reads ${label}: ${name}`;
    if (one?.code !== 0) checks.fail(text, one?.err ?? "nothing was printed");
    else checks.equal(text, hashOfNpy(await readFile(files[i] ?? ""), dtype), hash);
  }
}

/** Lines that open a repository with Icechunk's package for JavaScript and zarrita, without superchunk. */
function linesOfIcechunk(repository: string, prefix: string): string {
  return [
    'import { Repository, Storage } from "@earthmover/icechunk";',
    'import * as zarr from "zarrita";',
    `const storage = await Storage.newLocalFilesystem(${JSON.stringify(repository)});`,
    `const repository = await Repository.open(storage, undefined, { ${JSON.stringify(prefix)}: null });`,
    'const { store } = await repository.readonlySession({ branch: "main" });',
    'const group = await zarr.open(store, { kind: "group" });',
  ].join("\n");
}

/** Lines that write a repository: an array of zarrita's in a group, and one of references to a file of 1,000 numbers. */
function linesOfWriter(repository: string, folder: string, changed: number): string {
  return [
    'import { Repository, Storage } from "@earthmover/icechunk";',
    'import * as zarr from "zarrita";',
    `const prefix = ${JSON.stringify(`file://${folder}/`)};`,
    `const storage = await Storage.newLocalFilesystem(${JSON.stringify(repository)});`,
    `const place = { name: "raw", urlPrefix: prefix, store: { type: "LocalFileSystem", field0: ${JSON.stringify(folder)} } };`,
    "const config = { virtualChunkContainers: { [prefix]: place } };",
    "const repository = await Repository.create(storage, config, undefined, { [prefix]: null });",
    'const session = await repository.writableSession("main");',
    "const { store } = session;",
    "const group = await zarr.create(zarr.root(store));",
    'const bytes = { name: "bytes", configuration: { endian: "little" } };',
    'const blosc = { name: "blosc", configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8, blocksize: 0 } };',
    'const float = { dtype: "float64", shape: [1000], chunkShape: [300], fillValue: 0 };',
    'await zarr.create(group.resolve("own"));',
    'const own = await zarr.create(group.resolve("own/values"), { ...float, codecs: [bytes, blosc] });',
    "const data = Float64Array.from({ length: 1000 }, (_, i) => Math.sqrt(i));",
    "await zarr.set(own, null, { data, shape: [1000], stride: [1] });",
    'await zarr.create(group.resolve("raw"), { ...float, codecs: [bytes] });',
    `const there = { location: prefix + "values", lastModified: new Date(${changed}), length: 2400 };`,
    "const chunks = [0, 1, 2].map((i) => ({ ...there, index: [i], offset: 2400 * i }));",
    'const failed = await store.setVirtualRefs("/raw", chunks, true);',
    'if (failed !== null) throw new Error("references without a container");',
    'await store.set("raw/c/3", Buffer.concat([Buffer.from(data.buffer, 7200), Buffer.alloc(1600)]));',
    'await session.commit("by Icechunk");',
  ].join("\n");
}

/** Icechunk's package and zarrita read what `virtualize` writes, and the command reads what they write. */
async function checkIcechunkAlone(
  context: SuiteContext,
  node: NodeCommand,
  jobs: readonly Job[],
): Promise<void> {
  const { checks, folder } = context;
  const own = jobs.filter(({ args, wanted }) => args.includes("icechunk") && isForZarrita(wanted));
  const cases = await Promise.all(
    own.map(async ({ label, target, wanted }) => {
      const kept = JSON.parse(await readFile(`${target}.containers.json`, "utf8")) as {
        readonly containers: readonly { readonly prefix: string }[];
      };
      const script = linesOfIcechunk(target, kept.containers[0]?.prefix ?? "");
      return { label: `Icechunk in JavaScript alone reads ${label}`, script, wanted };
    }),
  );
  const values = Float64Array.from({ length: 1000 }, (_, i) => Math.sqrt(i));
  const written = join(folder, "by-icechunk");
  const raw = join(folder, "raw");
  await mkdir(raw);
  await writeFile(join(raw, "values"), new Uint8Array(values.buffer));
  const changed = Math.ceil((await stat(join(raw, "values"))).mtimeMs / 1000) * 1000;
  const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
  const one = { dtype: "<f8", shape: [1000], sha256 };
  const wanted = { "own/values": one, raw: one };
  cases.push({
    label: "Icechunk in JavaScript writes",
    script: linesOfWriter(written, raw, changed),
    wanted,
  });
  const asked = cases.map(({ script, wanted: each }, id) => ({
    id,
    lines: script,
    names: Object.keys(each),
  }));
  judge(context, cases, await askJavaScript(node, folder, asked));
  const targets = {
    label: "what Icechunk in JavaScript wrote",
    target: written,
    args: [],
    source: raw,
    wanted,
  };
  await checkOwnReader(context, node, [targets]);
  const [verified, refused] = await runCommands(node, folder, [
    ["verify", written, "--allow", raw, "--json"],
    ["verify", written, "--json"],
  ]);
  const totals = (printed: Printed | undefined): unknown => {
    const { archives, failed, chunks } = (
      JSON.parse(printed?.out ?? "") as { totals: Record<string, number> }
    ).totals;
    return { code: printed?.code, archives, failed, chunks };
  };
  const what = "superchunk verifies what Icechunk in JavaScript wrote";
  checks.equal(what, totals(verified), { code: 0, archives: 2, failed: 0, chunks: 8 });
  checks.equal(`${what}, but no place that is not allowed`, totals(refused), {
    code: 1,
    archives: 2,
    failed: 1,
    chunks: 4,
  });
}

/** The hash of the values of an npy file of version 1, in the byte order of the dtype: Zarr v3 has only the machine's. */
function hashOfNpy(file: Buffer, dtype: string): string {
  const start = 10 + file.readUInt16LE(8);
  const values = Buffer.from(file.subarray(start));
  if (dtype === ">u2" && file.subarray(0, start).includes("<u2")) values.swap16();
  return createHash("sha256").update(values).digest("hex");
}

/** zarrita knows numbers of up to eight bytes, and booleans; float16 only if the engine does, and no array without rows. */
function isForZarrita(wanted: Case["wanted"]): boolean {
  return Object.values(wanted).every(
    ({ dtype, shape }) => !shape.includes(0) && /^(?:<[iu][248]|<f[48]|\|[iub]1|[iub]1)$/.test(dtype),
  );
}

/** The arrays of a fixture that Python's readers have a type for, by name; undefined if there are none. */
function wantedOf(row: Fixture): Readonly<Record<string, Wanted>> | undefined {
  if (row.refuse || row.optional || row.kind === "bytes") return undefined;
  if (row.kind === "array") {
    const { dtype, shape, sha256, path } = row;
    // Snappy, and cuts that are not on rows, need convert.
    if (typeof dtype !== "string" || /snappy|3d-fortran/.test(path)) return undefined;
    return { [basename(path).replace(/\.[^.]+$/, "")]: { dtype, shape, sha256 } };
  }
  const columns = Object.entries(row.columns).flatMap(([name, { dtype, shape, sha256 }]) =>
    typeof dtype === "string" ? [[name, { dtype, shape, sha256 }] as const] : [],
  );
  return columns.length === row.names.length ? Object.fromEntries(columns) : undefined;
}

/** A set that is to be written. */
interface Job {
  readonly label: string;
  readonly source: string;
  /** Archives that are joined to it. */
  readonly others?: readonly string[];
  readonly target: string;
  readonly args: readonly string[];
  readonly wanted: Readonly<Record<string, Wanted>>;
  /** A change to the source afterwards, after which reading must fail. */
  readonly change?: () => Promise<void>;
}

function jobsOf(row: Fixture, folder: string, withoutIcechunk: boolean): Job[] {
  const wanted = wantedOf(row);
  if (wanted === undefined) return [];
  return FORMS.filter(({ name }) => !(withoutIcechunk && name === "Icechunk")).map(
    ({ name, args, file }) => ({
      label: `${name} of ${row.path}`,
      source: row.file,
      target: join(folder, `${row.path.replaceAll("/", "-")}-${file}`),
      args,
      wanted,
    }),
  );
}

/** Archives that were linked, with one reference to each file. */
async function jobsOfLinked(
  { checks, folder }: SuiteContext,
  node: NodeCommand,
  withoutIcechunk: boolean,
): Promise<Job[]> {
  const rows = [...loadFixtures("blz-superchunk"), ...loadFixtures("bloscpack-3")].filter(({ path }) =>
    /(?:f8-default|i8-2d-crc32|array-i4-2d\.blp)$/.test(path),
  );
  const jobs: Job[] = [];
  for (const row of rows) {
    const source = join(folder, "linked", basename(row.path));
    await cp(row.file, source, { recursive: true });
    const found = jobsOf({ ...row, file: source } as Fixture, folder, withoutIcechunk);
    for (const job of found) {
      if (/v2|Parquet/.test(job.label)) continue;
      const label = `${job.label} by shards`;
      jobs.push({ ...job, label, target: `${job.target}-shards`, args: [...job.args, "--shards"] });
    }
  }
  const commands = rows.map((row) => [
    "link",
    join(folder, "linked", basename(row.path)),
    ...(row.path.endsWith(".blp") ? [join(folder, "linked.zarr")] : []),
  ]);
  const { years, joined } = await jobsOfYears(folder, withoutIcechunk);
  commands.push(...years.map((year) => ["link", year]));
  jobs.push(...joined);
  for (const [i, { code, err }] of (await runCommands(node, folder, commands)).entries())
    if (code !== 0) checks.fail(`references: ${commands[i]?.join(" ")}`, err);
  return jobs;
}

/** Archives of whole shards, the last one of some that are not, as one array of references to their files. */
async function jobsOfYears(
  folder: string,
  withoutIcechunk: boolean,
): Promise<{ readonly years: readonly string[]; readonly joined: readonly Job[] }> {
  const years: string[] = [];
  const values: number[] = [];
  for (const [year, rows] of [
    ["2023", 80],
    ["2024", 40],
    ["2025", 95],
  ] as const) {
    const own = Float64Array.from({ length: rows }, (_, i) => values.length + i);
    values.push(...own);
    const root = join(folder, "years", year);
    const array = await createArray(root, { dtype: "<f8", shape: [0], chunkLength: 10, superchunkLength: 4 });
    await array.append(own);
    await array.close();
    years.push(root);
  }
  const sha256 = createHash("sha256")
    .update(new Uint8Array(Float64Array.from(values).buffer))
    .digest("hex");
  const [source = "", ...others] = years;
  const joined = FORMS.filter(
    ({ name }) => name === "kerchunk" || (name === "Icechunk" && !withoutIcechunk),
  ).map(({ name, args, file }) => ({
    label: `${name} of years joined by shards`,
    source,
    others,
    target: join(folder, `years-${file}`),
    args: [...args, "--shards", "--concat"],
    wanted: { "2023": { dtype: "<f8", shape: [values.length], sha256 } },
  }));
  return { years, joined };
}

/** Sets of an array whose last chunk is padded and long, so that JSON has it in a file next to it. */
async function jobsOfLong(folder: string): Promise<Job[]> {
  const { source, wanted } = await makeLong(folder);
  return FORMS.filter(({ name }) => name !== "Icechunk").map(({ name, args, file }) => ({
    label: `${name} of a long padded chunk`,
    source,
    target: join(folder, `long-${file}`),
    args,
    wanted: { long: wanted },
  }));
}

/** Icechunk repositories whose source is touched, cut or deleted after they were written. */
async function jobsOfChanged(folder: string): Promise<Job[]> {
  const [row] = loadFixtures("bloscpack-3").filter(({ path }) => path.endsWith("array-i4-2d.blp"));
  if (row === undefined) return [];
  const touch = (file: string): Promise<void> => {
    const later = new Date(Date.now() + 60_000);
    return utimes(file, later, later);
  };
  const changes: Readonly<Record<string, (file: string) => Promise<void>>> = {
    touched: touch,
    cut: async (file) => {
      await truncate(file, 64);
      await touch(file);
    },
    deleted: unlink,
  };
  return Promise.all(
    Object.entries(changes).map(async ([what, change]) => {
      const file = join(folder, `${what}.blp`);
      await cp(row.file, file);
      return {
        label: `Icechunk of a source that was ${what}`,
        source: file,
        target: join(folder, `${what}.icechunk`),
        args: ["--to", "icechunk"],
        wanted: { [what]: { dtype: "<i4", shape: [], sha256: null } },
        change: () => change(file),
      };
    }),
  );
}

async function write(
  { checks, folder }: SuiteContext,
  node: NodeCommand,
  jobs: readonly Job[],
): Promise<Case[]> {
  const commands = jobs.map(({ source, others = [], target, args }) => [
    "virtualize",
    source,
    ...others,
    target,
    ...args,
    "--json",
  ]);
  const printed = await runCommands(node, folder, commands);
  return jobs.flatMap(({ label, target, args, wanted, change }, i): Case[] => {
    const one = printed[i];
    if (one?.code !== 0) {
      checks.fail(label, one?.err ?? "nothing was printed");
      return [];
    }
    const open = linesIn(one);
    const both = { lines: open.Python, script: open.JavaScript };
    if (change !== undefined) return [{ label, ...both, wanted, isRefused: true }];
    const cases: Case[] = [{ label: `xarray reads ${label}`, ...both, wanted }];
    // VirtualiZarr knows no shards.
    if (!args.includes("icechunk") && !args.includes("--shards"))
      cases.push({ label: `VirtualiZarr reads ${label}`, virtualizarr: target, wanted });
    return cases;
  });
}
