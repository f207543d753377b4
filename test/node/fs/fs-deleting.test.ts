/** Deletions in folders are durable once the store is synced: the changed folders are synced. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { temporaryFolder } from "../../folder.ts";

const synced = vi.hoisted(() => new Set<number>());

vi.mock("node:fs", async (load) => {
  const fs = await load<typeof import("node:fs")>();
  const fsync = (file: number, done: (error: NodeJS.ErrnoException | null) => void): void => {
    const info = fs.fstatSync(file);
    if (info.isDirectory()) synced.add(info.ino);
    fs.fsync(file, done);
  };
  return { ...fs, fsync };
});

async function syncedBy(work: () => Promise<void>): Promise<ReadonlySet<number>> {
  synced.clear();
  await work();
  return new Set(synced);
}

test.runIf(process.platform !== "win32")(
  "a sync makes deletions durable, also a sync of no keys",
  async () => {
    const { statSync } = await import("node:fs");
    const root = temporaryFolder();
    const store = new FileStore(root);
    for (const key of ["a/x", "b/x", "b/y", "c/d/x"]) await store.put(key, Uint8Array.of(1));
    const inode = (folder: string): number => statSync(join(root, folder)).ino;
    await store.delete("a/x");
    await store.delete("b/x");
    expect(await syncedBy(() => store.sync([]))).toEqual(new Set([inode("a"), inode("b")]));
    expect(await syncedBy(() => store.sync([]))).toEqual(new Set());
    await store.delete("a/x"); // it does not exist
    await store.delete("c/d/x");
    await store.delete("c/d");
    await store.delete("b/y");
    rmSync(join(root, "b"), { recursive: true });
    const folders = await syncedBy(async () => {
      await store.put("e", Uint8Array.of(1), { durable: false });
      await store.sync(["e"]);
    });
    expect(folders).toEqual(new Set([inode("c"), inode("")]));
  },
);
