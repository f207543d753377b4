import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { makeFolder } from "../../store/folder.ts";
import { collectEntries } from "../../store/store-contract.ts";

const unsafe = { code: "UNSAFE_PATH" };
const SECRET = "the secret";

/** A root with a file and a folder next to it that nothing in the root may reach. */
async function withRoot(
  act: (store: FileStore, root: string, outside: string) => Promise<void>,
): Promise<void> {
  const { path, dispose } = await makeFolder();
  const root = join(path, "root");
  const outside = join(path, "root-outside"); // begins like the root
  fs.mkdirSync(root);
  fs.mkdirSync(outside);
  fs.writeFileSync(join(outside, "secret"), SECRET);
  const store = new FileStore(root);
  try {
    await act(store, root, outside);
  } finally {
    await store.close();
    await dispose();
  }
}

async function expectNoWay(store: FileStore, key: string): Promise<void> {
  const buffer = new Uint8Array(4);
  await expect(store.get(key), key).rejects.toMatchObject(unsafe);
  await expect(store.getRange(key, { suffixLength: 2 }), key).rejects.toMatchObject(unsafe);
  await expect(store.stat(key), key).rejects.toMatchObject(unsafe);
  await expect(store.getHeads([key], 4), key).rejects.toMatchObject(unsafe);
  await expect(store.getHeads([key], 0), key).rejects.toMatchObject(unsafe);
  await expect(store.readInto(key, 0, buffer), key).rejects.toMatchObject(unsafe);
  expect(() => store.readIntoSync(key, 0, buffer), key).toThrow(expect.objectContaining(unsafe));
  await expect(store.writeRange(key, 0, Uint8Array.of(1)), key).rejects.toMatchObject(unsafe);
  await expect(store.link(key, "stolen", "hard"), key).rejects.toMatchObject(unsafe);
  await expect(store.link(key, "stolen", "copy"), key).rejects.toMatchObject(unsafe);
  await expect(store.sync([key]), key).rejects.toMatchObject(unsafe);
  expect(buffer).toEqual(new Uint8Array(4));
}

