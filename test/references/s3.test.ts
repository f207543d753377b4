/** References to archives in S3, and sets stored there: with credentials by name, which are never shown. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { SuperchunkError } from "../../src/errors.ts";
import { openArray, S3Store, slice } from "../../src/node/index.ts";
import { openReferences } from "../../src/node/references.ts";
import type { Container } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { corpusStore, keysOf, sha256 } from "../convert/to-zarr/read-back.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "../node/s3/server.ts";
import { readThroughView } from "../view/read-view.ts";

const TABLE = "ctable/bcolz-daily-equities";
const SECRET = "top/5ecret+key";
let folder = "";
let s3: TestS3;
let restoreEnvironment: () => void;

beforeAll(async () => {
  folder = temporaryFolder();
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3, SECRET);
  for (const key of await keysOf(corpusStore, TABLE))
    s3.fill(`data/${key.replace(TABLE, "equities")}`, (await corpusStore.get(key)) ?? new Uint8Array());
});
beforeEach(() => {
  s3.intercept = () => false;
});
afterAll(async () => {
  restoreEnvironment();
  await s3.close();
});

async function failure(reading: Promise<unknown>): Promise<SuperchunkError> {
  const error = await reading.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (error instanceof SuperchunkError) return error;
  throw new Error(`no error of ours: ${String(error)}`);
}

async function closeOfEquities(store: Awaited<ReturnType<typeof openReferences>>): Promise<string> {
  return sha256(await readThroughView(store, "close", "<u4"));
}

function wanted(): string {
  const fixture = findFixture(TABLE);
  if (fixture.kind !== "table") throw new Error("no table");
  expect(fixture.columns["close"]?.dtype).toBe("<u4");
  return fixture.columns["close"]?.sha256 ?? "";
}

describe("virtualize", () => {
  it("refers to an archive in S3 from a local set, which reads the producer's values", async () => {
    const set = join(folder, "set.json");
    const { code, out } = await runCli([
      "virtualize",
      `s3://${s3.bucket}/data/equities`,
      set,
      "--column",
      "close",
      "--to",
      "kerchunk",
      "--json",
    ]);
    expect(code).toBe(0);
    const { containers, open } = JSON.parse(out) as { containers: Container[]; open: { Python: string } };
    const { endpoint } = s3;
    const prefix = `s3://${s3.bucket}/data/equities/close/data/`;
    // Reached as the archive was: signed, and on the same server.
    expect(containers).toEqual([{ name: "s3", prefix, store: "s3", region: "us-east-1", endpoint }]);
    expect(open.Python).toContain(
      `"remote_protocol": "s3", "remote_options": {"asynchronous": True, "endpoint_url": "${endpoint}"}`,
    );
    const store = await openReferences(set, { authorize: ["s3"] });
    expect(await closeOfEquities(store)).toBe(wanted());
    await store.close();
  });

  it.each([
    ["kerchunk", "sets/set.json"],
    ["kerchunk-parquet", "sets/set.parq"],
  ])("writes a set of %s with its containers into S3, and opens it from there", async (form, key) => {
    const at = `s3://${s3.bucket}/${key}`;
    const run = (): ReturnType<typeof runCli> =>
      runCli(["virtualize", `s3://${s3.bucket}/data/equities`, at, "--column", "close", "--to", form]);
    expect((await run()).code).toBe(0);
    const again = await run();
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("a set of references exists here")]);
    const store = await openReferences(at, { authorize: ["s3"] });
    if (form === "kerchunk") expect(await closeOfEquities(store)).toBe(wanted());
    else expect((await store.get("/close/0"))?.length).toBeGreaterThan(16);
    await store.close();
    const close = await openArray(`${at}/close`, { authorize: ["s3"], dtype: "uint32" });
    expect((await close.get([slice(0, 2)])).data).toEqual(Uint32Array.of(51654, 50967));
    await close.close();
  });

  it("takes the server of a set from its address, whatever the environment says", async () => {
    delete process.env["AWS_ENDPOINT_URL_S3"];
    try {
      const settings = `?endpoint=${s3.endpoint}&region=us-east-1`;
      const at = `s3://${s3.bucket}/sets/addressed.json${settings}`;
      const source = `s3://${s3.bucket}/data/equities${settings}`;
      const args = ["virtualize", source, at, "--column", "close", "--to", "kerchunk", "--json"];
      const { code, out } = await runCli(args);
      expect(code).toBe(0);
      const { open } = JSON.parse(out) as { open: { Python: string } };
      expect(open.Python).toContain(
        `"fo": "s3://${s3.bucket}/sets/addressed.json", "target_protocol": "s3", "target_options": {"endpoint_url": "${s3.endpoint}"}`,
      );
      const store = await openReferences(at, { authorize: ["s3"] });
      expect(await closeOfEquities(store)).toBe(wanted());
      await store.close();
    } finally {
      process.env["AWS_ENDPOINT_URL_S3"] = s3.endpoint;
    }
  });

  it("writes no secret anywhere", async () => {
    const set = join(folder, "secrets.json");
    const args = [
      "virtualize",
      `s3://${s3.bucket}/data/equities`,
      set,
      "--column",
      "close",
      "--to",
      "kerchunk",
    ];
    const { code, out, err } = await runCli(args);
    expect(code).toBe(0);
    const written = await Promise.all(
      [set, join(folder, "secrets.containers.json")].map((file) => readFile(file, "utf8")),
    );
    for (const text of [out, err, ...written]) expect(text).not.toContain(SECRET);
  });

  it("ends in an error without secrets if S3 refuses the credentials, and writes nothing", async () => {
    s3.intercept = refuse;
    const set = join(folder, "refused.json");
    const { code, out, err } = await runCli([
      "virtualize",
      `s3://${s3.bucket}/data/equities`,
      set,
      "--column",
      "close",
      "--to",
      "kerchunk",
      "--debug",
    ]);
    expect(code).toBe(1);
    expect(err).toMatch(/access denied by http:\S+; check the credentials/);
    expect(`${out}${err}`).not.toContain(SECRET);
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });
});

const refuse: TestS3["intercept"] = (_, response) => {
  response.writeHead(403, { "content-type": "application/xml" });
  response.end(`<Error><Code>SignatureDoesNotMatch</Code><Message>${SECRET} is wrong</Message></Error>`);
  return true;
};

it.each([
  ["listed", []],
  ["added", ["--set", "mirror", "--prefix", "s3://mirror/"]],
  ["deleted", ["--delete", "mirror"]],
])(
  "containers in a bucket that does not exist are not %s, because the bucket is missing",
  async (_, args) => {
    const { code, out, err } = await runCli(["containers", "s3://missing-bucket/set.json", ...args]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain(
      `s3://missing-bucket/set.containers.json: no such bucket at ${s3.endpoint}; check its name`,
    );
  },
);

describe("a container in S3", () => {
  async function openNamed(): ReturnType<typeof openReferences> {
    const set = join(folder, "named.json");
    const containers = join(folder, "named.own.json");
    const container = {
      name: "company",
      prefix: `s3://${s3.bucket}/data/`,
      store: "s3",
      region: "us-east-1",
      endpoint: s3.endpoint,
      credentials: "ours",
    };
    const document = { format: "superchunk-containers", version: 1, containers: [container] };
    await writeFile(containers, JSON.stringify(document));
    const args = [
      "virtualize",
      `s3://${s3.bucket}/data/equities`,
      set,
      "--column",
      "close",
      "--to",
      "kerchunk",
      "--overwrite",
    ];
    // The command has what AWS tools find, but not the credentials of that name.
    const { code, err } = await runCli([...args, "--containers", containers]);
    expect([code, err]).toEqual([
      0,
      expect.stringContaining('nothing was read back: container "company" is for'),
    ]);
    return openReferences(set, {
      authorize: ["company"],
      credentials: { ours: { accessKeyId: "S3RVER", secretAccessKey: SECRET } },
    });
  }

  it("is read with the credentials that it names, and shows them in no error", async () => {
    const store = await openNamed();
    expect(await closeOfEquities(store)).toBe(wanted());
    s3.intercept = refuse;
    const error = await failure(store.get("/close/c/1"));
    expect([error.code, error.details.found]).toEqual(["IO", 403]);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(SECRET);
    await store.close();
  });

  it("refuses objects that were replaced or truncated since, by their ETags", async () => {
    const set = join(folder, "changed.json");
    const own = new S3Store({ bucket: s3.bucket, prefix: "changing" });
    const bytes = (await corpusStore.get("bloscpack-3/array-i4-2d.blp")) ?? new Uint8Array();
    await own.put("a.blp", bytes);
    const args = ["virtualize", `s3://${s3.bucket}/changing/a.blp`, set, "--to", "kerchunk"];
    expect((await runCli(args)).code).toBe(0);
    const store = await openReferences(set, { authorize: ["s3"] });
    const changed = bytes.slice();
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    await own.put("a.blp", changed);
    expect(await failure(store.get("/a/c/0/0"))).toMatchObject({ code: "STALE", details: { field: "etag" } });
    await own.put("a.blp", bytes.slice(0, 100));
    expect(await failure(store.get("/a/c/0/0"))).toMatchObject({ code: "STALE", details: { field: "size" } });
    await own.delete("a.blp");
    expect((await failure(store.get("/a/c/0/0"))).code).toBe("NOT_FOUND");
    await store.close();
  });
});
