/** Chunks that were made for a set in JSON, in a file next to it: when there is one, who reads it, and when it goes. */
import { cp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { create, edit, openReferences, S3Store } from "../../src/node/index.ts";
import { findDropped } from "../../src/page/engine/dropped.ts";
import { openReferences as openIn } from "../../src/references/kerchunk/open-references.ts";
import { writeKerchunk } from "../../src/references/kerchunk/write-kerchunk.ts";
import { planReferences } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3 } from "../node/s3/server.ts";

const CHUNK_FILE = /^big\.[0-9a-f]{32}\.chunks$/;
let made = "";
let folder = "";
let array = "";
let set = "";

/** Values that do not compress, so that a padded chunk is long. */
function noise(count: number): Float64Array {
  let state = 1;
  return Float64Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  });
}

const values = noise(50_000);

beforeAll(async () => {
  made = temporaryFolder();
  const created = await create(join(made, "big"), { dtype: "<f8", chunkLength: 32_768 });
  await created.append(values);
  await created.close();
});

beforeEach(async () => {
  folder = temporaryFolder();
  array = join(folder, "big");
  set = join(folder, "big.json");
  await cp(join(made, "big"), array, { recursive: true, preserveTimestamps: true });
});

const chunkFiles = async (): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith(".chunks"));

interface Set {
  readonly refs: Readonly<Record<string, unknown>>;
  readonly guards: Readonly<Record<string, unknown>>;
}
const parsed = async (file: string): Promise<Set> => JSON.parse(await readFile(file, "utf8")) as Set;

async function virtualize(...args: string[]): Promise<string> {
  const { code, out, err } = await runCli(["virtualize", array, set, ...args]);
  expect([code, err]).toEqual([0, ""]);
  return out;
}

