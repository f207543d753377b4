/** A set of references, or a file of containers, with a wrong member: the error names the file and the member. */
import { setImmediate } from "node:timers/promises";
import { parquetWriteBuffer } from "hyparquet-writer";
import { expect, test } from "vitest";
import { parseContainers } from "../../src/references/containers/containers.ts";
import { openKerchunkParquet, parseKerchunkJson } from "../../src/references/kerchunk/kerchunk-index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { StoreOptions } from "../../src/store/types.ts";

const text = (value: string): object => ({ message: expect.stringContaining(value) as string });

test.each([
  ["{", "BAD_FIELD", "this is not JSON, so not a set of references"],
  ["[]", "BAD_FIELD", "the set of references is not an object"],
  ['{"refs": 5}', "BAD_FIELD", "refs is not an object"],
  ['{"version": 1, "refs": {}, "templates": {}}', "UNSUPPORTED", "write them out with fsspec first"],
  ['{"version": 2, "refs": {}}', "UNSUPPORTED", "references of version 2 are not read"],
  ['{"version": 1, "refs": {}, "guards": []}', "BAD_FIELD", "guards is not an object"],
])("%s is %s", (set, code, message) => {
  expect(() => parseKerchunkJson(set, "set.json")).toThrow(
    expect.objectContaining({
      code,
      details: expect.objectContaining({ path: "set.json" }),
      ...text(message),
    }),
  );
});

test.each([
  [5, "a reference is neither text nor [url] nor [url, offset, length]"],
  [["a", 0], "a reference is neither text nor [url] nor [url, offset, length]"],
  [[5], "a reference has no address"],
  [["file:///a", -1, 8], "a count is not a whole number, 0 or more"],
  [["file:///guarded", 0, 8], "a guard is not a list"],
])("the reference %j is BAD_FIELD", async (reference, message) => {
  const set = { version: 1, refs: { "x/0": reference }, guards: { "file:///guarded": 5 } };
  const found = parseKerchunkJson(JSON.stringify(set), "set.json").find("x/0");
  await expect(found).rejects.toMatchObject({ code: "BAD_FIELD", ...text(message) });
});

const ZARRAY = { shape: [4], chunks: [1] };
async function parquetSet(metadata: string, files: Record<string, unknown[]> = {}) {
  const store = new MemoryStore();
  await store.put("set/.zmetadata", new TextEncoder().encode(metadata));
  for (const [name, paths] of Object.entries(files)) {
    const columnData = [
      { name: "path", data: paths, type: "STRING" as const },
      { name: "offset", data: BigInt64Array.from(paths, () => 0n), type: "INT64" as const },
      { name: "size", data: BigInt64Array.from(paths, () => -8n), type: "INT64" as const },
      { name: "object_size", data: BigInt64Array.from(paths, () => -1n), type: "INT64" as const },
    ];
    await store.put(`set/${name}`, new Uint8Array(parquetWriteBuffer({ columnData })));
  }
  return openKerchunkParquet(store, "set");
}

test.each([
  ["{", "this is not JSON"],
  ["null", "metadata is not an object"],
  ['{"metadata": []}', "metadata is not an object"],
  ['{"metadata": {}}', "a count is not a whole number"],
  ['{"metadata": {}, "record_size": 0}', "record_size is 0"],
])("a .zmetadata of %s is BAD_FIELD", async (metadata, message) => {
  const opening = parquetSet(metadata);
  await expect(opening).rejects.toMatchObject({
    details: { path: "memory:set/.zmetadata" },
    ...text(message),
  });
});

test("files of rows that are missing, short or wrong are named", async () => {
  const metadata = JSON.stringify({ metadata: { "x/.zarray": ZARRAY }, record_size: 2 });
  const set = await parquetSet(metadata, { "x/refs.0.parq": ["file:///a"] });
  await expect(set.find("x/0")).rejects.toMatchObject({ code: "BAD_FIELD", details: { field: "size" } });
  await expect(set.find("x/1")).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { path: "memory:set/x/refs.0.parq", field: "rows" },
  });
  await expect(set.find("x/2")).rejects.toMatchObject({
    code: "INCOMPLETE",
    details: { path: "memory:set/x/refs.1.parq" },
  });
});

/** A file of rows. */
function rows(paths: (string | null)[], isGuarded: boolean): Uint8Array {
  const counts = (value: bigint) => ({
    ...{ data: BigInt64Array.from(paths, () => value), type: "INT64" as const },
  });
  const columnData = [
    { name: "path", data: paths, type: "STRING" as const },
    { name: "offset", ...counts(0n) },
    { name: "size", ...counts(8n) },
    ...(isGuarded ? [{ name: "object_size", ...counts(-1n) }] : []),
  ];
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}

