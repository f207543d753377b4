/** A file system without hard links (FAT, exFAT, many network drives) keeps the contract of stores, and arrays can be written there. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { create, edit, link, open } from "../../../src/node/index.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { describePutting } from "../../store/store-contract.ts";

vi.mock("node:fs", async (load) => {
  const real = await load<typeof fs>();
  const fail = (): never => {
    throw Object.assign(new Error("EPERM: operation not permitted, link"), {
      code: "EPERM",
      syscall: "link",
    });
  };
  return { ...real, linkSync: fail, promises: { ...real.promises, link: async () => fail() } };
});

describePutting("the file store without hard links", async () => ({
  store: new FileStore(temporaryFolder()),
}));

it("one of many writers creates an object, and nothing else is left", async () => {
  const root = temporaryFolder();
  for (let round = 0; round < 5; round++) {
    const puts = Array.from({ length: 8 }, (_, i) =>
      new FileStore(root).put(`x${round}`, Uint8Array.of(i), { ifAbsent: true }),
    );
    const results = await Promise.allSettled(puts);
    const winners = results.flatMap(({ status }, i) => (status === "fulfilled" ? [i] : []));
    expect([winners.length, fs.readFileSync(join(root, `x${round}`))[0]]).toEqual([1, winners[0]]);
    for (const result of results)
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
  }
  expect(fs.readdirSync(root)).toEqual(["x0", "x1", "x2", "x3", "x4"]);
});

it("an array is created, grows and shrinks", async () => {
  const path = join(temporaryFolder(), "array");
  const array = await create(path, { dtype: "float64" });
  await array.append(Float64Array.of(1, 2, 3));
  await array.close();
  const editor = await edit(path);
  await editor.append(Float64Array.of(4));
  await editor.resize(3);
  await editor.close();
  const opened = await open(path);
  if (opened.kind !== "array") throw new Error("not an array");
  expect((await opened.get()).data).toEqual(Float64Array.of(1, 2, 3));
});

it("a refused link leaves the archive as it was", async () => {
  const path = join(temporaryFolder(), "table");
  fs.cpSync(join(corpusFolder, "ctable/bcolz-daily-equities"), path, { recursive: true });
  const before = fs.readdirSync(path, { recursive: true }).sort();
  await expect(link(path)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining('{link: "copy"}'),
  });
  expect(fs.readdirSync(path, { recursive: true }).sort()).toEqual(before);
});
