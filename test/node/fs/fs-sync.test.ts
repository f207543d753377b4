import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { Folders } from "../../../src/node/fs/fs-folders.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { temporaryFolder } from "../../folder.ts";
import { failSync } from "./failing-sync.ts";

vi.mock("node:fs", async (load) => (await import("./failing-sync.ts")).mockSyncs(load));

const BYTES = Uint8Array.of(1, 2, 3);
const REFUSED = { code: "IO", details: { field: "sync", found: "EIO" } };

function folder(): string {
  const root = temporaryFolder();
  return root;
}

beforeEach(() => failSync(Number.POSITIVE_INFINITY));

describe.runIf(process.platform === "linux")("after a failed sync", () => {
  test("of a named file, no sync, put, rename or link of the store succeeds", async () => {
    const root = folder();
    const store = new FileStore(root);
    await store.put("a/x", BYTES);
    await store.writeRange("a/x", 1, BYTES);
    failSync(1);
    await expect(store.sync(["a/x"])).rejects.toMatchObject({
      ...REFUSED,
      message: expect.stringContaining(join(root, "a", "x")),
    });
    for (const again of [
      () => store.sync(["a/x"]),
      () => store.sync([]),
      () => store.put("b", BYTES),
      () => store.rename("a/x", "a/y"),
      () => store.link("a/x", "a/z", "hard"),
      () => store.link("a/x", "a/z", "copy"),
    ])
      await expect(again()).rejects.toMatchObject(REFUSED);
    expect(await store.get("a/x")).toEqual(Uint8Array.of(1, 1, 2, 3));
    expect([await store.get("b"), await store.get("a/z")]).toEqual([undefined, undefined]);
    await new FileStore(root).sync(["a/x"]);
  });

  test("of a folder, the next sync does not make its entries durable", async () => {
    const store = new FileStore(folder());
    await store.put("x", BYTES);
    failSync(1, "named");
    await expect(store.put("y", BYTES)).rejects.toMatchObject(REFUSED);
    await expect(store.put("y", BYTES)).rejects.toMatchObject(REFUSED);
    await expect(store.sync([])).rejects.toMatchObject(REFUSED);
    await store.put("y", BYTES, { durable: false });
    await expect(store.sync(["y"])).rejects.toMatchObject(REFUSED);
  });

  test("caused by a full disk, the first error says so", async () => {
    const store = new FileStore(folder());
    await store.put("x", BYTES);
    failSync(1, "named", "ENOSPC");
    await expect(store.put("y", BYTES)).rejects.toMatchObject({ code: "NO_SPACE" });
    await expect(store.put("y", BYTES)).rejects.toMatchObject({ code: "IO", details: { found: "ENOSPC" } });
  });

  test("another sync that was under way is not trusted", async () => {
    const store = new FileStore(folder());
    await store.put("x", BYTES);
    failSync(1, "named");
    const outcomes = await Promise.allSettled(["a", "b", "c"].map((key) => store.put(key, BYTES)));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  });

  test("of a new file, the file is removed, and all of it can be written again", async () => {
    const store = new FileStore(folder());
    await store.put("x", BYTES);
    failSync(1, "new");
    await expect(store.put("y", BYTES)).rejects.toMatchObject({ code: "IO" });
    expect(await store.get("y")).toBeUndefined();
    await store.put("y", BYTES);
    await store.sync(["y"]);
    expect(await store.get("y")).toEqual(BYTES);
  });

  test("of the parent of a new folder, the folder counts as not created", async () => {
    const root = folder();
    const folders = new Folders(root);
    failSync(1, "named");
    await expect(folders.make("a", true)).rejects.toMatchObject(REFUSED);
    expect(folders.find("a")).toBeUndefined();
  });
});
