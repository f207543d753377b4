/** Guards and references that do not match: what has changed, ended or is elsewhere is refused, and never shown as values. */
import { cp, readFile, stat, truncate, unlink, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { openContainer } from "../../src/node/references.ts";
import { type Container, defaultContainer } from "../../src/references/containers/containers.ts";
import { openReferences, type ReferenceStore } from "../../src/references/kerchunk/open-references.ts";
import { writeKerchunk } from "../../src/references/kerchunk/write-kerchunk.ts";
import { planReferences, type ReferencePlan } from "../../src/references/plan/plan.ts";
import { ScannedObjects } from "../../src/references/plan/scanned-objects.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ObjectInfo } from "../../src/store/types.ts";
import { createCarray } from "../../src/write/bcolz/bcolz-create.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

let folder = "";
let file = "";

beforeAll(async () => {
  folder = temporaryFolder();
  file = join(folder, "array.blp");
});
beforeEach(async () => {
  await cp(join(corpusFolder, "bloscpack-3", "array-i4-2d.blp"), file);
});
async function* plan(options: Parameters<typeof planReferences>[1] = {}): AsyncGenerator<ReferencePlan> {
  yield await planReferences(await open(new FileStore(folder), "array.blp"), options);
}

async function refer(form: "json" | "parquet", guard = true): Promise<ReferenceStore> {
  const store = new MemoryStore();
  const { containers } = await writeKerchunk(plan({ guard }), store, "set", { form, openContainer });
  return openReferences(store, "set", { containers, openContainer });
}

async function codeOf(reading: Promise<unknown>): Promise<string | undefined> {
  const error = await reading.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  return isSuperchunkError(error) ? error.code : undefined;
}

it("writes each reference of a set in JSON, and each guard, on a line of its own [FV-07]", async () => {
  const store = new MemoryStore();
  await writeKerchunk(plan({ guard: true }), store, "set", { form: "json", openContainer });
  const text = new TextDecoder().decode(await store.get("set"));
  const { refs, guards } = JSON.parse(text) as { refs: object; guards: object };
  for (const key of [...Object.keys(refs), ...Object.keys(guards)])
    expect(text.split("\n").filter((line) => line.trimStart().startsWith(JSON.stringify(key)))).toHaveLength(
      1,
    );
});

describe.each([
  ["json", "/c/0/0"],
  ["parquet", "/0.0"],
] as const)("a set as %s", (form, key) => {
  it("gives the bytes of the source while it is unchanged [FV-01] [FV-02]", async () => {
    const store = await refer(form);
    const bytes = await store.get(key);
    const source = await readFile(file);
    expect(bytes?.length).toBeGreaterThan(16);
    expect(source.includes(Buffer.from(bytes ?? []))).toBe(true);
    expect(await store.getRange(key, { offset: 4, length: 4 })).toEqual(bytes?.slice(4, 8));
    expect(await store.getRange(key, { suffixLength: 5 })).toEqual(bytes?.slice(-5));
    expect(await store.get("/c/99/0")).toBeUndefined();
    expect(await store.get("/../x")).toBeUndefined();
  });

  it("refuses a source that was written to, truncated, extended or deleted [FV-06]", async () => {
    const store = await refer(form);
    const later = new Date(Date.now() + 5000);
    await utimes(file, later, later);
    expect(await codeOf(store.get(key))).toBe("STALE");
    await truncate(file, 100);
    expect(await codeOf(store.get(key))).toBe("STALE");
    await unlink(file);
    expect(await codeOf(store.get(key))).toBe("NOT_FOUND");
  });

  it("refuses an older file of the same length, such as a restored backup [FV-06]", async () => {
    const store = await refer(form);
    const { mtimeMs } = await stat(file);
    const within = new Date(Math.floor(mtimeMs / 1000) * 1000);
    await utimes(file, within, within);
    expect((await store.get(key))?.length).toBeGreaterThan(16);
    const earlier = new Date(mtimeMs - 5000);
    await utimes(file, earlier, earlier);
    expect(await codeOf(store.get(key))).toBe("STALE");
  });

  it("names the object, the expected and the found value", async () => {
    const store = await refer(form);
    await writeFile(file, "short");
    const error = await store.get(key).catch((caught: unknown) => caught);
    expect(isSuperchunkError(error, "STALE") && error.details).toMatchObject({ path: file, found: 5 });
  });

  it("without guards reads what is there, but nothing past the object's end", async () => {
    const store = await refer(form, false);
    const later = new Date(Date.now() + 5000);
    await utimes(file, later, later);
    expect((await store.get(key))?.length).toBeGreaterThan(16);
    await truncate(file, 100);
    expect(await codeOf(store.get(key))).toBe("TRUNCATED");
  });
});

it.each(["[]", "5", "null"])(
  "guards that are not an object are damage, not absent: %s [FV-01]",
  async (guards) => {
    const text = `{"version":1,"refs":{"a":["file:///a",0,1]},"guards":${guards}}`;
    const store = new MemoryStore([["set", new TextEncoder().encode(text)]]);
    expect(await codeOf(openReferences(store, "set"))).toBe("BAD_FIELD");
  },
);

describe("a scan", () => {
  it("ends in an error if the source changes meanwhile, and writes nothing", async () => {
    const target = new MemoryStore();
    async function* disturbed(): AsyncGenerator<ReferencePlan> {
      for await (const each of plan()) {
        const [array] = each.arrays;
        if (array === undefined) throw new Error("no array");
        const recheck = array.recheck.bind(array);
        array.recheck = async function* () {
          const later = new Date(Date.now() + 5000);
          await utimes(file, later, later);
          yield* recheck();
        };
        yield each;
      }
    }
    expect(await codeOf(writeKerchunk(disturbed(), target, "set", { form: "json" }))).toBe("STALE");
    expect(await target.stat("set")).toBeUndefined();
  });

  it.each([
    ["size", 100, 101, { size: 101 }],
    ["etag", '"a"', '"b"', { etag: '"b"' }],
    ["last-modified", "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.500Z", { modified: 2500 }],
    ["version", "the object that was there first", "another one in its place", {}],
  ])("says by which %s an object differs from before", async (field, expected, found, change) => {
    const info = { size: 100, version: "1", modified: 1000, etag: '"a"' };
    const store = new MemoryStore();
    let now: ObjectInfo = info;
    store.stat = async () => now;
    const objects = new ScannedObjects(store, { locate: (key) => `https://host.invalid/${key}` });
    // More than are examined together, so that each is compared with its own earlier state.
    for (let i = 0; i < 600; i++) await objects.look(`file ${i}`);
    now = { ...info, version: "2", ...change };
    await expect(objects.recheck().next()).rejects.toMatchObject({
      code: "STALE",
      details: { path: store.describe("file 0"), field, expected, found },
    });
    now = info;
    const seen: string[] = [];
    for await (const { location } of objects.recheck()) seen.push(location);
    expect([seen.length, seen.at(-1)]).toEqual([600, "https://host.invalid/file%20599"]);
  });

  it("reports a missing file as a gap in the archive, and one that vanishes meanwhile as a change", async () => {
    const target = new MemoryStore();
    const path = join(folder, "carray");
    await createCarray(
      new FileStore(path),
      "",
      { dtype: parseDType("<f8", "test"), data: new Uint8Array(800) },
      { chunkLength: 10 },
    );
    async function* disturbed(): AsyncGenerator<ReferencePlan> {
      const each = await planReferences(await open(new FileStore(path), ""), { node: "x" });
      const [array] = each.arrays;
      if (array === undefined) throw new Error("no array");
      const recheck = array.recheck.bind(array);
      array.recheck = async function* () {
        await unlink(join(path, "data", "__4.blp"));
        yield* recheck();
      };
      yield each;
    }
    const writing = (): Promise<unknown> => writeKerchunk(disturbed(), target, "set", { form: "json" });
    const where = { path: join(path, "data", "__4.blp"), found: "nothing" };
    const gone = { ...where, field: "object", expected: expect.stringMatching(/^\d+ bytes$/) };
    await expect(writing()).rejects.toMatchObject({ code: "STALE", details: gone });
    await expect(writing()).rejects.toMatchObject({ code: "INCOMPLETE", details: where });
    expect(await target.stat("set")).toBeUndefined();
  });

  it("refuses objects outside the given containers", async () => {
    const containers = [defaultContainer("file:///elsewhere/")];
    const writing = writeKerchunk(plan(), new MemoryStore(), "set", { form: "json", containers });
    expect(await codeOf(writing)).toBe("UNSAFE_PATH");
  });

  it("does not replace a set unless told to", async () => {
    const target = new MemoryStore();
    await writeKerchunk(plan(), target, "set", { form: "json" });
    expect(await codeOf(writeKerchunk(plan(), target, "set", { form: "json" }))).toBe("CONFLICT");
    await writeKerchunk(plan(), target, "set", { form: "json", overwrite: true });
    expect(await target.stat("set")).toBeDefined();
  });
});

describe("a set from another source", () => {
  async function openSet(
    refs: unknown,
    containers: readonly Container[] = [],
    more: object = {},
  ): Promise<ReferenceStore> {
    const store = new MemoryStore();
    await store.put("set.json", new TextEncoder().encode(JSON.stringify({ version: 1, refs, ...more })));
    return openReferences(store, "set.json", { containers, openContainer });
  }

  it("reaches no file unless its folder is a container [FV-04]", async () => {
    const store = await openSet({ "c/0": [`file://${file}`, 0, 16] });
    expect(await codeOf(store.get("/c/0"))).toBe("UNSAFE_PATH");
    const allowed = await openSet({ "c/0": [`file://${file}`, 0, 16] }, [
      defaultContainer(`file://${folder}/`),
    ]);
    expect(await allowed.get("/c/0")).toEqual(new Uint8Array((await readFile(file)).subarray(0, 16)));
  });

  it("cannot allow itself a folder by including containers", async () => {
    const store = new MemoryStore();
    const text = JSON.stringify({ version: 1, refs: { x: [`file://${file}`, 0, 4] } });
    await store.put("set.json", new TextEncoder().encode(text));
    const container = { name: "local", prefix: `file://${folder}/`, store: "local" };
    const beside = JSON.stringify({ format: "superchunk-containers", version: 1, containers: [container] });
    await store.put("set.containers.json", new TextEncoder().encode(beside));
    const closed = await openReferences(store, "set.json", { openContainer });
    const error = await closed.get("/x").catch((caught: unknown) => caught);
    expect(isSuperchunkError(error, "UNSAFE_PATH") && error.message).toContain('container "local"');
    const opened = await openReferences(store, "set.json", { openContainer, authorize: ["local"] });
    expect((await opened.get("/x"))?.length).toBe(4);
  });

  it("reads a location that the caller allows, by the caller's container or those stored next to the set [FV-04]", async () => {
    const bytes = new Uint8Array((await readFile(file)).subarray(0, 4));
    const refs = { x: [`file://${file}`, 0, 4] };
    /** What is read with containers next to the set, and allowed places; or the error's code. */
    const read = async (kept: readonly object[], allow: readonly string[]): Promise<unknown> => {
      const store = new MemoryStore();
      const put = (key: string, value: object) =>
        store.put(key, new TextEncoder().encode(JSON.stringify(value)));
      await put("set.json", { version: 1, refs });
      if (kept.length > 0)
        await put("set.containers.json", { format: "superchunk-containers", version: 1, containers: kept });
      const set = await openReferences(store, "set.json", { openContainer, allow });
      return set.get("/x").catch((error: unknown) => (isSuperchunkError(error) ? error.code : error));
    };
    const place = `file://${folder}/`;
    const local = { name: "local", prefix: place, store: "local" };
    const above = `file://${dirname(folder)}/`;
    expect(await read([], [place])).toEqual(bytes);
    expect(await read([], [place.slice(0, -1)])).toEqual(bytes);
    expect(await read([local], [place])).toEqual(bytes);
    expect(await read([local], [above])).toEqual(bytes);
    // The container is wider than what is allowed of it.
    expect(await read([{ ...local, prefix: above }], [place])).toEqual(bytes);
    // Not by a name with the same beginning, and not if the set's own containers say that the place has moved.
    expect(await read([], [`${place.slice(0, -2)}/`])).toBe("UNSAFE_PATH");
    expect(await read([{ ...local, location: "file:///elsewhere/" }], [place])).toBe("UNSAFE_PATH");
    expect(await read([local], [])).toBe("UNSAFE_PATH");
  });

  it("reads no location from a server that its own containers name, unless the caller names it", async () => {
    const store = new MemoryStore();
    const put = (key: string, value: object) =>
      store.put(key, new TextEncoder().encode(JSON.stringify(value)));
    await put("set.json", { version: 1, refs: { x: ["s3://bucket/a", 0, 4] } });
    const evil = { name: "s3", prefix: "s3://bucket/", store: "s3", endpoint: "http://evil.invalid" };
    await put("set.containers.json", { format: "superchunk-containers", version: 1, containers: [evil] });
    const asked: (string | undefined)[] = [];
    const spy: typeof openContainer = (container) => {
      asked.push(container.endpoint);
      return new MemoryStore();
    };
    const set = await openReferences(store, "set.json", { openContainer: spy, allow: ["s3://bucket/"] });
    const named = "s3://bucket/?endpoint=http://evil.invalid";
    await expect(set.get("/x")).rejects.toMatchObject({
      code: "UNSAFE_PATH",
      message: expect.stringContaining(`{allow: "${named}"}`),
    });
    expect(asked).toEqual([]);
    const again = await openReferences(store, "set.json", { openContainer: spy, allow: [named] });
    await expect(again.get("/x")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(asked).toEqual([evil.endpoint]);
  });

  it("asks for the credentials that a container names", async () => {
    const container: Container = {
      name: "private",
      prefix: "https://host.invalid/",
      store: "http",
      credentials: "mine",
    };
    const store = await openSet({ x: ["https://host.invalid/a", 0, 4] }, [container]);
    const error = await store.get("/x").catch((caught: unknown) => caught);
    expect(isSuperchunkError(error, "BAD_ARGUMENT") && error.message).toContain('"mine"');
  });

  it.each<[string, unknown, string]>([
    ["a negative offset", { x: ["file:///a", -1, 4] }, "BAD_FIELD"],
    ["a length that is not a number", { x: ["file:///a", 0, "4"] }, "BAD_FIELD"],
    ["two members", { x: ["file:///a", 0] }, "BAD_FIELD"],
    ["a number for an address", { x: [5, 0, 4] }, "BAD_FIELD"],
    ["an address without a scheme", { x: ["/etc/passwd", 0, 4] }, "BAD_FIELD"],
    ["an inlined chunk that is not base64", { x: "base64:&&&" }, "BAD_FIELD"],
    ["a part that leads out", { x: ["file:///a/../b", 0, 4] }, "UNSAFE_PATH"],
  ])("is refused if a reference has %s", async (_, refs, code) => {
    const store = await openSet(refs, [defaultContainer("file:///a/")]);
    expect(await codeOf(store.get("/x"))).toBe(code);
  });

  it("is refused with templates, and if it is not a set at all", async () => {
    expect(await codeOf(openSet({}, [], { templates: { u: "file:///" } }))).toBe("UNSUPPORTED");
    expect(await codeOf(openSet([]))).toBe("BAD_FIELD");
    const store = new MemoryStore();
    await store.put("set.json", new TextEncoder().encode("{"));
    expect(await codeOf(openReferences(store, "set.json"))).toBe("BAD_FIELD");
    expect(await codeOf(openReferences(store, "nothing"))).toBe("NOT_FOUND");
  });
});
