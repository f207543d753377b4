import { describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { isArchive } from "../../../src/convert/sources/items.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import type { Progress } from "../../../src/index.ts";
import { FileStore } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import type { ObjectInfo } from "../../../src/store/types.ts";
import { interceptStore } from "../../../src/store/wrappers/intercept.ts";
import { convert, planConversion } from "../../../src/zarr.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { sample } from "../../scope.ts";
import { withCounting } from "../../store/counting.ts";
import { withFaults } from "../../store/faulty.ts";
import { putCarray, putRaw } from "./make-archive.ts";
import { corpusStore, documentAt, keysOf, readWithZarrita, zarritaStore } from "./read-back.ts";

const values = (from: number): Uint8Array =>
  new Uint8Array(Float64Array.from({ length: 50 }, (_, i) => from + i).buffer);

const numbers = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

async function makeTree(count = 6): Promise<MemoryStore> {
  const store = new MemoryStore();
  for (let n = 0; n < count; n++) {
    await putCarray(store, `in/minutes/${n % 2 === 0 ? "even" : "odd"}/${n}.bcolz`, values(n), 20, {
      dtype: "float64",
      shape: [50],
    });
  }
  await putRaw(store, "in/notes.blp", Uint8Array.of(1, 2, 3));
  await store.put("in/README.txt", Uint8Array.of(65));
  return store;
}

describe("a folder of archives", () => {
  it("becomes one hierarchy, with every archive at its own path", async () => {
    const target = new MemoryStore();
    const result = await convert(
      { store: await makeTree(), path: "in" },
      { store: target, path: "out" },
      { verify: true },
    );
    expect(result).toMatchObject({
      converted: 7,
      failed: 0,
      arrays: 7,
      groups: 4,
      renamed: [],
      verified: true,
    });
    expect(result.entries.map(({ node }) => node).sort()).toEqual([
      ...[0, 2, 4].map((n) => `minutes/even/${n}.bcolz`),
      ...[1, 3, 5].map((n) => `minutes/odd/${n}.bcolz`),
      "notes.blp",
    ]);
    for (let n = 0; n < 6; n++) {
      expect(await readWithZarrita(target, `out/minutes/${n % 2 === 0 ? "even" : "odd"}/${n}.bcolz`)).toEqual(
        values(n),
      );
    }
    expect(await readWithZarrita(target, "out/notes.blp")).toEqual(Uint8Array.of(1, 2, 3));
    expect((await keysOf(target)).filter((key) => key.includes(".superchunk"))).toEqual([]);
    const stored = await Promise.all(
      (await keysOf(target)).map(async (key) => (await target.get(key))?.length ?? 0),
    );
    expect(result.bytesWritten).toBe(stored.reduce((total, size) => total + size, 0));
  });

  it("is not walked if the destination is taken", async () => {
    const target = new MemoryStore();
    await target.put("out/zarr.json", Uint8Array.of(1));
    const { store, counts } = withCounting(await makeTree());
    await expect(convert({ store, path: "in" }, { store: target, path: "out" })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(counts.log).toEqual([]);
  });

  it.each(["zarr", "bcolz"] as const)(
    "reports what the search has found before anything is done, as %s",
    async (to) => {
      const seen: Progress[] = [];
      const onProgress = (progress: Progress): void => void seen.push(progress);
      const target = { store: new MemoryStore(), path: "out" };
      await convert({ store: await makeTree(), path: "in" }, target, { to, onProgress });
      const search = seen.slice(
        0,
        seen.findIndex(({ isOpen }) => isOpen !== true),
      );
      const files = [["memory:in/README.txt", 0]];
      const even = [0, 2, 4].map((n) => `memory:in/minutes/even/${n}.bcolz`);
      const odd = [1, 3, 5].map((n) => `memory:in/minutes/odd/${n}.bcolz`);
      const archives = [...even, ...odd, "memory:in/notes.blp"].map((path, i) => [path, i + 1]);
      expect(search.map(({ label, total }) => [label, total]).toSorted()).toEqual(
        [...files, ...archives].toSorted(),
      );
      expect(search.every(({ done, unit }) => done === 0 && unit === "archives")).toBe(true);
      expect(seen.slice(search.length).some(({ isOpen }) => isOpen)).toBe(false);
    },
  );

  it("has its metadata consolidated in the root, as zarrita and zarr-python read it", async () => {
    const target = new MemoryStore();
    await convert({ store: await makeTree(), path: "in" }, { store: target });
    const root = await documentAt(target, "zarr.json");
    const { kind, must_understand, metadata } = root["consolidated_metadata"] as {
      kind: string;
      must_understand: boolean;
      metadata: Record<string, Record<string, unknown>>;
    };
    expect([kind, must_understand]).toEqual(["inline", false]);
    expect(Object.keys(metadata)).toEqual([
      "minutes",
      "minutes/even",
      ...[0, 2, 4].map((n) => `minutes/even/${n}.bcolz`),
      "minutes/odd",
      ...[1, 3, 5].map((n) => `minutes/odd/${n}.bcolz`),
      "notes.blp",
    ]);
    expect(metadata["notes.blp"]).toEqual(await documentAt(target, "notes.blp/zarr.json"));
    expect(metadata["minutes"]).toEqual({
      ...(await documentAt(target, "minutes/zarr.json")),
      consolidated_metadata: { kind: "inline", must_understand: false, metadata: {} },
    });
    const group = await zarr.open.v3(zarr.root(zarritaStore(target)), { kind: "group" });
    expect(group.attrs).toEqual({});
  });

  it("with damaged archives in it: they are reported, nothing of them is left, and the others are there", async () => {
    const source = await makeTree();
    await source.put("in/minutes/odd/3.bcolz/data/__1.blp", Uint8Array.of(1, 2, 3));
    await source.put("in/minutes/even/2.bcolz/meta/sizes", Uint8Array.of(123));
    await source.put("in/bad.blp", Uint8Array.of(98, 108, 112));
    const target = new MemoryStore();
    const result = await convert({ store: source, path: "in" }, { store: target, path: "out" });
    expect(result).toMatchObject({ converted: 5, failed: 3 });
    const failed = result.entries.filter(({ status }) => status === "failed");
    expect(failed.map(({ path, code }) => [path, code])).toEqual([
      ["memory:in/bad.blp", "TRUNCATED"],
      ["memory:in/minutes/even/2.bcolz", "TRUNCATED"],
      ["memory:in/minutes/odd/3.bcolz", expect.stringMatching(/TRUNCATED|BAD_MAGIC/)],
    ]);
    expect(failed.every(({ path, message }) => message?.startsWith(path))).toBe(true);
    expect(
      (await keysOf(target)).filter((key) => /bad\.blp|2\.bcolz|3\.bcolz|\.superchunk/.test(key)),
    ).toEqual([]);
    const { metadata } = (await documentAt(target, "out/zarr.json"))["consolidated_metadata"] as {
      metadata: object;
    };
    expect(Object.keys(metadata)).toHaveLength(3 + 5);
  });

  it("with damaged archives alone, leaves nothing, so that it can be converted again without --overwrite", async () => {
    const source = new MemoryStore();
    for (const name of ["a", "b"]) await source.put(`in/${name}.blp`, Uint8Array.of(98, 108, 112));
    const target = new MemoryStore();
    const result = await convert({ store: source, path: "in" }, { store: target, path: "out" });
    expect(result).toMatchObject({ converted: 0, failed: 2 });
    expect(await keysOf(target)).toEqual([]);
  });

  it("never has a root document before all is there if the conversion dies at any write, and resuming completes it", async () => {
    const source = await makeTree(4);
    const whole = new MemoryStore();
    await convert({ store: source, path: "in" }, { store: whole, path: "out" });
    const wanted = await keysOf(whole);
    let deaths = 0;
    for (let failAt = 1; ; failAt += 2) {
      const target = new MemoryStore();
      const faulty = withFaults(target, {
        failAt,
        kind: failAt % 4 === 1 ? "crash" : "crash-after",
        counts: "writes",
      });
      // Each archive sees a dead process as an I/O error: only the store knows that it died.
      await convert({ store: source, path: "in" }, { store: faulty.store, path: "out" }).catch(
        () => undefined,
      );
      if (!faulty.failed()) break;
      deaths++;
      const keys = await keysOf(target);
      if (keys.includes("out/zarr.json")) expect(keys).toEqual(expect.arrayContaining(wanted));
      if (keys.includes("out/zarr.json") && !keys.includes("out/.superchunk-convert.json")) continue;
      await convert(
        { store: source, path: "in" },
        { store: target, path: "out" },
        { resume: true, verify: true },
      );
      expect(await keysOf(target)).toEqual(wanted);
    }
    expect(deaths).toBeGreaterThan(10);
  });

  it("stops at once if the destination is full", async () => {
    const target = withFaults(new MemoryStore(), { failAt: 4, kind: "no-space", counts: "writes" });
    await expect(
      convert({ store: await makeTree(), path: "in" }, { store: target.store, path: "out" }),
    ).rejects.toMatchObject({
      code: "NO_SPACE",
    });
  });

  it("keeps what is complete on a full disk, says how much that is, and a later run writes the rest only", async () => {
    const source = new MemoryStore();
    for (const name of ["a", "b", "c"])
      await putCarray(source, `in/${name}`, values(0), 10, { dtype: "float64", shape: [50] });
    const options = { chunksPerShard: 1, jobs: 1 };
    const counts = new Set<string>();
    for (const failAt of sample(numbers(2, 25), 10)) {
      const folder = temporaryFolder();
      const faulty = withFaults(new FileStore(folder), { failAt, kind: "no-space", counts: "writes" });
      const converting = convert(
        { store: source, path: "in" },
        { store: faulty.store, path: "out" },
        options,
      );
      const error: unknown = await converting.catch((thrown: unknown) => thrown);
      expect(error, `write ${failAt}`).toMatchObject({ code: "NO_SPACE" });
      const { message } = error as Error;
      const [count = ""] = /\d of 3 archives are complete in .*out$/.exec(message) ?? [message];
      counts.add(count.replace(/ in .*/, ""));
      const isShard = (key: string): boolean => /\/c\/\d+$/.test(key);
      const kept = (await keysOf(new FileStore(folder))).filter(isShard);
      const { store, counts: calls } = withCounting(new FileStore(folder));
      const result = await convert(
        { store: source, path: "in" },
        { store, path: "out" },
        { ...options, resume: true, verify: true },
      );
      expect(result, `write ${failAt}`).toMatchObject({ converted: 3, failed: 0, shardsKept: kept.length });
      const put = calls.log.flatMap((each) => (/^put .*\/c\/\d+$/.test(each) ? [each.slice(4)] : []));
      expect(put.toSorted(), `write ${failAt}`).toEqual(
        (await keysOf(store)).filter((key) => isShard(key) && !kept.includes(key)),
      );
    }
    for (const n of [0, 1, 3]) expect([...counts]).toContain(`${n} of 3 archives are complete`);
  });

  it("of small archives gives some up on a full disk, so that the record and the documents of the others fit", async () => {
    const source = new MemoryStore();
    for (const n of numbers(1, 60))
      await putCarray(source, `in/${n}`, values(n), 50, { dtype: "float64", shape: [50] });
    const folder = temporaryFolder();
    const pagesOf = (bytes: number): number => Math.ceil(bytes / 4096);
    const held = new Map<string, number>();
    // An object that is replaced stays until the new one is there.
    const small = interceptStore(new FileStore(folder), {
      async onCall({ method, key, args }, proceed) {
        const [, bytes] = args;
        const pages = bytes instanceof Uint8Array ? pagesOf(bytes.length) : 1;
        const used = [...held.values()].reduce((sum, each) => sum + each, 0);
        if (method === "put" && used + pages > 40)
          throw new SuperchunkError("NO_SPACE", "the storage is full", { path: key });
        const result = await proceed();
        if (method === "delete") held.delete(key);
        if (method === "put") held.set(key, pagesOf((result as ObjectInfo).size));
        return result;
      },
    });
    await expect(convert({ store: source, path: "in" }, { store: small, path: "out" })).rejects.toMatchObject(
      { code: "NO_SPACE" },
    );
    const isShard = (key: string): boolean => key.endsWith("/c/0");
    const kept = (await keysOf(new FileStore(folder))).filter(isShard);
    expect(kept.length).toBeGreaterThan(5);
    const result = await convert(
      { store: source, path: "in" },
      { store: new FileStore(folder), path: "out" },
      { resume: true, verify: true },
    );
    expect(result).toMatchObject({ converted: 60, shardsKept: kept.length });
  });

  it("is distinguished from an archive", async () => {
    const store = await makeTree();
    expect(await isArchive(store, "in")).toBe(false);
    expect(await isArchive(store, "in/notes.blp")).toBe(true);
    expect(await isArchive(store, "in/minutes/even/0.bcolz")).toBe(true);
  });

  it("without archives is NOT_FOUND", async () => {
    await expect(
      convert({ store: new MemoryStore(), path: "in" }, { store: new MemoryStore(), path: "out" }),
    ).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });

  it("is planned without writing, failures included", async () => {
    const source = await makeTree(2);
    await source.put("in/bad.blp", Uint8Array.of(98));
    const planned: (string | undefined)[] = [];
    for await (const { node, plan, code } of planConversion({ store: source, path: "in" }))
      planned.push(`${node} ${code ?? plan?.arrays[0]?.action}`);
    expect(planned).toEqual([
      "bad.blp TRUNCATED",
      "minutes/even/0.bcolz copy",
      "minutes/odd/1.bcolz copy",
      "notes.blp copy",
    ]);
  });

  it("gives names that differ only in case a number, and reports it", async () => {
    const source = new MemoryStore();
    for (const name of ["A", "a", "__b"])
      await putCarray(source, name, values(1), 20, { dtype: "float64", shape: [50] });
    const target = new MemoryStore();
    const result = await convert({ store: source, path: "" }, { store: target });
    expect(result.renamed).toEqual([
      { from: "__b", to: "%5F%5Fb" },
      { from: "a", to: "a~2" },
    ]);
    expect(await readWithZarrita(target, "a~2")).toEqual(values(1));
  });

  it("may be the whole corpus, Zarr included: all but the two archives that must be refused", async () => {
    const target = new MemoryStore();
    const result = await convert({ store: corpusStore, path: "" }, { store: target });
    const refused = loadArchives()
      .filter(({ refuse }) => refuse)
      .map(({ path }) => path);
    expect(result.entries.filter(({ status }) => status === "failed").map(({ node }) => node)).toEqual(
      expect.arrayContaining(refused),
    );
    expect(result.failed).toBe(refused.length);
    // 67 archives, and 11 Zarr nodes.
    expect(result.converted).toBe(78);
  });
});
