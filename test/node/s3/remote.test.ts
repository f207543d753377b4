/** Archives over a network: what reading them costs, and the command on addresses of HTTP and S3. */

import { readFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../../src/archive/kinds/types.ts";
import { parseBucketAddress } from "../../../src/node/buckets/address.ts";
import { create as createAt, edit as openWritable } from "../../../src/node/edit.ts";
import { locateTarget, open } from "../../../src/node/index.ts";
import { HttpStore } from "../../../src/store/http.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { withHeads } from "../../../src/store/wrappers/heads.ts";
import { createArray } from "../../../src/write/array/create.ts";
import { convert } from "../../../src/zarr.ts";
import { loadFolder } from "../../archive/memory-archive.ts";
import { runCli } from "../../cli/harness.ts";
import { putBloscpack } from "../../convert/to-zarr/make-archive.ts";
import { corpusStore, keysOf, openFixture, sha256 } from "../../convert/to-zarr/read-back.ts";
import { type ArrayFixture, corpusFolder, findFixture, loadArchives } from "../../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../../store/server.ts";
import { setEnvironment, startS3, type TestS3 } from "./server.ts";

let s3: TestS3;
let restoreEnvironment: () => void;

beforeAll(async () => {
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3);
  for (const key of await keysOf(corpusStore))
    s3.fill(`corpus/${key}`, (await corpusStore.get(key)) ?? new Uint8Array());
});
afterAll(async () => {
  restoreEnvironment();
  await s3.close();
});

describe("over HTTP", () => {
  let server: TestServer;
  const values = new Uint8Array(Float64Array.from({ length: 400_000 }, (_, i) => Math.sin(i)).buffer);

  beforeEach(async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "file.blp", values.slice(0, 80_000), 8000, { dtype: "<f8", shape: [10_000] });
    const array = await createArray(store, "array", {
      dtype: "<f8",
      chunkLength: 40_000,
      shape: [0],
      superchunk: { nchunks: 4 },
    } as never);
    await array.append(values as never);
    await array.close();
    const entries: [string, Uint8Array][] = [];
    for (const key of await keysOf(store)) entries.push([key, (await store.get(key)) ?? new Uint8Array()]);
    server = await serveObjects(entries);
  });
  afterEach(() => server.close());

  const counted = async (work: () => Promise<unknown>): Promise<number> => {
    server.log.length = 0;
    await work();
    return server.log.length;
  };

  it("opening a file takes one request if it has offsets, and at most three if it has none", async () => {
    server.objects.set(
      "offsets.blp",
      new Uint8Array(await readFile(`${corpusFolder}/bloscpack-3/array-f8.blp`)),
    );
    expect(await counted(() => open(`${server.url}/offsets.blp`))).toBe(1);
    expect(await counted(() => open(`${server.url}/file.blp`))).toBeLessThanOrEqual(3);
  });

  it("opening an array takes three requests, one for each of its meta files", async () => {
    const opening = await counted(() => open(`${server.url}/array`));
    expect([opening, server.log]).toEqual([3, server.log.filter((line) => line.includes("/meta/"))]);
  });

  it("an element takes three requests in a new superchunk, and two in one seen before", async () => {
    const archive = (await open(`${server.url}/array`)) as ArrayArchive;
    const element = (index: number) =>
      counted(async () => {
        expect(await archive.get([index])).toBe(Math.sin(index));
      });
    expect(await element(200_123)).toBeLessThanOrEqual(3);
    expect(await element(200_124)).toBeLessThanOrEqual(2);
    expect(await element(300_001)).toBeLessThanOrEqual(2);
    expect(await element(5)).toBeLessThanOrEqual(3);
  });

  it("retries if the server is slow, busy or breaks off, and gets the same values", async () => {
    const fixture = findFixture("carray/bcolz-f8-chunks") as ArrayFixture;
    const { files } = await loadFolder(`${corpusFolder}/carray/bcolz-f8-chunks`);
    const failing = await serveObjects(files);
    let asked = 0;
    failing.intercept = (_, response) => {
      asked++;
      if (asked % 3 === 0) {
        response.writeHead(503, { "retry-after": "0" }).end();
        return true;
      }
      if (asked % 7 === 0) {
        response.destroy();
        return true;
      }
      return false;
    };
    try {
      const archive = await open(failing.url);
      if (archive.kind !== "array") throw new Error("not an array");
      expect(sha256(await archive.getBytes(null))).toBe(fixture.sha256);
      expect(asked).toBeGreaterThan(10);
    } finally {
      await failing.close();
    }
  });

  it("waits for a server that sends a little at a time, and sometimes replies that it gets too many requests", async () => {
    const archive = (await open(`${server.url}/array`)) as ArrayArchive;
    let asked = 0;
    server.intercept = (request, response) => {
      asked++;
      if (asked % 2 === 1) {
        response.writeHead(429, { "retry-after": "0" }).end();
        return true;
      }
      const key = decodeURIComponent(request.url ?? "").replace("/base dir/", "");
      const bytes = server.objects.get(key);
      if (bytes === undefined) return false;
      const [, first = "0", last = ""] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
      const end = last === "" ? bytes.length : Math.min(bytes.length, Number(last) + 1);
      const range = `bytes ${first}-${end - 1}/${bytes.length}`;
      const isPart = request.headers.range !== undefined;
      response.writeHead(isPart ? 206 : 200, isPart ? { "content-range": range } : {});
      let at = Number(first);
      const drip = (): void => {
        const from = at;
        at = Math.min(end, from + 8192);
        if (from === end) response.end();
        else response.write(bytes.subarray(from, at), () => setImmediate(drip));
      };
      drip();
      return true;
    };
    expect(sha256(await archive.getBytes([{ start: 100_000, stop: 260_000, step: 1 }]))).toBe(
      sha256(values.subarray(800_000, 2_080_000)),
    );
    expect(asked).toBeGreaterThan(4);
  });

  it("refuses an object that changed during a read, and reads the new one when asked again", async () => {
    const store = withHeads(new HttpStore(server.url));
    const size = server.objects.get("file.blp")?.length ?? 0;
    expect((await store.getRange("file.blp", { offset: 0, length: 4 }))?.length).toBe(4);
    server.objects.set("file.blp", new Uint8Array(size + 1));
    expect((await store.stat("file.blp"))?.size).toBe(size + 1);
    await expect(store.getRange("file.blp", { offset: 70_000, length: 4 })).rejects.toMatchObject({
      code: "STALE",
      message: expect.stringMatching(/its version was \S+, and is \S+; open it again$/),
      details: {
        path: `${server.url}/file.blp`,
        field: "version",
        expected: expect.any(String),
        found: expect.any(String),
      },
    });
  });
});

