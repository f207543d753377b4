/** Stores by python-blosc2: groups with their arrays, by their paths, and only errors of this library on damage. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { cutOf } from "../../src/blosc2/cut.ts";
import { type Frame, readFrame } from "../../src/blosc2/frame.ts";
import { frameStore } from "../../src/blosc2/open.ts";
import { ZipStore } from "../../src/blosc2/zip.ts";
import { convert } from "../../src/convert/run/convert.ts";
import { create } from "../../src/edit/edit.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { open as openFile } from "../../src/node/index.ts";
import { findReadables } from "../../src/open/find-readables.ts";
import { open, openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ByteRange, StoreOptions } from "../../src/store/types.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";

const folder = fileURLToPath(new URL("../../fixtures/blosc2-stores", import.meta.url));
const images = new Map<string, Uint8Array>();
for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
  const path = join(folder, name);
  if (/\.b2[dez]/.test(name) && statSync(path).isFile())
    images.set(name.replaceAll("\\", "/"), new Uint8Array(readFileSync(path)));
}
const store = new MemoryStore(images);
const values = JSON.parse(readFileSync(join(folder, "values.json"), "utf8")) as Readonly<
  Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
>;

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

test.each(Object.keys(values))("%s has the values that were written", async (path) => {
  const array = await openArray(store, path);
  expect(array.dialect).toBe("blosc2");
  expect(array.shape).toEqual(values[path]?.shape);
  expect(sha256(await array.getBytes())).toBe(values[path]?.sha256);
});

test("a walk of a folder finds the groups and arrays of every store", async () => {
  const arrays: string[] = [];
  const groups: string[] = [];
  for await (const { path, array, group, error } of findReadables(store)) {
    expect(error).toBeUndefined();
    if (array !== undefined) arrays.push(path);
    if (group !== undefined) groups.push(path);
  }
  expect(arrays.sort()).toEqual(Object.keys(values).sort());
  expect(groups).toHaveLength(3 * 5 + 3 * 2);
});

test.each(["tree.b2z", "tree.b2d", "embedded.b2z", "embedded.b2d"])(
  "%s is a group with its attributes, and becomes a Zarr group",
  async (name) => {
    const group = await open(store, name);
    expect(group).toMatchObject({ kind: "group", attrs: { title: "a tree" } });
    const target = new MemoryStore();
    const report = await convert(group, { store: target, path: "" }, { to: "zarr", verify: true });
    expect(report).toMatchObject({ chunksRecoded: 0, verified: true });
    const found = await openArray(target, "a/x");
    expect(sha256(await found.getBytes())).toBe(values[`${name}/a/x`]?.sha256);
    await expect(open(store, `${name}/a/none`)).rejects.toMatchObject({ code: "NOT_FOUND" });
  },
);

test.each(["tree.b2z", "embedded.b2z"])(
  "verify compares the members of %s with the checksums of the archive",
  async (name) => {
    const image = images.get(name) ?? new Uint8Array(0);
    const intact = await (await openArray(store, `${name}/a/x`)).verify();
    expect(intact).toMatchObject({ ok: true, digests: 1, findings: [] });
    // Any changed byte of a member is found, also if its chunks still decode.
    const start = new TextDecoder("latin1")
      .decode(image)
      .indexOf(name === "tree.b2z" ? "a/x.b2nd" : "embed.b2e");
    const missed: number[] = [];
    for (let at = start + 200; at < start + 260; at += 3) {
      const damaged = image.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      const opened = await openArray(new MemoryStore(new Map([[name, damaged]])), `${name}/a/x`).catch(
        () => {},
      );
      const { findings = [] } = (await opened?.verify()) ?? {};
      if (opened !== undefined && !findings.some(({ code }) => code === "CHECKSUM_MISMATCH")) missed.push(at);
    }
    expect(missed).toEqual([]);
  },
);

test("a file comes before a small array of the same name, which python-blosc2 3 leaves behind", async () => {
  const file = images.get("tree.b2d/a/b/y.b2nd") as Uint8Array;
  const replaced = new MemoryStore(new Map([...images, ["embedded.b2d/a/x.b2nd", file]]));
  const array = await openArray(replaced, "embedded.b2d/a/x");
  expect(sha256(await array.getBytes())).toBe(values["tree.b2d/a/b/y"]?.sha256);
});

test("a frame of small arrays is a store, and any other frame with its name an array of bytes", async () => {
  const group = await open(store, "small.b2e");
  expect(group).toMatchObject({ kind: "group", dialect: "blosc2" });
  const target = new MemoryStore();
  await convert(group, { store: target, path: "" }, { to: "zarr", verify: true });
  expect(sha256(await (await openArray(target, "a/x")).getBytes())).toBe(values["small.b2e/a/x"]?.sha256);
  await expect(open(store, "small.b2e/b")).rejects.toMatchObject({ code: "NOT_FOUND" });
  const other = new MemoryStore(new Map([["x.b2e", images.get("tree.b2d/a/x.b2nd") ?? new Uint8Array(0)]]));
  expect(await open(other, "x.b2e")).toMatchObject({ kind: "array", shape: [1000] });
});

test("reads a store of python-blosc2 4.7, whose frame without chunks gives their length as -1", async () => {
  const frame = Uint8Array.from(images.get("tree.b2d/embed.b2e") ?? []);
  frame.fill(255, 58, 62);
  const older = new MemoryStore(new Map([...images, ["tree.b2d/embed.b2e", frame]]));
  const array = await openArray(older, "tree.b2d/a/x");
  expect(sha256(await array.getBytes())).toBe(values["tree.b2d/a/x"]?.sha256);
});

test("a damaged store gives an error of this library, or values", async () => {
  let random = 3;
  const next = (limit: number): number => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor(random / 65_536) % limit;
  };
  let told = 0;
  for (const name of ["tree.b2z", "embedded.b2z"]) {
    const image = images.get(name) ?? new Uint8Array(0);
    for (let i = 0; i < sweep(1000, 100); i++) {
      const copy = i % 4 === 0 ? image.slice(0, next(image.length)) : image.slice();
      for (let changes = 0; changes < 3 && copy.length > 0; changes++)
        copy[i % 2 === 0 ? next(copy.length) : copy.length - 1 - next(Math.min(400, copy.length))] =
          next(256);
      try {
        const damaged = new MemoryStore(new Map([[name, copy]]));
        for (const path of ["a/b/y", "a/x"]) {
          const array = await openArray(damaged, `${name}/${path}`);
          if (array.nbytes < 1 << 22) await array.getBytes();
        }
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        told++;
      }
    }
  }
  expect(told).toBeGreaterThan(50);
});

test("members of a truncated archive are found by their own headers, if damage is allowed", async () => {
  const whole = images.get("tree.b2z") as Uint8Array;
  // Within the third member; the directory at the end is lost with it.
  const cut = new MemoryStore(new Map([["tree.b2z", whole.slice(0, 3000)]]));
  await expect(open(cut, "tree.b2z")).rejects.toMatchObject({ code: "BAD_MAGIC" });
  const lost: string[] = [];
  const target = new MemoryStore();
  const source = await open(cut, "tree.b2z", {
    damaged: "fill",
    onDamage: (report) => lost.push(...report.lost),
  });
  const report = await convert(source, { store: target, path: "" }, { to: "zarr", verify: true });
  expect(report).toMatchObject({ arrays: 2, verified: true });
  expect(lost).toEqual(["members from byte 2755 on: the archive is truncated, without a directory"]);
  for (const name of ["prices", "a/x"])
    expect(sha256(await (await openArray(target, name)).getBytes())).toBe(values[`tree.b2z/${name}`]?.sha256);
});

test("a name with a backslash, which no key has, is percent-encoded, and its member is read", async () => {
  // The name is in the member's header and in the directory.
  const text = Buffer.from(images.get("tree.b2z") ?? [])
    .toString("latin1")
    .replaceAll("prices.b2nd", "pri\\es.b2nd");
  const named = new MemoryStore(new Map([["x.b2z", new Uint8Array(Buffer.from(text, "latin1"))]]));
  const array = await openArray(named, "x.b2z/pri%5Ces");
  expect(sha256(await array.getBytes())).toBe(values["tree.b2z/prices"]?.sha256);
});

test("names a path that the store does not have, and says what to do", async () => {
  await expect(open(store, "tree.b2z/a/nothing")).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringMatching(
      /tree\.b2z: the store has no group or array "a\/nothing"; "superchunk ls"/,
    ) as string,
  });
});

/** A zip archive with one uncompressed member. */
function zipOf(name: string, bytes: Uint8Array): Buffer {
  const [local, entry, end] = [Buffer.alloc(30), Buffer.alloc(46), Buffer.alloc(22)];
  for (const [header, signature, at] of [
    [local, 0x0403_4b50, 14],
    [entry, 0x0201_4b50, 16],
  ] as const) {
    header.writeUInt32LE(signature);
    header.writeUInt32LE(crc32(bytes), at);
    header.writeUInt32LE(bytes.length, at + 4);
    header.writeUInt32LE(bytes.length, at + 8);
    header.writeUInt16LE(name.length, at + 12);
  }
  end.writeUInt32LE(0x0605_4b50);
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(entry.length + name.length, 12);
  end.writeUInt32LE(local.length + name.length + bytes.length, 16);
  return Buffer.concat([local, Buffer.from(name), bytes, entry, Buffer.from(name), end]);
}

