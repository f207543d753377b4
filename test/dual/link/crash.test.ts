/** Linking and unlinking interrupted at every step, and what other programs do to linked files. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { open as openIn } from "../../../src/archive/open/open.ts";
import { linkArchive } from "../../../src/dual/link.ts";
import type { DualFiles, LinkSite } from "../../../src/dual/types.ts";
import { unlinkArchive } from "../../../src/dual/undo.ts";
import { dualFiles } from "../../../src/node/dual/files.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { FileStore, link, open, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { sweep } from "../../scope.ts";
import { copyOf, hashOfZarr, sha256, snapshot, temporaryFolder } from "./support.ts";

class Outage extends Error {}

/** A site that counts every change, and fails from the given one on; a write that fails has written half. */
function failingSite(root: string, steps: number): { site: LinkSite; left: () => number } {
  let left = steps;
  const tick = (): void => {
    if (left-- <= 0) throw new Outage();
  };
  const step = async (change: () => Promise<void>): Promise<void> => {
    tick();
    await change();
  };
  const real = dualFiles(root, root);
  const files: DualFiles = {
    describe: (at) => real.describe(at),
    inspect: (at) => real.inspect(at),
    leadsTo: (to, from) => real.leadsTo(to, from),
    readEach: (key, offsets, length) => real.readEach(key, offsets, length),
    writeTail: async (at, offset, pieces, mode) => {
      const [first = new Uint8Array(0)] = pieces;
      if (left <= 0) await real.writeTail(at, offset, [first.subarray(0, first.length >> 1)], 0o644);
      tick();
      await real.writeTail(at, offset, pieces, mode);
    },
    truncate: (at, size) => step(() => real.truncate(at, size)),
    setMode: (at, mode) => step(() => real.setMode(at, mode)),
    link: (from, to, kind) => step(() => real.link(from, to, kind)),
    remove: (at) => step(() => real.remove(at)),
    sync: (places) => step(() => real.sync(places)),
    replace: (replacement) => real.replace(replacement),
  };
  const store = new FileStore(root);
  const target = new Proxy(store, {
    get: (object, name) => {
      const value: unknown = Reflect.get(object, name, object);
      if (typeof value !== "function") return value;
      const changes = ["put", "draft", "delete", "rename", "writeRange"].includes(String(name));
      return (...args: unknown[]): unknown => {
        if (changes) tick();
        return Reflect.apply(value, object, args);
      };
    },
  });
  return { site: { target, source: store, files, data: "." }, left: () => left };
}

const ROOTS = [
  ["blz-superchunk/i4-adler32-meta", "a short last chunk"],
  ["blz-superchunk/nested", "columns"],
  ["carray/bzl-U3", "one file per chunk"],
  ["blz-superchunk/f4-reserved", "room after its chunks, which the offsets do not show"],
] as const;

async function hashOf(path: string): Promise<string> {
  const archive = await open(path);
  try {
    if (archive.kind !== "array") throw new TypeError(archive.kind);
    return sha256(await archive.getBytes());
  } finally {
    await archive.close();
  }
}

/** Nodes of arrays in a root. */
function arraysIn(root: string): string[] {
  return ["", ...fs.readdirSync(root)].filter((name) => {
    const document = join(root, name, "zarr.json");
    return fs.existsSync(document) && nodeType(document) === "array";
  });
}

function nodeType(document: string): unknown {
  return (JSON.parse(fs.readFileSync(document, "utf8")) as { node_type?: unknown }).node_type;
}

describe.each(ROOTS)("%s, %s", (path) => {
  const source = join(corpusFolder, path);

  test("[FL-04] a link interrupted at any step leaves the archive readable, and the next call completes it", async () => {
    const hash = await hashOf(source);
    let steps = 0;
    for (let done = false; !done; steps += sweep(1, 9)) {
      const copy = copyOf(source);
      const before = snapshot(copy);
      const { site } = failingSite(copy, steps);
      try {
        await linkArchive(await openIn(site.source, ""), site);
        done = true;
      } catch (error) {
        if (!(error instanceof Outage)) throw error;
      }
      expect(await hashOf(copy)).toBe(hash);
      // Whatever is visible as Zarr is right.
      const whole = await open(source);
      for (const node of arraysIn(copy)) {
        const column = node === "" ? whole : whole.kind === "array" ? whole.column(node) : undefined;
        if (column?.kind !== "array") throw new TypeError("no such column");
        expect(await hashOfZarr(copy, node)).toBe(sha256(await column.getBytes()));
      }
      await whole.close();
      await link(copy);
      expect(await verifyLinkAt(copy)).toEqual([]);
      await unlink(copy);
      expect(snapshot(copy)).toEqual(before);
    }
    expect(steps).toBeGreaterThan(5);
  });

  test("[FL-05] an unlink interrupted at any step is completed by the next call, or linked again", async () => {
    const hash = await hashOf(source);
    let steps = 0;
    for (let done = false; !done; steps += sweep(1, 9)) {
      const copy = copyOf(source);
      const before = snapshot(copy);
      await link(copy);
      const { site } = failingSite(copy, steps);
      try {
        await unlinkArchive(site);
        done = true;
      } catch (error) {
        if (!(error instanceof Outage)) throw error;
      }
      expect(await hashOf(copy)).toBe(hash);
      if (steps % 2 === 0 || done) await link(copy);
      else if (!fs.existsSync(join(copy, "superchunk-link.json"))) await link(copy);
      await unlink(copy);
      expect(snapshot(copy)).toEqual(before);
    }
    expect(steps).toBeGreaterThan(5);
  });
});

