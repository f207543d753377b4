import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SteadyStore } from "../../../src/node/dual/files.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { makeFolder, writeFiles } from "../../store/folder.ts";
import { describeReading, describeWriting, OBJECTS } from "../../store/store-contract.ts";

for (const maxOpenFiles of [64, 1, 0]) {
  describeReading(`the file store with ${maxOpenFiles} open files`, async () => {
    const { path, dispose } = await makeFolder();
    await writeFiles(path, OBJECTS);
    return { store: new FileStore(path, { maxOpenFiles }), lists: true, dispose };
  });
}

describeReading("the steady store", async () => {
  const { path, dispose } = await makeFolder();
  await writeFiles(path, OBJECTS);
  return { store: new SteadyStore(path), lists: true, dispose };
});

it("a steady store keeps reading the file that it opened first, even if the path gets another one", async () => {
  const { path, dispose } = await makeFolder();
  await writeFiles(path, [
    ["a", Uint8Array.of(1, 2)],
    ["b", Uint8Array.of(9, 9, 9)],
  ]);
  const store = new SteadyStore(path);
  try {
    const info = await store.stat("a");
    renameSync(join(path, "b"), join(path, "a"));
    expect(await store.get("a")).toEqual(Uint8Array.of(1, 2));
    expect(await store.getRange("a", { offset: 1, length: 9 })).toEqual(Uint8Array.of(2));
    expect(await store.stat("a")).toEqual(info);
    expect(await store.get("b")).toBeUndefined();
  } finally {
    await store.close();
    await dispose();
  }
});

describeWriting("the file store", async () => {
  const { path, dispose } = await makeFolder();
  return { store: new FileStore(join(path, "not", "there yet")), dispose };
});

it("reads in one turn of the event loop see one file, and the next turn sees the file that replaced it", async () => {
  const { path, dispose } = await makeFolder();
  const store = new FileStore(path);
  const readByte = (at: number): number | undefined => {
    const target = new Uint8Array(1);
    return store.readIntoSync("a", at, target) === undefined ? undefined : target[0];
  };
  const replace = (...bytes: number[]): void => {
    writeFileSync(join(path, "new"), Uint8Array.from(bytes));
    renameSync(join(path, "new"), join(path, "a"));
  };
  try {
    replace(1, 2);
    expect(readByte(0)).toBe(1);
    replace(3, 4, 5);
    expect(readByte(1)).toBe(2);
    await undefined;
    expect([readByte(0), readByte(1), readByte(2)]).toEqual([3, 4, 5]);
    replace(6);
    expect((await store.get("a"))?.[0]).toBe(6);
  } finally {
    await store.close();
    await dispose();
  }
});
