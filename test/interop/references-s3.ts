/**
 * Icechunk in S3, with its real package and an S3-compatible server on loopback: what the command writes is read by
 * Icechunk in Python and through `openReferences`; objects that change are refused by name; one of two writers gets
 * the conflict.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { S3Store } from "../../src/node/index.ts";
import { corpusStore, keysOf } from "../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { CREDENTIALS, startS3, type TestS3 } from "../node/s3/server.ts";
import { type Printed, runCommands } from "./commands.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import { askJavaScript, askPython, checkLines, linesIn } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const TABLE = "ctable/bcolz-daily-equities";
const REGION = "us-east-1";

/** What readers find in the environment: credentials, but not the server, which the lines themselves give. */
const VARIABLES = {
  AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
};

/**
 * Writes to a repository in S3, reads it in both languages, changes what it refers to, and lets two writers write
 * concurrently.
 */
export async function checkIcechunkInS3(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const s3 = await startS3();
  const before = { ...process.env };
  Object.assign(process.env, VARIABLES);
  try {
    await checkTable(context, s3, node, python);
    await checkWriters(context, s3, node);
  } finally {
    for (const name of Object.keys(VARIABLES)) delete process.env[name];
    Object.assign(process.env, before);
    await s3.close();
  }
}

const addressOf = ({ bucket, endpoint }: TestS3, key: string): string =>
  `s3://${bucket}/${key}?endpoint=${endpoint}&region=${REGION}`;

async function checkTable(
  context: SuiteContext,
  s3: TestS3,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const { checks, folder } = context;
  const fixture = findFixture(TABLE);
  if (fixture.kind !== "table") throw new Error("no table");
  const { endpoint, bucket } = s3;
  const store = new S3Store({ bucket, prefix: "data/equities", endpoint, region: REGION });
  for (const key of await keysOf(corpusStore, TABLE))
    await store.put(key.slice(TABLE.length + 1), (await corpusStore.get(key)) ?? new Uint8Array());
  const args = ["virtualize", addressOf(s3, "data/equities"), addressOf(s3, "repositories/equities")];
  const [written, refused, updated] = await runCommands(node, folder, [
    [...args, "--json"],
    args,
    [...args, "--update", "--json"],
  ]);
  for (const [what, run, code] of [
    ["writes", written, 0],
    ["refuses a repository that is there", refused, 1],
    ["updates", updated, 0],
  ] as const)
    checks.equal(`Icechunk in S3: the command ${what}`, run?.code === code || run, true);
  if (written?.code !== 0 || updated?.code !== 0) return;
  const lines = linesIn(written);
  const wanted = Object.fromEntries(
    fixture.names.map((name) => [name, [fixture.columns[name]?.shape, fixture.columns[name]?.sha256]]),
  );
  // Stored as seconds, and dates for xarray.
  await checkLines(context, node, python, { label: "Icechunk in S3", lines, wanted, dtypes: { day: "<u4" } });

  await checkContainers(checks, s3, node, folder);
  const key = "close/data/__1.blp";
  const whole = (await store.get(key)) ?? new Uint8Array();
  const changed = whole.slice();
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  const ask = { id: 1, names: ["close"] };
  for (const [what, bytes] of [
    ["changed", changed],
    ["cut", whole.slice(0, 60)],
  ] as const) {
    await store.put(key, bytes);
    const [one] = await askJavaScript(node, folder, [{ ...ask, lines: lines.JavaScript }]);
    const found = one?.error ?? "values";
    const isGiven = /^STALE/.test(found) && found.includes(`s3://${bucket}/data/equities/${key}`);
    checks.equal(`Icechunk in S3: an object that was ${what}, in JavaScript`, isGiven || found, true);
    const [other] = await askPython(python, [{ ...ask, lines: lines.Python }]);
    const isRefused = /changed|not enough data/.test(other?.error ?? "");
    checks.equal(`Icechunk in S3: an object that was ${what}, in Python`, isRefused || other?.error, true);
  }
  await store.close();
}

