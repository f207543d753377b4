/**
 * Buckets of Google Cloud Storage and S3 and containers of Azure, with their real clients and emulators: fake-gcs-server (built by
 * `go install`), moto (from PyPI) and Azurite (installed by npm), set up in `.cache/interop`. xarray reads what is in Google's over plain HTTP.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bucketStore, parseBucketAddress } from "../../src/node/buckets/address.ts";
import { edit } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { runCommands } from "./commands.ts";
import { type Absent, cacheFolder, type Environment, prepareEnvironment } from "./environments.ts";
import { findNodeForIcechunk } from "./newer-node.ts";
import { freePort, lastLines, runProgram } from "./program.ts";
import { linesIn } from "./references-answers.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const GCS = "github.com/fsouza/fake-gcs-server@v1.56.1";
const AZURITE = "azurite@3.35.0";
/** The account of Azurite, which is the same everywhere. */
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOLDER = "archives";
const TABLE = "ctable/bcolz-daily-equities";

/** The only reason for which a run goes on without an emulator: no registry has Go for every machine. */
const NO_GO = "Go is not installed, which builds fake-gcs-server";

/** A running emulator with an empty bucket, and what reaches it. */
interface Emulator {
  readonly child: ChildProcess;
  readonly env: Readonly<Record<string, string>>;
  /** The web address of the bucket; undefined for Azurite, which answers ranges of plain HTTP with a wrong length, and moto, which wants keys. */
  readonly web: string | undefined;
}

export const buckets: Suite = {
  name: "buckets",
  peers: [],
  async run(context) {
    const python = await prepareEnvironment({ name: "xarray", pythons: ["3.12", "3.13"] });
    for (const [scheme, start] of [
      ["gs", startGcs],
      ["az", startAzurite],
      ["s3", startMoto],
    ] as const) {
      const emulator = await start();
      for (const each of [emulator, python]) {
        if (!("absent" in each)) continue;
        console.log(`absent: buckets: ${each.absent}`);
        if (process.env["CI"] === "true" && each.absent !== NO_GO)
          context.checks.fail(`buckets ${scheme}`, "what it needs is absent, and CI=true");
      }
      if ("absent" in emulator) continue;
      const before = { ...process.env };
      Object.assign(process.env, emulator.env);
      try {
        await check(context, scheme, emulator, "absent" in python ? undefined : python);
      } finally {
        for (const name of Object.keys(emulator.env)) delete process.env[name];
        Object.assign(process.env, before);
        emulator.child.kill();
      }
    }
  },
};

async function check(
  { checks, folder }: SuiteContext,
  scheme: string,
  { web }: Emulator,
  python: Environment | undefined,
): Promise<void> {
  const { file } = findFixture(TABLE);
  const [root, set] = [`${scheme}://${HOLDER}`, join(folder, `${scheme}.json`)];
  const values = ["--column", "close", "--format", "csv"];
  const [
    made,
    again,
    copied,
    listed,
    read,
    wanted,
    verified,
    refers,
    referred,
    refused,
    created,
    added,
    sum,
  ] = await runCommands({ program: process.execPath, args: [] }, folder, [
    ["convert", file, `${root}/daily.zarr`, "--verify"],
    ["convert", file, `${root}/daily.zarr`],
    ["convert", `${root}/daily.zarr`, `${root}/daily.bcolz`, "--to", "bcolz", "--verify"],
    ["ls", root, "--json"],
    ["cat", `${root}/daily.bcolz`, ...values],
    ["cat", file, ...values],
    ["verify", `${root}/daily.zarr`],
    ["virtualize", `${root}/daily.bcolz`, set, "--to", "kerchunk"],
    ["cat", set, ...values, "--allow", `${root}/`],
    ["cat", set, ...values],
    ["create", `${root}/array`, "--dtype", "<i4", "--shape", "0"],
    ["append", `${root}/array`, findFixture("bloscpack-3/array-i4-2d.blp").file],
    ["verify", `${root}/array`],
  ]);
  for (const [what, run, code] of [
    ["a table is converted", made, 0],
    ["a second conversion is refused", again, 1],
    ["a table is converted inside the bucket", copied, 0],
    ["the bucket is listed", listed, 0],
    ["the result is verified", verified, 0],
    ["references are written", refers, 0],
    ["references are refused without --allow", refused, 1],
    ["an array is created", created, 0],
    ["bytes that end inside a row are refused", added, 2],
    ["the array is verified", sum, 0],
  ] as const)
    checks.equal(`${scheme}: ${what}`, run?.code === code || run, true);
  checks.equal(
    `${scheme}: why it is refused`,
    /the destination exists/.test(again?.err ?? "") || again,
    true,
  );
  checks.equal(`${scheme}: the values of the copy`, read?.out, wanted?.out);
  checks.equal(`${scheme}: the values of the references`, referred?.out, wanted?.out);
  await checkPlace({ checks, folder }, `${root}/cold`);
  await checkTwoAppends(checks, `${root}/daily.zarr/close`);
  await checkIcechunk({ checks, folder }, root, wanted?.out);
  if (python === undefined || web === undefined) return;
  const lines = wanted?.out.trim().split("\n").slice(1).map(Number) ?? [];
  const total = lines.reduce((all, each) => all + each, 0);
  const script = `import xarray\ndata = xarray.open_zarr(${JSON.stringify(`${web}/daily.zarr`)}, decode_times=False)\nprint(int(data["close"].values.astype("int64").sum()))`;
  const summed = await runProgram(python.executable, ["-c", script], { env: python.env });
  checks.equal(
    `${scheme}: the sum in xarray`,
    summed.code === 0 ? Number(summed.stdout) : lastLines(summed),
    total,
  );
}

