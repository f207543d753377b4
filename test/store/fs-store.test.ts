import { join } from "node:path";
import { FileStore } from "../../src/node/fs-store.ts";
import { describeReading, describeWriting, OBJECTS } from "../contract/store-contract.ts";
import { makeFolder, writeFiles } from "./folder.ts";

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