describe("chunks that were made for a set in JSON", () => {
  it("are in a file next to it, named after its content, if they take more than 64 KiB [FV-08]", async () => {
    const out = await virtualize();
    const [name = ""] = await chunkFiles();
    expect(name).toMatch(CHUNK_FILE);
    expect(out).toContain(
      `1 array: 1 reference, 1 chunk stored beside them in ${name}, 2 read back and compared`,
    );
    const { refs, guards } = await parsed(set);
    const { size } = await stat(join(folder, name));
    expect(size).toBeGreaterThan(65_536);
    expect(refs["big/c/1"]).toEqual([`file://${folder}/${name}`, 0, size]);
    expect(Object.keys(guards).join()).not.toContain(".chunks");
    expect((await stat(set)).size).toBeLessThan(3_000);
  });

  it("are read by every command without a word for their file, and so is a set that moved with it", async () => {
    await virtualize();
    const allow = ["--allow", array];
    for (const [command, ...more] of [
      ["verify"],
      ["info"],
      ["ls"],
      ["containers"],
      ["convert", join(folder, "back.zarr"), "--verify", "--json"],
    ] as const) {
      const own = command === "containers" ? [] : allow;
      const { code, out, err } = await runCli([command, set, ...more, ...own]);
      expect([command, code, err]).toEqual([command, 0, ""]);
      expect(out).not.toContain("DAMAGED");
    }
    const moved = join(folder, "elsewhere");
    await cp(set, join(moved, "big.json"), { recursive: true });
    const [name = ""] = await chunkFiles();
    for (const each of [name, "big.containers.json"]) await rename(join(folder, each), join(moved, each));
    const { out } = await runCli(["cat", join(moved, "big.json/big"), "--tail", "2", ...allow]);
    expect(out.trim().split("\n").map(Number)).toEqual([...values.subarray(-2)]);
    const store = await openReferences(join(moved, "big.json"), { authorize: ["local"] });
    expect((await store.get("/big/c/1"))?.length).toBe((await stat(join(moved, name))).size);
    expect(await store.sizeOf("big/c/1")).toBe((await stat(join(moved, name))).size);
    await store.close();
  });

  it("are read from dropped files, like the archive", async () => {
    await virtualize();
    const names = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = await Promise.all(
      names
        .filter((each) => each.isFile() && !each.name.endsWith("containers.json"))
        .map(async ({ parentPath, name }) => {
          const path = join(parentPath, name);
          const { mtimeMs: lastModified } = await stat(path);
          const file = new File([await readFile(path)], name, { lastModified });
          return [path.slice(folder.length + 1), file] as const;
        }),
    );
    const unused = (): never => {
      throw new Error("not of a set");
    };
    for await (const { found, openIt } of findDropped(files, unused, undefined)) {
      if (!found.path.startsWith("big.json")) continue;
      const node = await openIt();
      const dropped = node.kind === "group" ? await node.open("big") : node;
      if (dropped.kind !== "array") throw new Error(dropped.kind);
      expect(((await dropped.get()) as ArraySlice).data).toEqual(values);
    }
    expect.assertions(3); // of the group and of its array
  });

  it("stay in the set if they are few, or if the caller wants one file; the other forms have none", async () => {
    await virtualize("--one-file");
    expect(await chunkFiles()).toEqual([]);
    expect(String((await parsed(set)).refs["big/c/1"])).toMatch(/^base64:/);
    const small = join(folder, "small");
    const created = await create(small, { dtype: "<f8", chunkLength: 4096 });
    await created.append(values.subarray(0, 6_000));
    await created.close();
    expect((await runCli(["virtualize", small, join(folder, "small.json")])).code).toBe(0);
    expect(String((await parsed(join(folder, "small.json"))).refs["small/c/1"])).toMatch(/^base64:/);
    expect((await runCli(["virtualize", array, join(folder, "set.parq")])).code).toBe(0);
    expect(await chunkFiles()).toEqual([]);
    const { code, err } = await runCli(["virtualize", array, join(folder, "b.parq"), "--one-file"]);
    expect([code, err]).toEqual([2, expect.stringContaining("--one-file is for kerchunk JSON")]);
  });

  it("get another file with other content: the old set stays right until it is replaced, and its file goes then", async () => {
    await virtualize();
    const [before = ""] = await chunkFiles();
    const old = await parsed(set);
    const growing = await edit(array);
    if (growing.kind !== "array") throw new Error("not an array");
    await growing.append(values.subarray(0, 8_000));
    await growing.close();
    await virtualize("--update");
    const [after = "", ...others] = await chunkFiles();
    expect([others, after === before]).toEqual([[], false]);
    const { refs } = await parsed(set);
    expect(refs["big/c/1"]).not.toEqual(old.refs["big/c/1"]);
    expect((await runCli(["verify", set, "--allow", array])).code).toBe(0);
    await virtualize("--update", "--one-file");
    expect(await chunkFiles()).toEqual([]);
  });

  it("and the set itself leave no temporary files of killed processes, and keep those of other sets", async () => {
    await virtualize();
    const names = (await readdir(folder)).filter((name) => name.startsWith("big."));
    expect(names).toHaveLength(3); // the set, its containers and its chunks
    const temporary = (name: string): string => `.${name}.0123456789abcdef.tmp`;
    for (const name of [...names, "other.json"]) await writeFile(join(folder, temporary(name)), "");
    await virtualize("--overwrite");
    expect((await readdir(folder)).sort()).toEqual([temporary("other.json"), "big", ...names].sort());
  });

  it("do not take files of others with them", async () => {
    const hash = "0".repeat(32);
    const others = [`big.other.${hash}.chunks`, `other.${hash}.chunks`, "big.chunks", `big.${hash}.chunks2`];
    for (const name of others) await writeFile(join(folder, name), "mine");
    await virtualize();
    await virtualize("--overwrite", "--one-file");
    expect((await readdir(folder)).filter((name) => others.includes(name)).sort()).toEqual(others.sort());
  });

  it("stay, with a note, if the writer may not remove them", async () => {
    await virtualize();
    class Kept extends FileStore {
      override delete(): Promise<void> {
        return Promise.reject(new SuperchunkError("IO", "access denied", { path: folder }));
      }
    }
    const plans = async function* () {
      yield await planReferences(await open(new FileStore(folder), "big"));
    };
    const store = new Kept(folder);
    const { notes } = await writeKerchunk(plans(), store, "big.json", { form: "json", overwrite: true });
    expect(notes).toEqual([expect.stringMatching(/^chunk files of former states .* access denied/)]);
  });

  it("leave nothing if the set cannot be written, and keep what a set there refers to", async () => {
    class Full extends FileStore {
      override async put(...[key, source, options]: Parameters<FileStore["put"]>) {
        if (!key.endsWith(".json")) return super.put(key, source, options);
        if (!(source instanceof Uint8Array)) for await (const _ of source as AsyncIterable<Uint8Array>);
        throw new Error("disk full");
      }
    }
    const write = async (store: FileStore, overwrite = false) => {
      const plans = async function* () {
        yield await planReferences(await open(new FileStore(folder), "big"));
      };
      const locateChunks = (key: string): string => `file://${folder}/${key}`;
      return writeKerchunk(plans(), store, "big.json", { form: "json", locateChunks, overwrite });
    };
    await expect(write(new Full(folder))).rejects.toThrow("disk full");
    expect(await chunkFiles()).toEqual([]);
    const { chunkFiles: names } = await write(new FileStore(folder));
    await expect(write(new Full(folder), true)).rejects.toThrow("disk full");
    expect(await chunkFiles()).toEqual(names);
  });

  it("are an error if their file is missing or cut off, and never the fill value", async () => {
    await virtualize();
    const [name = ""] = await chunkFiles();
    const store = await openReferences(set, { authorize: ["local"] });
    await writeFile(join(folder, name), (await readFile(join(folder, name))).subarray(0, 1000));
    await expect(store.get("/big/c/1")).rejects.toMatchObject({ code: "TRUNCATED" });
    await rm(join(folder, name));
    await expect(store.get("/big/c/1")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await store.close();
  });

  it("let a set reach only files of its own name beside it [FV-04]", async () => {
    const store = new MemoryStore();
    const hash = "0".repeat(32);
    const names = [`other.${hash}.chunks`, "secret", `big.${hash}.chunk`, `x/big.${hash}.chunks`];
    for (const name of names) await store.put(name, new Uint8Array([1, 2, 3]));
    await store.put(`big.${hash}.chunks`, new Uint8Array([4, 5, 6]));
    const refs = Object.fromEntries(
      [...names, `big.${hash}.chunks`].map((name, i) => [`a/${i}`, [`file:///somewhere/${name}`, 0, 3]]),
    );
    await store.put("big.json", new TextEncoder().encode(JSON.stringify({ version: 1, refs })));
    const references = await openIn(store, "big.json");
    for (const i of [0, 1, 2])
      await expect(references.get(`/a/${i}`)).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    // Only the name counts: the set and its files may have moved.
    for (const i of [3, 4]) expect(await references.get(`/a/${i}`)).toEqual(new Uint8Array([4, 5, 6]));
  });

  it("are in several files if there are very many", async () => {
    const target = new MemoryStore();
    const created = await create(join(folder, "long"), { dtype: "<f8", chunkLength: 131_072 });
    await created.append(noise(262_000));
    await created.close();
    const plans = async function* () {
      const archive = await open(new FileStore(folder), "long");
      for (let i = 0; i < 60; i++) yield await planReferences(archive, { node: `n${i}`, isMember: true });
    };
    const { chunkFiles: names = [] } = await writeKerchunk(plans(), target, "big.json", {
      form: "json",
      locateChunks: (key) => `file:///${key}`,
      openContainer: ({ prefix }) => new FileStore(prefix.slice("file://".length)),
    });
    expect(names).toHaveLength(2);
  });
});

describe("chunks of a set in a bucket", () => {
  it("are in it if the archive is in the same bucket, and else in the set", async () => {
    const s3 = await startS3();
    const reset = setEnvironment(s3);
    try {
      const { bucket, endpoint } = s3;
      const store = new S3Store({ bucket, endpoint, region: "us-east-1" });
      for (const key of ["meta/sizes", "meta/storage", "data/__1__.bin"])
        await store.put(`data/big/${key}`, await readFile(join(array, key)));
      const source = `s3://${bucket}/data/big?endpoint=${endpoint}`;
      const inBucket = `s3://${bucket}/sets/big.json?endpoint=${endpoint}`;
      const both = await runCli(["virtualize", source, inBucket, "--json"]);
      expect([both.code, both.err]).toEqual([0, ""]);
      const [name = ""] = (JSON.parse(both.out) as { chunkFiles: string[] }).chunkFiles;
      expect(name).toMatch(CHUNK_FILE);
      const text = new TextDecoder().decode(await store.get("sets/big.json"));
      expect(text).toContain(`["s3://${bucket}/sets/${name}",0,`);
      for (const [from, to] of [
        [array, inBucket],
        [source, set],
      ] as const) {
        const { code, out } = await runCli(["virtualize", from, to, "--overwrite", "--json"]);
        expect([code, (JSON.parse(out) as { chunkFiles: string[] }).chunkFiles]).toEqual([0, []]);
      }
      expect(await store.stat(`sets/${name}`)).toBeUndefined();
      await store.close();
    } finally {
      reset();
      await s3.close();
    }
  });
});