/** The containers of a repository: listed, edited and kept while references need them. */
async function checkContainers(
  checks: SuiteContext["checks"],
  s3: TestS3,
  node: NodeCommand,
  folder: string,
): Promise<void> {
  const at = addressOf(s3, "repositories/equities");
  const prefix = `s3://${s3.bucket}/data/`;
  const [listed, edited, added, needed, deleted, moved] = await runCommands(node, folder, [
    ["containers", at, "--json"],
    ["containers", at, "--set", "s3", "--region", "eu-west-1", "--json"],
    ["containers", at, "--set", "spare", "--prefix", "s3://spare/", "--anonymous", "--json"],
    ["containers", at, "--delete", "s3"],
    ["containers", at, "--delete", "spare", "--json"],
    ["containers", at, "--set", "s3", "--location", "s3://elsewhere/"],
  ]);
  const containersIn = (printed: Printed | undefined): unknown =>
    printed?.code === 0
      ? (JSON.parse(printed.out) as { containers: unknown }).containers
      : (printed?.err ?? "nothing was printed");
  const one = { name: "s3", prefix, store: "s3", region: REGION, endpoint: s3.endpoint };
  const there = { ...one, region: "eu-west-1" };
  const spare = { name: "spare", prefix: "s3://spare/", store: "s3", anonymous: true };
  checks.equal("Icechunk's containers: listed", containersIn(listed), [one]);
  checks.equal("Icechunk's containers: edited", containersIn(edited), [there]);
  checks.equal("Icechunk's containers: added", containersIn(added), [there, spare]);
  checks.equal("Icechunk's containers: deleted", containersIn(deleted), [there]);
  const isNeeded =
    needed?.code === 1 && needed.err.includes(`needed by references, for example to ${prefix}`);
  checks.equal("Icechunk's containers: one that is needed stays", isNeeded || needed, true);
  const isMoved =
    moved?.code === 1 && moved.err.includes("Icechunk reads objects where their references say");
  checks.equal("Icechunk's containers: no other place", isMoved || moved, true);
  const lines = [
    'import { openReferences } from "superchunk/node";',
    'import * as zarr from "zarrita";',
    `const store = await openReferences(${JSON.stringify(at)}, { form: "icechunk", authorize: ["s3"] });`,
    'const group = await zarr.open(store, { kind: "group" });',
  ].join("\n");
  const fixture = findFixture(TABLE);
  const close = fixture.kind === "table" ? fixture.columns["close"] : undefined;
  const [read] = await askJavaScript(node, folder, [{ id: 2, names: ["close"], lines }]);
  checks.equal("Icechunk's containers: authorised by name", read?.values ?? read?.error, {
    close: [close?.shape, close?.sha256],
  });
}

/** The outcome of a writer, or for each node whether a reader gets what its archive holds. */
interface Written {
  readonly code?: string;
  readonly message?: string;
  readonly field?: string;
  readonly snapshot?: string;
  readonly arrays?: number;
  readonly expected?: string;
  readonly found?: string;
}

async function checkWriters({ checks, folder }: SuiteContext, s3: TestS3, node: NodeCommand): Promise<void> {
  const results = join(folder, "writers.json");
  const script = join(repositoryRoot, "test", "interop", "readers", "icechunk-writers.mjs");
  for (const location of [addressOf(s3, "repositories/shared"), join(folder, "shared.icechunk")]) {
    const where = location.startsWith("s3://") ? "in S3" : "in a folder";
    await writeFile(results, "{}");
    const done = await runProgram(node.program, [...node.args, script, results], {
      input: JSON.stringify({
        location,
        first: join(corpusFolder, "bloscpack-3", "array-i4-2d.blp"),
        second: join(corpusFolder, "carray", "bcolz-f8-chunks"),
      }),
    });
    if (done.code !== 0) {
      checks.fail(`two writers of Icechunk ${where}`, lastLines(done));
      continue;
    }
    const { first, second, again, shown } = JSON.parse(await readFile(results, "utf8")) as {
      readonly [run: string]: Written | undefined;
      readonly shown?: Written;
    };
    checks.equal(
      `two writers of Icechunk ${where}: the slower one learns of the faster one's commit`,
      [first?.code, first?.field, first?.found, second?.arrays],
      ["CONFLICT", "branch", second?.snapshot, 2],
    );
    checks.equal(
      `two writers of Icechunk ${where}: tried again`,
      [again?.code, again?.arrays],
      [undefined, 2],
    );
    checks.equal(`two writers of Icechunk ${where}: what both wrote is there`, shown, {
      first: true,
      "first-again": true,
      second: true,
      "second-again": true,
    });
  }
}