/**
 * Icechunk repositories. Google's emulator has not the interface that Icechunk writes with, so a repository is copied to it; then Python reads
 * both with the printed lines.
 */
async function checkIcechunk(
  { checks, folder }: Pick<SuiteContext, "checks" | "folder">,
  root: string,
  wanted: string | undefined,
): Promise<void> {
  const node = await findNodeForIcechunk();
  if ("absent" in node) return console.log(`absent: buckets: ${node.absent}`);
  const { file } = findFixture(TABLE);
  const [place, local] = [`${root}/repository`, join(folder, "repository")];
  const isWritable = !root.startsWith("gs:");
  const [written] = await runCommands(node, folder, [
    ["virtualize", file, isWritable ? place : local, "--to", "icechunk", "--json"],
  ]);
  if (!isWritable) {
    const store = bucketStore(parseBucketAddress(place));
    for (const name of await readdir(local, { recursive: true }))
      if ((await stat(join(local, name))).isFile()) await store.put(name, await readFile(join(local, name)));
    await store.close();
  }
  const at = isWritable ? place : `${place}?anonymous=true`;
  const values = ["--column", "close", "--format", "csv"];
  const [read] = await runCommands(node, folder, [["cat", at, ...values, "--allow", file]]);
  checks.equal(`${root}: the values of an Icechunk repository`, read?.out || read, wanted);
  const python = await prepareEnvironment({ name: "references", pythons: ["3.12", "3.13"] });
  if ("absent" in python || !isWritable) return;
  const { Python } = linesIn(written ?? { code: 1, out: "{}", err: "" });
  const script = `${Python}\nprint(*dataset["close"].values.astype("int64"), sep="\\n")`;
  const summed = await runProgram(python.executable, ["-c", script], { env: python.env });
  checks.equal(
    `${root}: Python reads it with the printed lines`,
    summed.code === 0 ? `close\n${summed.stdout}` : lastLines(summed),
    wanted,
  );
}

/** An array on disk whose superchunks go to a bucket, from which they are read, moved back, and verified. */
async function checkPlace(
  { checks, folder }: Pick<SuiteContext, "checks" | "folder">,
  place: string,
): Promise<void> {
  const [root, raw] = [await mkdtemp(join(folder, "placed-")), join(folder, "values.raw")];
  await writeFile(raw, new Uint8Array(Float64Array.from({ length: 3000 }, (_, i) => i / 7).buffer));
  const [allow, array] = [["--allow", place], join(root, "array")];
  const shape = ["--dtype", "<f8", "--shape", "-1", "--chunklen", "100", "--superchunklen", "5"];
  const runs = await runCommands({ program: process.execPath, args: [] }, folder, [
    ["create", array, "--from", raw, ...shape, "--place", `far=${place}`],
    ["place", array, ...allow, "--move", "0..2", "--to", "far"],
    ["place", array, ...allow, "--json"],
    ["append", array, raw, ...allow],
    ["place", array, ...allow, "--move", "1..1", "--to", "data"],
    ["verify", array, ...allow],
    ["cat", array, ...allow, "--format", "csv", "--slice", "2990:3010"],
  ]);
  checks.equal(
    `${place}: an array with a place there`,
    runs.map(({ code, err }) => code || /FAILED|DAMAGED/.exec(err)),
    Array(7)
      .fill(0)
      .map((n) => n || null),
  );
  const far = (
    JSON.parse(runs[2]?.out || "{}") as { places?: { name: string; superchunks: number }[] }
  ).places?.find(({ name }) => name === "far");
  checks.equal(`${place}: superchunks are there`, (far?.superchunks ?? 0) >= 3 || runs[2], true);
  const values = Array.from({ length: 20 }, (_, i) => ((2990 + i) % 3000) / 7);
  checks.equal(`${place}: the values`, runs[6]?.out.trim().split("\n").slice(1).map(Number), values);
}