describe("in S3", () => {
  it.each([
    "bloscpack-3/array-f8.blp",
    "blz-superchunk/i8-2d-crc32",
    "carray/bcolz-f8-chunks",
    "carray/bzl-f4-3d",
  ])("%s has the values that its producer wrote", async (path) => {
    const archive = await open(`s3://${s3.bucket}/corpus/${path}`);
    if (archive.kind !== "array") throw new Error("not an array");
    expect(sha256(await archive.getBytes(null))).toBe((findFixture(path) as ArrayFixture).sha256);
    await archive.close();
  });

  it("reads a public bucket without credentials, at an endpoint given in its address", async () => {
    delete process.env["AWS_ENDPOINT_URL_S3"];
    try {
      const address = `s3://${s3.bucket}/corpus/bloscpack-3/array-f8.blp?anonymous=true&endpoint=${encodeURIComponent(s3.endpoint)}`;
      const archive = await open(address);
      expect(archive.kind).toBe("array");
      await archive.close();
    } finally {
      process.env["AWS_ENDPOINT_URL_S3"] = s3.endpoint;
    }
  });

  it("the command reads Zarr in buckets: trees, arrays inside hierarchies, missing chunks", async () => {
    const root = `s3://${s3.bucket}/corpus/zarr3-transformer`;
    const listed = await runCli(["ls", root, "--json"]);
    expect(listed.code).toBe(0);
    expect((JSON.parse(listed.out) as { path: string }[]).map(({ path }) => path)).toContain(
      `${root}/u2-dot-group/grp/sub/arr`,
    );
    for (const [path, shape] of [
      ["zarr3-transformer/u2-dot-group/grp/sub/arr", [30, 30]],
      ["zarr3-sharded/zp-i4-2d-gzip-start", [50, 30]],
    ] as const) {
      const address = `s3://${s3.bucket}/corpus/${path}`;
      const facts = await runCli(["info", address, "--json"]);
      expect(JSON.parse(facts.out)).toMatchObject({ kind: "array", shape });
      expect((await runCli(["verify", address])).code).toBe(0);
    }
    const missing = await runCli(["chunks", `${root}/f8-2d-missing`, "--missing", "--json"]);
    expect(JSON.parse(missing.out)).toHaveLength(3);
  });

  it("the command reads archives, and lists folders of them", async () => {
    const info = await runCli(["info", `s3://${s3.bucket}/corpus/ctable/bcolz-daily-equities`]);
    expect([info.code, info.err]).toEqual([0, ""]);
    const found = await runCli(["ls", `s3://${s3.bucket}/corpus/carray`, "--json"]);
    const listed = JSON.parse(found.out) as { path: string }[];
    expect(listed.map(({ path }) => path)).toEqual(
      loadArchives()
        .filter(({ path }) => path.startsWith("carray/"))
        .map(({ path }) => `s3://${s3.bucket}/corpus/${path}`)
        .sort(),
    );
    const file = "bloscpack-3/array-f8.blp";
    const values = ["--format", "csv", "--slice", "0:10"];
    const cat = await runCli(["cat", `s3://${s3.bucket}/corpus/${file}`, ...values]);
    expect(cat).toEqual(await runCli(["cat", findFixture(file).file, ...values]));
    // A line of names, and ten of values.
    expect([cat.code, cat.out.trimEnd().split("\n").length]).toEqual([0, 11]);
    const missing = await runCli(["info", `s3://${s3.bucket}/corpus/nothing`]);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("no such file or folder")]);
  });

  it("the command converts from one bucket into another, as between folders", async () => {
    const path = "carray/bcolz-f8-chunks";
    const result = await runCli([
      "convert",
      `s3://${s3.bucket}/corpus/${path}`,
      `s3://${s3.bucket}/out/one.zarr`,
      "--verify",
      "--json",
    ]);
    expect([result.err, result.code]).toEqual(["", 0]);
    const local = new MemoryStore();
    await convert(await openFixture(path), { store: local });
    const { store } = locateTarget(`s3://${s3.bucket}/out/one.zarr`);
    expect(await keysOf(store)).toEqual(await keysOf(local));
    for (const key of await keysOf(local))
      expect([key, await store.get(key)]).toEqual([key, await local.get(key)]);
    const again = await runCli([
      "convert",
      `s3://${s3.bucket}/corpus/${path}`,
      `s3://${s3.bucket}/out/one.zarr`,
    ]);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("exists")]);
    const tree = await runCli([
      "convert",
      `s3://${s3.bucket}/corpus/ctable`,
      `s3://${s3.bucket}/out/tree.zarr`,
      "--json",
    ]);
    expect((JSON.parse(tree.out) as { converted: number }).converted).toBe(4);
    const inside = await runCli(["convert", `s3://${s3.bucket}/corpus`, `s3://${s3.bucket}/corpus/out.zarr`]);
    expect([inside.code, inside.err]).toEqual([1, expect.stringContaining("is inside")]);
  });

  it("the command refuses to replace an object before it reads the source", async () => {
    const convert = [
      "convert",
      `s3://${s3.bucket}/corpus/carray/bcolz-f8-chunks`,
      `s3://${s3.bucket}/out/a.npy`,
    ];
    expect((await runCli(convert)).code).toBe(0);
    s3.log.length = 0;
    const again = await runCli(convert);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("a.npy: the destination exists")]);
    expect(s3.log.filter((line) => !/^(?:GET|HEAD) /.test(line) || line.includes("/data/"))).toEqual([]);
    expect((await runCli([...convert, "--overwrite"])).code).toBe(0);
  });

  it("arrays are created and opened for writing by their address", async () => {
    const address = `s3://${s3.bucket}/made/array`;
    const array = await createAt(address, { dtype: "<i4", chunkLength: 10 });
    await array.append(Int32Array.from({ length: 25 }, (_, i) => i));
    await array.close();
    const again = await openWritable(address);
    await again.resize(12);
    await again.close();
    const { data } = (await ((await open(address)) as ArrayArchive).get(null)) as { data: Int32Array };
    expect(Array.from(data)).toEqual(Array.from({ length: 12 }, (_, i) => i));
  });

  it("the addresses of the corpus were read with range requests, not whole", async () => {
    s3.log.length = 0;
    const archive = await open(`s3://${s3.bucket}/corpus/bloscpack-3/array-f8.blp`);
    await archive.close();
    expect(s3.log.length).toBeLessThanOrEqual(3);
    expect(s3.log.every((line) => line.includes("bytes=") || line.startsWith("HEAD"))).toBe(true);
    expect((await readFile(`${corpusFolder}/bloscpack-3/array-f8.blp`)).length).toBeGreaterThan(0);
  });
});