test("[FV-02] kerchunk leaves out files without a reference: their chunks are not stored", async () => {
  const metadata = JSON.stringify({ metadata: { "x/.zarray": ZARRAY, "y/.zarray": ZARRAY }, record_size: 2 });
  const store = new MemoryStore([["set/.zmetadata", new TextEncoder().encode(metadata)]]);
  await store.put("set/x/refs.1.parq", rows(["file:///a", null], false));
  const set = await openKerchunkParquet(store, "set");
  expect(await set.find("x/2")).toMatchObject({ location: "file:///a" });
  for (const absent of ["x/0", "x/1", "x/3", "y/0", "y/3"])
    expect(await set.find(absent), absent).toBeUndefined();
  const locations: string[] = [];
  for await (const location of set.locations()) locations.push(location);
  expect(locations).toEqual(["file:///a"]);
  // superchunk writes all files, so that a lost one is noticed.
  await store.put("set/x/refs.1.parq", rows(["file:///a", null], true));
  const own = await openKerchunkParquet(store, "set");
  await expect(own.find("x/0")).rejects.toMatchObject({ code: "INCOMPLETE" });
});

/** Answers late, and counts the requests. */
class SlowStore extends MemoryStore {
  asked = 0;
  override async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    this.asked++;
    await setImmediate();
    options?.signal?.throwIfAborted();
    return super.get(key);
  }
}

test("a caller that is aborted does not fail another one that waits for the same file of rows", async () => {
  const metadata = JSON.stringify({ metadata: { "x/.zarray": ZARRAY }, record_size: 4 });
  const store = new SlowStore([["set/.zmetadata", new TextEncoder().encode(metadata)]]);
  await store.put("set/x/refs.0.parq", rows(["file:///a", "file:///b", null, null], true));
  const set = await openKerchunkParquet(store, "set");
  const aborted = new AbortController();
  const first = set.find("x/0", { signal: aborted.signal }).catch(() => undefined);
  const second = set.find("x/1");
  aborted.abort();
  expect(await second).toMatchObject({ location: "file:///b" });
  await first;
});

test("files that kerchunk left out are looked for once each, and those before the first that is there once more", async () => {
  const shape = [50];
  const metadata = JSON.stringify({ metadata: { "x/.zarray": { ...ZARRAY, shape } }, record_size: 1 });
  const store = new SlowStore([["set/.zmetadata", new TextEncoder().encode(metadata)]]);
  await store.put("set/x/refs.49.parq", rows(["file:///a"], false));
  const set = await openKerchunkParquet(store, "set");
  store.asked = 0;
  for (let i = 0; i < 49; i++) expect(await set.find(`x/${i}`)).toBeUndefined();
  expect(await set.find("x/49")).toMatchObject({ location: "file:///a" });
  expect(store.asked).toBe(100);
});

const HEAD = '"format": "superchunk-containers", "version": 1';
test.each([
  ["null", "BAD_FIELD", 'format is not "superchunk-containers"'],
  ['{"format": "superchunk-containers", "version": 9}', "UNSUPPORTED", "use a newer superchunk"],
  [`{${HEAD}}`, "BAD_FIELD", "containers is not a list"],
  [`{${HEAD}, "containers": [5]}`, "BAD_FIELD", "has an entry that is not an object"],
  [`{${HEAD}, "containers": [{"name": "a", "key": "x"}]}`, "BAD_FIELD", "secrets have no place here"],
  [`{${HEAD}, "containers": [{"name": 5}]}`, "BAD_FIELD", "name has the wrong type"],
  [`{${HEAD}, "containers": [{"name": "a"}]}`, "BAD_FIELD", "prefix is missing"],
  [`{${HEAD}, "containers": [{"name": "a", "prefix": "s3://b"}]}`, "BAD_FIELD", "s3://b/ is meant"],
  [
    `{${HEAD}, "containers": [{"name": "a", "prefix": "s3:///"}]}`,
    "BAD_FIELD",
    "must name a host or a bucket",
  ],
  [
    `{${HEAD}, "containers": [], "sources": [{"location": "a"}]}`,
    "BAD_FIELD",
    "sources is not a list of objects",
  ],
])("a containers file of %s is %s", (file, code, message) => {
  expect(() => parseContainers(file, "set.containers.json")).toThrow(
    expect.objectContaining({
      code,
      details: expect.objectContaining({ path: "set.containers.json" }),
      ...text(message),
    }),
  );
});
