/** Buckets of Google Cloud Storage and containers of Azure keep the contract of stores, as S3 does, through their own clients. */
import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { convert } from "../../../src/convert/run/convert.ts";
import { create as createIn } from "../../../src/edit/edit.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import { parseBucketAddress } from "../../../src/node/buckets/address.ts";
import { azureProvider } from "../../../src/node/buckets/azure.ts";
import { BucketStore } from "../../../src/node/buckets/bucket-store.ts";
import { gcsProvider } from "../../../src/node/buckets/gcs.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { open, openArray, slice } from "../../../src/node/index.ts";
import { isBucketAddress } from "../../../src/node/locate.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { runCli } from "../../cli/harness.ts";
import { keysOf } from "../../convert/to-zarr/read-back.ts";
import { findFixture } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { describePutting, describeReading, OBJECTS } from "../../store/store-contract.ts";
import { startAzure, startGcs, type TestBucket } from "./servers.ts";

const KEY = Buffer.from("top-5ecret").toString("base64");
const VARIABLES = { AZURE_STORAGE_ACCOUNT: "account", AZURE_STORAGE_KEY: KEY };
let prefixes = 0;
let before: NodeJS.ProcessEnv = {};

beforeAll(() => {
  before = { ...process.env };
  Object.assign(process.env, VARIABLES);
});
afterAll(() => {
  for (const name of Object.keys(VARIABLES)) delete process.env[name];
  Object.assign(process.env, before);
});