describe("addresses", () => {
  it("give bucket, key, endpoint, region, and whether requests are signed", () => {
    expect(
      parseBucketAddress("s3://bucket/a/b/?region=eu-west-1&anonymous&endpoint=http://127.0.0.1:9000"),
    ).toEqual({
      scheme: "s3",
      bucket: "bucket",
      prefix: "a/b",
      region: "eu-west-1",
      anonymous: true,
      endpoint: "http://127.0.0.1:9000",
    });
    expect(parseBucketAddress("s3://bucket")).toMatchObject({
      bucket: "bucket",
      prefix: "",
      anonymous: false,
    });
  });

  it.each([
    ["s3://", "BAD_ARGUMENT"],
    ["s3://key:secret@bucket/a", "BAD_ARGUMENT"],
    ["s3://bucket/a?secret=1", "BAD_ARGUMENT"],
    ["s3://bucket/a?endpoint=ftp://x", "BAD_ARGUMENT"],
    ["s3://bucket/a?endpoint=http://user:secret@x", "BAD_ARGUMENT"],
    ["s3://bucket/a/../b", "BAD_ARGUMENT"],
    ["s3://bucket//a", "BAD_ARGUMENT"],
  ])("%s is refused, and its secrets are not repeated", (address, code) => {
    let failure: unknown;
    try {
      parseBucketAddress(address);
    } catch (error) {
      failure = error;
    }
    expect(failure).toMatchObject({ code });
    expect(String(failure)).not.toContain("secret@");
    expect(String(failure)).not.toContain("user:");
  });

  it("of unknown schemes are refused by name", async () => {
    await expect(open("gopher://x/a")).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("gopher") as string,
    });
    expect(() => locateTarget("https://x/a")).toThrow(/nothing can be written/);
  });
});