describe("the file store", () => {
  it("follows no link out of its root: to a file, a folder, through a chain, relative or absolute", () =>
    withRoot(async (store, root, outside) => {
      fs.symlinkSync(join(outside, "secret"), join(root, "absolute"));
      fs.symlinkSync("../root-outside/secret", join(root, "relative"));
      fs.symlinkSync("relative", join(root, "chain"));
      fs.symlinkSync(outside, join(root, "folder"));
      fs.symlinkSync("..", join(root, "up"));
      for (const key of ["absolute", "relative", "chain", "folder/secret", "up/root-outside/secret"]) {
        await expectNoWay(store, key);
      }
      for (const key of ["folder/secret", "folder/new", "folder/new/deeper", "up/new"]) {
        await expect(store.put(key, Uint8Array.of(1)), key).rejects.toMatchObject(unsafe);
        await expect(store.delete(key), key).rejects.toMatchObject(unsafe);
        await expect(store.rename("absolute", key), key).rejects.toMatchObject(unsafe);
      }
      await expect(collectEntries(store, "folder")).rejects.toMatchObject(unsafe);
      await expect(store.removeLeftovers("folder")).rejects.toMatchObject(unsafe);
      expect(fs.readFileSync(join(outside, "secret"), "utf8")).toBe(SECRET);
      expect(fs.readdirSync(outside)).toEqual(["secret"]);
    }));

  it("replaces and deletes a link that leads out, not its target", () =>
    withRoot(async (store, root, outside) => {
      fs.symlinkSync(join(outside, "secret"), join(root, "x"));
      fs.symlinkSync(join(outside, "secret"), join(root, "y"));
      await store.put("x", Uint8Array.of(1));
      await store.delete("y");
      expect(await store.get("x")).toEqual(Uint8Array.of(1));
      expect(await store.get("y")).toBeUndefined();
      expect(fs.readFileSync(join(outside, "secret"), "utf8")).toBe(SECRET);
    }));

  it("notices a file that was read and kept open and then replaced by a link out", () =>
    withRoot(async (store, root, outside) => {
      await store.put("x", Uint8Array.of(7));
      expect(store.readIntoSync("x", 0, new Uint8Array(1))).toBe(1);
      fs.rmSync(join(root, "x"));
      fs.symlinkSync(join(outside, "secret"), join(root, "x"));
      await expectNoWay(store, "x");
    }));

  it("follows links whose target stays inside, also if the root itself is reached through a link", () =>
    withRoot(async (_store, root) => {
      fs.symlinkSync(root, `${root}-link`);
      const store = new FileStore(`${root}-link`);
      await store.put("data/x", Uint8Array.of(1, 2));
      fs.symlinkSync("data", join(root, "folder"));
      fs.symlinkSync(join(root, "data/x"), join(root, "file"));
      for (const key of ["folder/x", "file"]) {
        expect(await store.get(key), key).toEqual(Uint8Array.of(1, 2));
        // The other is a file in a folder that is a link.
        const info = { ...(await store.stat("data/x")), ...(key === "file" ? { isLink: true } : {}) };
        expect(await store.stat(key), key).toEqual(info);
        const [head] = await store.getHeads([key], 1);
        expect(head, key).toEqual({ bytes: Uint8Array.of(1), info });
        expect(store.readIntoSync(key, 1, new Uint8Array(4)), key).toBe(1);
      }
      await store.put("folder/y", Uint8Array.of(3));
      expect(await store.get("data/y")).toEqual(Uint8Array.of(3));
      expect(await collectEntries(store, "folder")).toEqual(await collectEntries(store, "data"));
      await store.close();
    }));

  it("never takes a dead link for an object that was not stored, and refuses circular links", () =>
    withRoot(async (store, root) => {
      fs.symlinkSync("nowhere", join(root, "dead"));
      fs.symlinkSync("b", join(root, "a"));
      fs.symlinkSync("a", join(root, "b"));
      const lost = { code: "INCOMPLETE", details: { path: join(root, "dead"), expected: "nowhere" } };
      await expect(store.get("dead")).rejects.toMatchObject(lost);
      await expect(store.stat("dead")).rejects.toMatchObject(lost);
      await expect(store.get("dead/x")).rejects.toMatchObject({ code: "INCOMPLETE" });
      expect(() => store.readIntoSync("dead", 0, new Uint8Array(1))).toThrow("where nothing is");
      await store.put("x", Uint8Array.of(1));
      expect((await collectEntries(store, "")).map(({ name }) => name)).toEqual(["a", "b", "dead", "x"]);
      await store.put("dead", Uint8Array.of(2));
      expect(await store.get("dead")).toEqual(Uint8Array.of(2));
      await expect(store.get("a")).rejects.toMatchObject(unsafe);
      await expect(store.stat("a/x")).rejects.toMatchObject(unsafe);
    }));

  it.skipIf(process.platform === "win32")("refuses a pipe at once instead of waiting for its writer", () =>
    withRoot(async (store, root) => {
      execFileSync("mkfifo", [join(root, "pipe")]);
      await expect(store.get("pipe")).rejects.toMatchObject({ code: "UNSUPPORTED" });
      expect(() => store.readIntoSync("pipe", 0, new Uint8Array(1))).toThrow(
        expect.objectContaining({ code: "UNSUPPORTED" }),
      );
      await expect(store.getHeads(["pipe"], 4)).rejects.toMatchObject({ code: "UNSUPPORTED" });
      await expect(store.stat("pipe")).rejects.toMatchObject({ code: "UNSUPPORTED" });
      // If it were not listed, it would pass for an object that was never stored.
      expect(await collectEntries(store, "")).toEqual([{ name: "pipe", kind: "object" }]);
    }),
  );

  it("refuses a link back to a folder above it, so that every walk ends", () =>
    withRoot(async (store, root) => {
      await store.put("a/b/x", Uint8Array.of(1));
      await store.put("c/y", Uint8Array.of(2));
      fs.symlinkSync(".", join(root, "a/self"));
      fs.symlinkSync("../../..", join(root, "a/b/top"));
      fs.symlinkSync("../a", join(root, "c/a"));
      fs.symlinkSync("../c", join(root, "a/c"));
      for (const folder of ["a/self", "a/b/top", "c/a/c", "a/c/a"]) {
        const error = { code: "UNSAFE_PATH", details: { path: join(root, folder) } };
        await expect(collectEntries(store, folder), folder).rejects.toMatchObject(error);
        await expect(store.get(`${folder}/x`), folder).rejects.toMatchObject(error);
      }
      expect(await store.get("c/a/b/x")).toEqual(Uint8Array.of(1));
      expect(await store.get("a/c/y")).toEqual(Uint8Array.of(2));
    }));

  it("names the path, what it found and where the link leads in its message", () =>
    withRoot(async (store, root, outside) => {
      fs.symlinkSync(join(outside, "secret"), join(root, "x"));
      await expect(store.get("x")).rejects.toMatchObject({
        details: { path: join(root, "x"), expected: `a path under ${root}`, found: join(outside, "secret") },
        message: expect.stringMatching(/^\/.*\/root\/x: a symbolic link leads out of .*; open the archive/),
      });
    }));
});