/** Two writers append to a Zarr array at the same time: the rows of one are there, the other gets a conflict, and no claim is left. */
async function checkTwoAppends(checks: SuiteContext["checks"], path: string): Promise<void> {
  const writers = await Promise.all([1, 2].map(() => edit(path)));
  const outcomes = await Promise.allSettled(
    writers.map(async (writer, i) => {
      await writer.append(new Uint32Array(50).fill(i + 1));
      await writer.close();
    }),
  );
  const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
  const refused = outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
  checks.equal(`${path}: one of two appends gets a conflict`, refused?.reason.code ?? refused, "CONFLICT");
  const again = await edit(path);
  const rows = (await again.getBytes([{ start: -51, stop: null, step: 1 }])).slice();
  const last = [...new Uint32Array(rows.buffer)];
  checks.equal(
    `${path}: the rows of the other are there, once`,
    last.slice(1).join(),
    Array(50)
      .fill(winner + 1)
      .join(),
  );
  checks.equal(`${path}: nothing is before them`, last[0] !== 1 && last[0] !== 2, true);
  await again.append(new Uint32Array(1));
  await again.close();
}

/** Builds fake-gcs-server where Go is installed, and starts it with a bucket. */
async function startGcs(): Promise<Emulator | Absent> {
  const folder = join(cacheFolder, GCS.replace(/.*\//, ""));
  const program = join(folder, "fake-gcs-server");
  if (!existsSync(program)) {
    if ((await runProgram("go", ["version"])).code !== 0) return { absent: NO_GO };
    await mkdir(folder, { recursive: true });
    const built = await runProgram("go", ["install", GCS], { env: { GOBIN: folder }, timeoutSeconds: 900 });
    if (built.code !== 0) return { absent: `go install ${GCS} failed with ${lastLines(built)}` };
  }
  const port = await freePort();
  const [host, url] = [`127.0.0.1:${port}`, `http://127.0.0.1:${port}`];
  const child = spawn(
    program,
    [
      ...["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", String(port)],
      ...["-public-host", host, "-external-url", url, "-log-level", "error"],
    ],
    { stdio: "ignore" },
  );
  const isMade = await untilAnswered(child, () =>
    fetch(`${url}/storage/v1/b`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: HOLDER }),
    }),
  );
  if (!isMade) return giveUp(child, "fake-gcs-server does not answer");
  return { child, env: { STORAGE_EMULATOR_HOST: url }, web: `${url}/${HOLDER}` };
}

/** Installs Azurite, and starts it with a container. */
async function startAzurite(): Promise<Emulator | Absent> {
  const folder = join(cacheFolder, AZURITE);
  if (!existsSync(join(folder, "ready"))) {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "package.json"), "{}");
    const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", AZURITE];
    const installed = await runProgram("npm", args, { cwd: folder, timeoutSeconds: 900 });
    if (installed.code !== 0) return { absent: `npm install ${AZURITE} failed with ${lastLines(installed)}` };
    await writeFile(join(folder, "ready"), "");
  }
  const port = await freePort();
  const main = join(folder, "node_modules", "azurite", "dist", "src", "blob", "main.js");
  const child = spawn(
    process.execPath,
    [
      ...[main, "--blobHost", "127.0.0.1", "--blobPort", String(port)],
      ...["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
    ],
    { stdio: "ignore", cwd: folder },
  );
  const endpoint = `http://127.0.0.1:${port}/${ACCOUNT}`;
  // By name, as the library loads it: the package is optional.
  const { BlobServiceClient, StorageSharedKeyCredential } = await import(
    ["@azure", "storage-blob"].join("/")
  );
  const service = new BlobServiceClient(endpoint, new StorageSharedKeyCredential(ACCOUNT, KEY));
  const container = service.getContainerClient(HOLDER);
  if (!(await untilAnswered(child, () => container.createIfNotExists())))
    return giveUp(child, "Azurite does not answer");
  return {
    child,
    env: { AZURE_STORAGE_ACCOUNT: ACCOUNT, AZURE_STORAGE_KEY: KEY, AZURE_STORAGE_ENDPOINT: endpoint },
    web: undefined,
  };
}

/** Installs moto, and starts its server with a bucket. */
async function startMoto(): Promise<Emulator | Absent> {
  const python = await prepareEnvironment({ name: "moto", pythons: ["3.12", "3.13", "3.11"] });
  if ("absent" in python) return python;
  const port = await freePort();
  const child = spawn(python.executable, ["-m", "moto.server", "-p", String(port)], { stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  if (!(await untilAnswered(child, () => fetch(`${url}/${HOLDER}`, { method: "PUT" }))))
    return giveUp(child, "moto does not answer");
  // It accepts any keys.
  const keys = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret", AWS_REGION: "us-east-1" };
  return { child, env: { ...keys, AWS_ENDPOINT_URL: url }, web: undefined };
}

/** Repeats a request until the server is up; false if it has ended, or after five minutes. */
async function untilAnswered(server: ChildProcess, request: () => Promise<unknown>): Promise<boolean> {
  for (let tries = 0; tries < 600 && server.exitCode === null; tries++) {
    try {
      await request();
      return true;
    } catch {
      await delay(500);
    }
  }
  return false;
}

function giveUp(child: ChildProcess, absent: string): Absent {
  child.kill();
  return { absent };
}
