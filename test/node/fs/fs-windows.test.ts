/**
 * Windows refuses to replace a file that is open anywhere, and other programs open new files for a moment. Its rules are imitated
 * here, for the files that this process opens.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it, vi } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { create, edit, open } from "../../../src/node/index.ts";
import { temporaryFolder } from "../../folder.ts";

const { files, busy } = vi.hoisted(() => {
  const before = process.platform;
  process.env["TEMP"] ??= process.env["TMPDIR"] ?? "/tmp"; // where tmpdir() looks at Windows
  Object.defineProperty(process, "platform", { value: "win32" });
  return { files: new Map<number, string>(), busy: { before, renames: 0 } };
});
afterAll(() => Object.defineProperty(process, "platform", { value: busy.before }));

vi.mock("node:fs", async (load) => {
  const real = await load<typeof fs>();
  const assertFree = (path: string): void => {
    if (busy.renames === 0 && ![...files.values()].includes(path)) return;
    busy.renames = Math.max(0, busy.renames - 1);
    throw Object.assign(new Error("EPERM: operation not permitted, rename"), {
      code: "EPERM",
      syscall: "rename",
    });
  };
  return {
    ...real,
    openSync: (path: string, ...rest: [fs.OpenMode]) => {
      const file = real.openSync(path, ...rest);
      files.set(file, path);
      return file;
    },
    closeSync: (file: number) => {
      files.delete(file);
      real.closeSync(file);
    },
    renameSync: (from: string, to: string) => {
      assertFree(to);
      real.renameSync(from, to);
    },
    promises: {
      ...real.promises,
      rename: async (from: string, to: string) => {
        assertFree(to);
        await real.promises.rename(from, to);
      },
    },
  };
});

it("an object that another store has read is replaced", async () => {
  const root = temporaryFolder();
  const [reader, writer] = [new FileStore(root), new FileStore(root)];
  await writer.put("x", Uint8Array.of(1));
  expect(await reader.get("x")).toEqual(Uint8Array.of(1));
  await writer.put("x", Uint8Array.of(2));
  expect(await reader.get("x")).toEqual(Uint8Array.of(2));
});

it("an array that a reader has open is appended to", async () => {
  const path = join(temporaryFolder(), "array");
  await (await create(path, { dtype: "float64", data: Float64Array.of(1, 2) })).close();
  const reader = await open(path);
  const editor = await edit(path);
  await editor.append(Float64Array.of(3));
  await editor.close();
  await reader.close?.();
  const again = await open(path);
  expect(again).toMatchObject({ shape: [3] });
  await again.close?.();
});

it("a rename is tried again while another program holds the file, and then fails with advice", async () => {
  const store = new FileStore(temporaryFolder());
  await store.put("x", Uint8Array.of(1));
  busy.renames = 3;
  await store.put("x", Uint8Array.of(2));
  busy.renames = 3;
  await store.rename("x", "y");
  expect(await store.get("y")).toEqual(Uint8Array.of(2));
  busy.renames = Number.POSITIVE_INFINITY;
  await expect(store.put("y", Uint8Array.of(3))).rejects.toThrow(
    /whether another program has the file open \(EPERM/,
  );
  busy.renames = 0;
  expect(fs.readdirSync(store.root)).toEqual(["y"]);
});

it("a name that Windows takes for something else is refused", async () => {
  const store = new FileStore(temporaryFolder());
  for (const key of [
    "CON",
    "a/nul/b",
    "aux.txt",
    "com1",
    "LPT².bin",
    "a.",
    "b /c",
    "x:y",
    "a\tb",
    "prn .txt",
  ]) {
    await expect(store.put(key, Uint8Array.of(1)), key).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    await expect(store.get(key), key).rejects.toMatchObject({ code: "UNSAFE_PATH" });
  }
  const keys = ["console", "a/null", ".nul", "com10", "com", "auxiliary.txt", "a.b", "x.con", "a b"];
  for (const key of keys) await store.put(key, Uint8Array.of(1));
  expect(fs.readdirSync(store.root)).toHaveLength(keys.length);
});