describe.each([
  ["gs", startGcs, gcsProvider],
  ["az", startAzure, azureProvider],
] as const)("%s://", (scheme, start, provider) => {
  let server: TestBucket;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.close());
  beforeEach(() => {
    server.intercept = () => false;
  });

  const makeStore = (prefix = `p${prefixes++}`): BucketStore => {
    const { endpoint, bucket } = server;
    return new BucketStore(provider({ bucket, endpoint }), { bucket, prefix });
  };
  const address = (key: string): string =>
    `${scheme}://${server.bucket}/${key}?endpoint=${encodeURIComponent(server.endpoint)}`;

  describeReading("the store", async () => {
    const store = makeStore();
    for (const [key, bytes] of OBJECTS) await store.put(key, bytes);
    return { store, lists: true };
  });
  describePutting("the store", async () => ({ store: makeStore() }));

  it("uploads large objects in parts, byte for byte, with one winner", async () => {
    const pattern = Uint8Array.from({ length: 251 }, (_, i) => (i * 31) % 251);
    const bytes = new Uint8Array(Buffer.alloc((17 << 20) + 5, pattern));
    const writers = [makeStore("race"), makeStore("race")];
    const results = await Promise.allSettled(
      writers.map((store) => store.put("a", bytes, { ifAbsent: true })),
    );
    expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    for (const result of results)
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
    expect(Buffer.compare((await makeStore("race").get("a")) ?? new Uint8Array(), bytes)).toBe(0);
  });

  it("recognizes its own success if its answer was lost", async () => {
    const store = makeStore("lost");
    let lost = 0;
    server.intercept = (request, response) => {
      if (/^(?:PUT|POST)$/.test(request.method ?? "") && lost++ === 0)
        response.writeHead = (() => response.destroy()) as never;
      return false;
    };
    expect((await store.put("a", Uint8Array.of(1, 2), { ifAbsent: true })).size).toBe(2);
    expect(lost).toBeGreaterThan(1);
    await expect(store.put("a", Uint8Array.of(3), { ifAbsent: true })).rejects.toMatchObject({
      code: "CONFLICT",
    });
  }, 20_000);

  it("refuses to mix two versions of an object", async () => {
    const [reader, writer] = [makeStore("mix"), makeStore("mix")];
    await writer.put("a", new Uint8Array(100).fill(1));
    expect(await reader.getRange("a", { offset: 0, length: 10 })).toEqual(new Uint8Array(10).fill(1));
    await writer.put("a", new Uint8Array(100).fill(2));
    await expect(reader.getRange("a", { offset: 10, length: 10 })).rejects.toMatchObject({ code: "STALE" });
  });

  it("follows listings over many pages", async () => {
    const store = makeStore("pages");
    for (let i = 0; i < 25; i++) await store.put(`d/${i}`, Uint8Array.of(i));
    const names: number[] = [];
    for await (const { name, size } of store.list("d")) names.push(Number(name) + (size ?? 0) - 1);
    expect(names.sort((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, i) => i));
  });

  it.each([
    [403, "AuthorizationFailure", "IO", "access denied by http://127.0.0.1"],
    [400, "BadRequest", "IO", "refused"],
  ])("reports status %d, and never shows credentials", async (status, code, ours, text) => {
    server.intercept = (_, response) => {
      response.writeHead(status, { "x-ms-error-code": code }).end(`${KEY} top-5ecret`);
      return true;
    };
    const failure = await makeStore()
      .get("a")
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: ours, message: expect.stringContaining(text) as string });
    expect(inspect(failure, { depth: 10, showHidden: true })).not.toMatch(/5ecret|dG9wLTVlY3JldA/);
  });

  it("says that a bucket does not exist", async () => {
    const { endpoint } = server;
    const missing = new BucketStore(provider({ bucket: "none", endpoint }), { bucket: "none" });
    const holder = scheme === "gs" ? "bucket" : "container";
    for (const failing of [() => missing.put("a", Uint8Array.of(1)), () => keysOf(missing)])
      await expect(failing()).rejects.toMatchObject({
        code: "NOT_FOUND",
        message: expect.stringContaining(`no such ${holder} at ${endpoint}`) as string,
      });
  });

  it("the command converts, lists, reads and verifies there, and refuses a second conversion", async () => {
    const fixture = "ctable/bcolz-daily-equities";
    const { file } = findFixture(fixture);
    const zarr = address("out/daily.zarr");
    const made = await runCli(["convert", file, zarr, "--verify", "--json"]);
    expect([made.err, made.code]).toEqual(["", 0]);
    const listed = await runCli(["ls", address("out"), "--json"]);
    expect((JSON.parse(listed.out) as { path: string }[]).map(({ path }) => path)).toContain(
      `${scheme}://${server.bucket}/out/daily.zarr/close`,
    );
    const values = ["--column", "close", "--format", "csv", "--slice", "0:20"];
    const [there, here] = [await runCli(["cat", zarr, ...values]), await runCli(["cat", file, ...values])];
    expect([there.code, there.out]).toEqual([0, here.out]);
    expect((await runCli(["verify", zarr])).code).toBe(0);
    const again = await runCli(["convert", file, zarr]);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("exists")]);
    const shown = again.err + made.out;
    expect(shown).not.toContain("5ecret");
  });

  it("arrays are created, appended to and shrunk by their address", async () => {
    const array = await createArray(address("made/array"), { dtype: "<i4", chunkLength: 10 });
    await array.append(Int32Array.from({ length: 25 }, (_, i) => i));
    await array.close();
    const again = await openWritable(address("made/array"));
    await again.resize(12);
    await again.close();
    const archive = await open(address("made/array"));
    if (archive.kind !== "array") throw new Error("no array");
    const { data } = (await archive.get(null)) as { data: Int32Array };
    expect(Array.from(data)).toEqual(Array.from({ length: 12 }, (_, i) => i));
    await archive.close();
  });

  it("references into it are read by its client once the caller allows the bucket", async () => {
    const [server1, set] = [server, `${await temporaryFolder()}/set.json`];
    const fixture = findFixture("bloscpack-3/array-i4-2d.blp");
    const store = makeStore("data");
    const { readFile } = await import("node:fs/promises");
    await store.put("a.blp", new Uint8Array(await readFile(fixture.file)));
    const name = scheme === "gs" ? "STORAGE_EMULATOR_HOST" : "AZURE_STORAGE_ENDPOINT";
    process.env[name] = server1.endpoint;
    try {
      const bucket = `${scheme}://${server1.bucket}`;
      const written = await runCli(["virtualize", `${bucket}/data/a.blp`, set, "--to", "kerchunk"]);
      expect([written.code, written.out]).toEqual([0, expect.stringContaining(`"${scheme}"`)]);
      const cat = (path: string, ...more: string[]) =>
        runCli(["cat", path, "--format", "csv", "--slice", "0:3", ...more]);
      const read = await cat(`${set}/a`, "--allow", `${bucket}/`);
      expect([read.code, read.out]).toEqual([0, (await cat(fixture.file)).out]);
      const refused = await cat(`${set}/a`);
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("--allow")]);
    } finally {
      delete process.env[name];
    }
  });

  it("holds the chunk file of a set of references beside the set, where readers find it", async () => {
    const values = Float64Array.from({ length: 262_000 }, (_, i) => Math.sin(i * i));
    const array = await createArray(address("chunks/big"), { dtype: "<f8", chunkLength: 131_072 });
    await array.append(values);
    await array.close();
    const name = scheme === "gs" ? "STORAGE_EMULATOR_HOST" : "AZURE_STORAGE_ENDPOINT";
    process.env[name] = server.endpoint;
    try {
      const bucket = `${scheme}://${server.bucket}`;
      const set = `${bucket}/chunks/sets/big.json`;
      const { code, out, err } = await runCli(["virtualize", `${bucket}/chunks/big`, set, "--json"]);
      expect([code, err]).toEqual([0, ""]);
      const { chunkFiles } = JSON.parse(out) as { readonly chunkFiles: readonly string[] };
      expect(chunkFiles).toEqual([expect.stringMatching(/^big\.[0-9a-f]{32}\.chunks$/)]);
      const text = server.objects.get("chunks/sets/big.json")?.bytes.toString();
      expect(text).toContain(`["${bucket}/chunks/sets/${chunkFiles[0]}",0,`);
      const read = await openArray(`${set}/big`, { allow: [`${bucket}/`], dtype: "float64" });
      expect((await read.get([slice(261_990, 262_000)])).data).toEqual(values.slice(-10));
      await read.close();
      // A set that does not need the file any more drops it.
      const small = await createArray(address("chunks/small"), { dtype: "<f8" });
      await small.append(values.subarray(0, 10));
      await small.close();
      expect((await runCli(["virtualize", `${bucket}/chunks/small`, set, "--overwrite"])).code).toBe(0);
      expect(server.objects.has(`chunks/sets/${chunkFiles[0]}`)).toBe(false);
    } finally {
      delete process.env[name];
    }
  });
});