describe("changes by other programs", () => {
  const source = join(corpusFolder, "blz-superchunk", "f8-default");

  test("a data file with a hard link elsewhere is never written to, by link or by unlink", async () => {
    const copy = copyOf(source);
    const file = join(copy, "data", "__2__.bin");
    const backup = join(temporaryFolder(), "backup.bin");
    fs.linkSync(file, backup);
    const before = snapshot(copy);
    await expect(link(copy)).rejects.toMatchObject({ code: "CONFLICT", details: { path: file, found: 2 } });
    expect(snapshot(copy)).toEqual(before);
    fs.rmSync(backup);
    await link(copy);
    fs.linkSync(file, backup);
    const linked = snapshot(copy);
    await expect(unlink(copy)).rejects.toMatchObject({ code: "CONFLICT", details: { path: file } });
    expect(snapshot(copy)).toEqual(linked);
    expect(await verifyLinkAt(copy)).toMatchObject([{ severity: "warning", code: "LINK" }]);
    // Copies do not change the data files, so these need not be the archive's own.
    const other = copyOf(source);
    fs.linkSync(join(other, "data", "__2__.bin"), join(temporaryFolder(), "backup.bin"));
    await link(other, undefined, { kind: "copy" });
    expect(await verifyLinkAt(other)).toEqual([]);
  });

  test("files that no link made are not replaced", async () => {
    for (const name of ["zarr.json", "c/0"]) {
      const copy = copyOf(source);
      fs.mkdirSync(join(copy, "c"), { recursive: true });
      fs.writeFileSync(join(copy, name), "mine");
      const before = snapshot(copy);
      await expect(link(copy)).rejects.toMatchObject({
        code: "CONFLICT",
        details: { path: join(copy, ...name.split("/")) },
      });
      expect(snapshot(copy)).toEqual(before);
    }
  });

  test("[FL-05] an append by another program that overwrites the index is found, repaired, and survives unlink", async () => {
    const file = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
    const original = fs.readFileSync(file);
    const root = `${file}.zarr`;
    await link(file, root);
    // Overwrites the bytes after the last chunk, as an append does, without a new chunk in the header.
    fs.chmodSync(file, 0o644);
    const handle = fs.openSync(file, "r+");
    fs.writeSync(handle, Buffer.alloc(8, 0xaa), 0, 8, original.length);
    fs.closeSync(handle);
    expect(await verifyLinkAt(root)).toMatchObject([
      { severity: "error", code: "SHARD_INDEX" },
      { severity: "warning", code: "LINK" },
    ]);
    expect((await link(file, root)).files).toMatchObject([{ action: "repair" }]);
    expect(await verifyLinkAt(root)).toEqual([]);
    await unlink(root);
    expect(fs.readFileSync(file).equals(original)).toBe(true);
    expect(fs.existsSync(root)).toBe(false);
  });

  test("an array that grew keeps its rows: the next link shows them, and unlink cuts none of them off", async () => {
    const root = join(temporaryFolder(), "grows");
    const array = await createArray(root, { dtype: "<i4", chunkLength: 4, superchunkLength: 2, threads: 0 });
    await array.append(Int32Array.from({ length: 8 }, (_, i) => i));
    await array.close();
    await link(root);
    expect(await hashOfZarr(root)).toBe(
      sha256(new Uint8Array(Int32Array.from({ length: 8 }, (_, i) => i).buffer)),
    );
    const again = await openWritable(root, { threads: 0 });
    await again.append(Int32Array.from({ length: 8 }, (_, i) => 8 + i));
    await again.compact();
    await again.close();
    const all = sha256(new Uint8Array(Int32Array.from({ length: 16 }, (_, i) => i).buffer));
    expect(await hashOf(root)).toBe(all);
    expect(await verifyLinkAt(root)).toMatchObject([{ severity: "warning", code: "BEHIND" }]);
    await link(root);
    expect(await hashOfZarr(root)).toBe(all);
    expect(await verifyLinkAt(root)).toEqual([]);
    await unlink(root);
    expect(await hashOf(root)).toBe(all);
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
  });

  test("[FL-04] a damaged record changes nothing", async () => {
    const copy = copyOf(source);
    await link(copy);
    const record = join(copy, "superchunk-link.json");
    const text = fs.readFileSync(record, "utf8");
    for (const [from, to] of [
      [/"size": \d+/, '"size": -1'],
      [/"size": \d+/, '"size": 18446744073709551615'],
      [/"data\/__1__.bin"/, '"../__1__.bin"'],
      [/"mode": "644"/, '"mode": "rw"'],
      [/"superchunk_link": 1/, '"superchunk_link": 2'],
      [/"documents": \[\s*"zarr.json"/, '"documents": ["meta/sizes", "zarr.json"'],
      [/"link": "c\/0"/, '"link": "meta/sizes"'],
      [/"link": "c\/0"/, '"link": "theirs/c/0"'],
    ] as const) {
      expect(text).toMatch(from);
      fs.writeFileSync(record, text.replace(from, to));
      const before = snapshot(copy);
      await expect(unlink(copy)).rejects.toMatchObject({
        code: expect.stringMatching(/^(BAD_FIELD|UNSAFE_PATH|UNSUPPORTED)$/) as string,
      });
      expect(snapshot(copy)).toEqual(before);
    }
  });

  test("[FL-04] a record that calls a file a folder does not cause it to be removed", async () => {
    const copy = copyOf(source);
    await link(copy);
    const record = join(copy, "superchunk-link.json");
    const text = fs.readFileSync(record, "utf8");
    expect(text).toMatch(/"folders": \[/);
    fs.writeFileSync(record, text.replace(/"folders": \[/, '"folders": ["meta/sizes", '));
    const sizes = fs.readFileSync(join(copy, "meta", "sizes"));
    await unlink(copy);
    expect(fs.readFileSync(join(copy, "meta", "sizes"))).toEqual(sizes);
  });
});

const TEMPORARY = ".zarr.json.0123456789abcdef.tmp";

test("[FL-04] after a failed sync, linking again writes every index before a document refers to it", async () => {
  const root = copyOf(join(corpusFolder, "blz-superchunk/i4-adler32-meta"));
  const store = new FileStore(root);
  const real = dualFiles(root);
  const wrote: string[] = [];
  let fails = true;
  const files = new Proxy(real, {
    get: (object, name) => {
      const value: unknown = Reflect.get(object, name, object);
      if (name !== "writeTail") return typeof value === "function" ? value.bind(object) : value;
      return async (...args: Parameters<DualFiles["writeTail"]>): Promise<void> => {
        await real.writeTail(...args);
        wrote.push(args[0].key);
        if (fails) throw new Outage(); // the bytes look right, but may never reach the disk
      };
    },
  });
  const site: LinkSite = { target: store, source: store, files, data: "." };
  await expect(linkArchive(await openIn(store, ""), site)).rejects.toThrow(Outage);
  wrote.length = 0;
  fails = false;
  await linkArchive(await openIn(store, ""), site);
  await store.close();
  expect(wrote.sort()).toEqual(
    fs
      .readdirSync(join(root, "data"))
      .map((name) => `data/${name}`)
      .sort(),
  );
  expect(await verifyLinkAt(root)).toEqual([]);
  // Nothing of a finished link is written again.
  expect((await link(root)).done).toBe(true);
});

test.each([false, true])(
  "[FL-05] unlink removes the document that a killed link left unfinished (with a record: %s)",
  async (hasRecord) => {
    const root = copyOf(join(corpusFolder, "blz-superchunk/i4-adler32-meta"));
    const before = snapshot(root);
    if (hasRecord) await link(root);
    fs.writeFileSync(join(root, TEMPORARY), "{");
    if (hasRecord) await unlink(root);
    else await expect(unlink(root)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(snapshot(root)).toEqual(before);
  },
);

test("[FL-04] linking removes the document that a killed link left unfinished", async () => {
  const root = copyOf(join(corpusFolder, "blz-superchunk/nested"));
  fs.writeFileSync(join(root, TEMPORARY), "{");
  await link(root);
  expect(fs.existsSync(join(root, TEMPORARY))).toBe(false);
  expect(await verifyLinkAt(root)).toEqual([]);
});