test("an archive of 65,535 members, the most that need no longer end, opens", async () => {
  const image = zipOf("m00000.b2nd", images.get("tree.b2d/prices.b2nd") ?? new Uint8Array(0));
  const from = image.length - 22 - 46 - 11;
  const entry = image.subarray(from, image.length - 22);
  const entries = Array.from({ length: 65_535 }, (_, i) => {
    const copy = Buffer.from(entry);
    copy.write(`m${String(i).padStart(5, "0")}`, 46);
    return copy;
  });
  const end = Buffer.from(image.subarray(image.length - 22));
  end.writeUInt16LE(65_535, 8);
  end.writeUInt16LE(65_535, 10);
  end.writeUInt32LE(entry.length * 65_535, 12);
  const whole = new Uint8Array(Buffer.concat([image.subarray(0, from), ...entries, end]));
  const zip = await ZipStore.open(new MemoryStore(new Map([["a.b2z", whole]])), "a.b2z");
  expect([...zip.names()].at(-1)).toBe("m65534.b2nd");
});

test("what failed or was aborted for one caller is read again for the next, and shared reads take no one's signal", async () => {
  class Failing extends MemoryStore {
    isFailing = false;
    override async getRange(
      key: string,
      range: ByteRange,
      options?: StoreOptions,
    ): Promise<Uint8Array | undefined> {
      await new Promise((resolve) => setTimeout(resolve, 1));
      options?.signal?.throwIfAborted();
      if (this.isFailing) throw new SuperchunkError("IO", "the network failed", { path: key });
      return super.getRange(key, range);
    }
  }
  const failing = new Failing(images);
  Object.assign(failing, { readInto: undefined });
  const frame = (await readFrame(failing, "tree.b2d/prices.b2nd")) as Frame;
  const shown = frameStore(failing, frame);
  const key = `c${"/0".repeat(frame.metalayers.size > 0 ? cutOf(frame).shape.length : 1)}`;
  const whole = await frameStore(store, frame).get(key);
  expect(whole?.length).toBeGreaterThan(0);
  expect(await shown.filePlace("zarr.json")).toBeUndefined();
  failing.isFailing = true;
  await expect(shown.whyEncoded()).rejects.toThrow("the network failed");
  failing.isFailing = false;
  expect(await shown.whyEncoded()).toBe(await frameStore(store, frame).whyEncoded());
  const aborted = new AbortController();
  const reads = [shown.get(key, { signal: aborted.signal }), shown.get(key)];
  aborted.abort();
  expect((await Promise.allSettled(reads)).at(1)).toEqual({ status: "fulfilled", value: whole });

  // Longer than what is kept of an archive since it was opened.
  await failing.put("long.b2z", new Uint8Array(zipOf("prices.b2nd", new Uint8Array(300_000))));
  const zip = await ZipStore.open(failing, "long.b2z");
  failing.isFailing = true;
  await expect(zip.compareSum("prices.b2nd")).rejects.toThrow("the network failed");
  failing.isFailing = false;
  await zip.compareSum("prices.b2nd");
});

test("a .b2z file that another one replaces while it is read is STALE, not damaged", async () => {
  const zipped = async (rows: number): Promise<Buffer> => {
    const made = new MemoryStore();
    const values = Float64Array.from({ length: rows }, (_, i) => Math.sin(i * rows));
    const array = await create(made, "x", { dtype: "float64" });
    await array.append(values);
    await array.close();
    await convert({ store: made, path: "x" }, { store: made, path: "x.b2nd" }, { to: "b2nd" });
    return zipOf("x.b2nd", (await made.get("x.b2nd")) ?? new Uint8Array(0));
  };
  // More than what is kept of the file since it was opened.
  const [long, short] = [await zipped(60_000), await zipped(30_000)];
  const at = join(temporaryFolder(), "open.b2z");
  const cases = [
    [long, short],
    [short, long],
  ] as const;
  for (const [before, after] of cases) {
    writeFileSync(at, before);
    const array = await openFile(`${at}/x`);
    writeFileSync(at, after);
    await expect(array.verify()).rejects.toMatchObject({ code: "STALE" });
    await array.close();
    expect(await (await openFile(`${at}/x`)).verify()).toMatchObject({ ok: true, digests: 1 });
  }
});