describe("addresses", () => {
  it("give bucket, key and settings", () => {
    expect(parseBucketAddress("az://box/a/b/?anonymous&endpoint=https://x.blob.core.windows.net")).toEqual({
      scheme: "az",
      bucket: "box",
      prefix: "a/b",
      region: undefined,
      anonymous: true,
      endpoint: "https://x.blob.core.windows.net",
    });
    expect(parseBucketAddress("GS://my_bucket.example")).toMatchObject({
      scheme: "gs",
      bucket: "my_bucket.example",
    });
    expect(["gs://a", "az://a", "s3://a", "gcs://a", "/gs:/a"].map(isBucketAddress)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
  });

  it.each([
    "gs://",
    "gs://bucket/a?region=eu",
    "az://box/a?sv=2024&sig=secret",
    "az://box_under/a",
    "az://user:secret@box/a",
    "gs://bucket/a/../b",
    "gs://bucket/a?endpoint=http://user:secret@x",
  ])("%s is refused, and its secrets are not repeated", (address) => {
    const refused = (): unknown => parseBucketAddress(address);
    expect(refused).toThrow(expect.objectContaining({ code: "BAD_ARGUMENT" }) as Error);
    expect(refused).not.toThrow(/secret/);
  });

  it("of Azure need an account", async () => {
    delete process.env["AZURE_STORAGE_ACCOUNT"];
    try {
      await expect(open("az://box/a")).rejects.toMatchObject({
        code: "BAD_ARGUMENT",
        message: expect.stringContaining("AZURE_STORAGE_ACCOUNT") as string,
      });
    } finally {
      process.env["AZURE_STORAGE_ACCOUNT"] = "account";
    }
  });

  it("of Azure without credentials name the package that finds them", async () => {
    delete process.env["AZURE_STORAGE_KEY"];
    try {
      await expect(open("az://box/a")).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining("npm install @azure/identity") as string,
      });
    } finally {
      process.env["AZURE_STORAGE_KEY"] = KEY;
    }
  });
});

it("a client that is not installed is an error about its address, also for the destination of a conversion", async () => {
  const connect = () => Promise.reject(new SuperchunkError("UNSUPPORTED", "it is not installed"));
  const provider = { ...azureProvider({ bucket: "bucket" }), scheme: "s3", connect };
  const source = new MemoryStore();
  await (await createIn(source, "a", { dtype: "<i4", data: [1] })).close();
  const store = new BucketStore(provider, { bucket: "bucket", prefix: "made" });
  await expect(
    convert({ store: source, path: "a" }, { store, path: "x.npy" }, { to: "npy" }),
  ).rejects.toThrow("s3://bucket/made: it is not installed");
  await expect(store.get("b")).rejects.toThrow("s3://bucket/made: it is not installed");
});
