import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
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
