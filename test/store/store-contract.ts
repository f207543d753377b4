/** What every store promises, as tests: the reading half for all, the writing half for those that can write. */
import { describe, expect, it } from "vitest";
import type { ListEntry, ReadableStore, WritableStore } from "../../src/store/types.ts";

/** Objects that the reading half expects in the store, and nothing else. */
export const OBJECTS: readonly (readonly [string, Uint8Array])[] = [
  ["data/__1__.bin", Uint8Array.from({ length: 1000 }, (_, i) => i % 251)],
  ["data/__2__.bin", Uint8Array.of(7, 8, 9)],
  ["meta/sizes", new TextEncoder().encode('{"shape": [1003]}')],
  ["empty", new Uint8Array(0)],
  ["a b/ü%41#?+.bin", Uint8Array.of(42)],
];

const BIG = new Uint8Array(OBJECTS[0]?.[1] ?? []);

/** Keys that no store takes. */
export const BAD_KEYS: readonly string[] = [
  "",
  "/",
  "/etc/passwd",
  "a/",
  "a//b",
  ".",
  "..",
  "./a",
  "a/.",
  "a/..",
  "a/../b",
  "../a",
  "a\\b",
  "..\\a",
  "a\0",
  "a\ud800b",
];

/** How the contract gets a store, and what it lacks by its nature. */
export interface ReadingSubject {
  readonly store: ReadableStore;
  /** False if the medium has no listing: then `list` throws UNSUPPORTED. */
  readonly lists: boolean;
  dispose?(): Promise<void>;
}

/** All entries of a folder, sorted by name. */
export async function collectEntries(store: ReadableStore, folder: string): Promise<ListEntry[]> {
  const entries: ListEntry[] = [];
  for await (const entry of store.list(folder)) entries.push({ name: entry.name, kind: entry.kind });
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The reading half, on a store that holds {@link OBJECTS}. */
export function describeReading(name: string, open: () => Promise<ReadingSubject>): void {
  const withStore = async (act: (subject: ReadingSubject) => Promise<void>): Promise<void> => {
    const subject = await open();
    try {
      await act(subject);
    } finally {
      await subject.store.close?.();
      await subject.dispose?.();
    }
  };

  describe(`${name} reads`, () => {
    it("gives the bytes of every object, in plain arrays at the start of their own buffer", () =>
      withStore(async ({ store }) => {
        for (const [key, bytes] of OBJECTS) {
          const got = await store.get(key);
          expect(got, key).toEqual(bytes);
          expect(Object.getPrototypeOf(got), key).toBe(Uint8Array.prototype);
          expect(got?.byteOffset, key).toBe(0);
        }
      }));

    it("gives bytes that belong to the caller", () =>
      withStore(async ({ store }) => {
        (await store.get("data/__2__.bin"))?.fill(0);
        (await store.getRange("data/__2__.bin", { offset: 0, length: 3 }))?.fill(0);
        expect(await store.get("data/__2__.bin")).toEqual(Uint8Array.of(7, 8, 9));
      }));

    it("returns undefined for absent objects", () =>
      withStore(async ({ store }) => {
        for (const key of ["nothing", "data/__3__.bin", "no/such/folder", "data/__1__.bin/below", "data"]) {
          expect(await store.get(key), key).toBeUndefined();
          expect(await store.getRange(key, { offset: 0, length: 4 }), key).toBeUndefined();
          expect(await store.getRange(key, { suffixLength: 4 }), key).toBeUndefined();
          expect(await store.stat(key), key).toBeUndefined();
          expect(await store.readInto?.(key, 0, new Uint8Array(4)), key).toBeUndefined();
          expect(store.readIntoSync?.(key, 0, new Uint8Array(4)), key).toBeUndefined();
        }
      }));

    it("gives ranges, truncated at the end of the object", () =>
      withStore(async ({ store }) => {
        const range = (offset: number, length: number) =>
          store.getRange("data/__1__.bin", { offset, length });
        expect(await range(10, 20)).toEqual(BIG.slice(10, 30));
        expect(await range(0, 1000)).toEqual(BIG);
        expect(await range(990, 20)).toEqual(BIG.slice(990));
        expect(await range(999, 1)).toEqual(BIG.slice(999));
        expect(await range(1000, 5)).toEqual(new Uint8Array(0));
        expect(await range(5000, 5)).toEqual(new Uint8Array(0));
        expect(await range(5, 0)).toEqual(new Uint8Array(0));
        expect(await range(5, Number.MAX_SAFE_INTEGER - 5)).toEqual(BIG.slice(5));
        expect(await store.getRange("empty", { offset: 0, length: 3 })).toEqual(new Uint8Array(0));
      }));

    it("gives the last bytes, or all of them if there are fewer", () =>
      withStore(async ({ store }) => {
        const suffix = (key: string, suffixLength: number) => store.getRange(key, { suffixLength });
        expect(await suffix("data/__1__.bin", 4)).toEqual(BIG.slice(996));
        expect(await suffix("data/__2__.bin", 100)).toEqual(Uint8Array.of(7, 8, 9));
        expect(await suffix("data/__2__.bin", 0)).toEqual(new Uint8Array(0));
        expect(await suffix("empty", 4)).toEqual(new Uint8Array(0));
      }));

    it("gives sizes, and the same version as long as nothing changes", () =>
      withStore(async ({ store }) => {
        for (const [key, bytes] of OBJECTS) {
          const info = await store.stat(key);
          expect(info?.size, key).toBe(bytes.length);
          expect(info?.version, key).toEqual(expect.any(String));
          expect(await store.stat(key), key).toEqual(info);
        }
      }));

    it("reads into a part of the caller's buffer and touches nothing outside it", () =>
      withStore(async ({ store }) => {
        const expected = new Uint8Array(32).fill(255);
        expected.set(BIG.subarray(100, 116), 8);
        const buffer = new Uint8Array(32).fill(255);
        const got = (await store.readInto?.("data/__1__.bin", 100, buffer.subarray(8, 24))) ?? "lacking";
        if (got !== "lacking") expect(buffer).toEqual(expected);
        expect(got).toBe(store.readInto ? 16 : "lacking");
        buffer.fill(255);
        const gotSync = store.readIntoSync?.("data/__1__.bin", 100, buffer.subarray(8, 24)) ?? "lacking";
        if (gotSync !== "lacking") expect(buffer).toEqual(expected);
        expect(gotSync).toBe(store.readIntoSync ? 16 : "lacking");
      }));

    it("reads fewer bytes into a buffer only at the end", () =>
      withStore(async ({ store }) => {
        const buffer = new Uint8Array(10).fill(255);
        expect((await store.readInto?.("data/__1__.bin", 997, buffer)) ?? 3).toBe(3);
        expect(store.readIntoSync?.("data/__1__.bin", 2000, buffer) ?? 0).toBe(0);
      }));

    it("reads the starts of many objects, each with what stat gives, in the order of the keys", () =>
      withStore(async ({ store }) => {
        const keys = ["empty", "nothing", ...OBJECTS.map(([key]) => key), "data", "no/such/folder"];
        for (const length of [16, 0]) {
          const heads = (await store.getHeads?.(keys, length)) ?? [];
          expect(heads.length).toBe(store.getHeads === undefined ? 0 : keys.length);
          for (const [i, head] of heads.entries()) {
            const key = keys[i] ?? "";
            expect(head?.bytes, key).toEqual(await store.getRange(key, { offset: 0, length }));
            const info = await store.stat(key);
            expect(head?.info ?? info, key).toEqual(info);
          }
        }
        for (const key of BAD_KEYS)
          await expect(
            store.getHeads?.(["empty", key], 4) ?? Promise.reject({ code: "UNSAFE_PATH" }),
          ).rejects.toMatchObject({ code: "UNSAFE_PATH" });
      }));

    it("refuses keys that are not plain paths", () =>
      withStore(async ({ store }) => {
        for (const key of BAD_KEYS) {
          const unsafe = { code: "UNSAFE_PATH" };
          const label = JSON.stringify(key);
          await expect(store.get(key), label).rejects.toMatchObject(unsafe);
          await expect(store.getRange(key, { suffixLength: 1 }), label).rejects.toMatchObject(unsafe);
          await expect(store.stat(key), label).rejects.toMatchObject(unsafe);
          if (store.readInto) {
            await expect(store.readInto(key, 0, new Uint8Array(1)), label).rejects.toMatchObject(unsafe);
          }
          if (key !== "") await expect(collectEntries(store, key), label).rejects.toMatchObject(unsafe);
        }
      }));

    it("refuses impossible ranges", () =>
      withStore(async ({ store }) => {
        const wrong = { code: "BAD_ARGUMENT" };
        const key = "data/__1__.bin";
        for (const value of [-1, 0.5, Number.NaN, 2 ** 53]) {
          await expect(store.getRange(key, { offset: value, length: 1 })).rejects.toMatchObject(wrong);
          await expect(store.getRange(key, { offset: 0, length: value })).rejects.toMatchObject(wrong);
          await expect(store.getRange(key, { suffixLength: value })).rejects.toMatchObject(wrong);
        }
      }));

    it("throws the reason of an abort", () =>
      withStore(async ({ store }) => {
        const signal = AbortSignal.abort(new Error("enough"));
        await expect(store.get("data/__1__.bin", { signal })).rejects.toThrow("enough");
        await expect(store.getRange("data/__1__.bin", { suffixLength: 1 }, { signal })).rejects.toThrow(
          "enough",
        );
        await expect(store.stat("data/__1__.bin", { signal })).rejects.toThrow("enough");
      }));

    it("lists the entries directly in a folder, or says that it cannot", () =>
      withStore(async ({ store, lists }) => {
        if (!lists) {
          await expect(collectEntries(store, "data")).rejects.toMatchObject({ code: "UNSUPPORTED" });
          return;
        }
        expect(await collectEntries(store, "")).toEqual([
          { name: "a b", kind: "folder" },
          { name: "data", kind: "folder" },
          { name: "empty", kind: "object" },
          { name: "meta", kind: "folder" },
        ]);
        expect(await collectEntries(store, "data")).toEqual([
          { name: "__1__.bin", kind: "object" },
          { name: "__2__.bin", kind: "object" },
        ]);
        expect(await collectEntries(store, "nothing")).toEqual([]);
        expect(await collectEntries(store, "empty")).toEqual([]);
      }));

    it("names objects in messages so that they can be found", () =>
      withStore(async ({ store }) => {
        expect(store.describe("meta/sizes")).toMatch(/meta[/\\]sizes$/);
      }));
  });
}

/** A store with every capability except the one that only networks need. */
export type FullStore = Required<
  Omit<
    WritableStore,
    | "getHead"
    | "getHeads"
    | "pinsVersions"
    | "renew"
    | "unpin"
    | "isFolder"
    | "identify"
    | "claim"
    | "readsToStat"
    | "sizeOf"
    | "explainAbsence"
    | "filePlace"
  >
>;

/** How the writing half gets an empty store: `S` gives its capabilities. */
export interface WritingSubject<S extends WritableStore = FullStore> {
  readonly store: S;
  dispose?(): Promise<void>;
}

type WithStore<S> = (act: (store: S) => Promise<void>) => Promise<void>;

function makeWithStore<S extends WritableStore>(open: () => Promise<WritingSubject<S>>): WithStore<S> {
  return async (act) => {
    const subject = await open();
    try {
      await act(subject.store);
    } finally {
      await subject.store.close?.();
      await subject.dispose?.();
    }
  };
}

const one = Uint8Array.of(1);
const two = Uint8Array.of(2, 2);

/** The writing half, on an empty store with every capability. */
export function describeWriting(name: string, open: () => Promise<WritingSubject>): void {
  describePutting(name, open);
  describeCapabilities(name, open);
}

/** What every writable store promises. */
export function describePutting(name: string, open: () => Promise<WritingSubject<WritableStore>>): void {
  const withStore = makeWithStore(open);

  describe(`${name} writes`, () => {
    it("puts a whole object, in folders created on the way, and returns what stat gives", () =>
      withStore(async (store) => {
        const info = await store.put("x/y/z.bin", two);
        expect(info.size).toBe(2);
        expect(await store.stat("x/y/z.bin")).toMatchObject(info);
        expect(await store.get("x/y/z.bin")).toEqual(two);
        expect(await collectEntries(store, "x/y")).toEqual([{ name: "z.bin", kind: "object" }]);
      }));

    it("puts pieces of any size from a maker that reuses its buffer", () =>
      withStore(async (store) => {
        const sizes = [0, 1, 100, 70_000, 131_071, 131_072, 1 << 20, 3, (1 << 20) + 1, 900_000, 900_000, 5];
        const expected = new Uint8Array(sizes.reduce((a, b) => a + b, 0));
        const reused = new Uint8Array((1 << 20) + 1);
        async function* make(): AsyncGenerator<Uint8Array> {
          let at = 0;
          for (const [i, size] of sizes.entries()) {
            reused.fill(i + 1);
            expected.fill(i + 1, at, at + size);
            at += size;
            yield reused.subarray(0, size);
            reused.fill(255);
          }
        }
        expect((await store.put("pieces", make())).size).toBe(expected.length);
        expect(Buffer.compare((await store.get("pieces")) ?? one, expected)).toBe(0);
      }));

    it("puts the pieces of a list in their order", () =>
      withStore(async (store) => {
        const pieces = Array.from({ length: 40 }, (_, i) =>
          new Uint8Array(i % 3 ? 300_000 + i : 10 * i).fill(i),
        );
        await store.put("list", pieces);
        expect(Buffer.compare((await store.get("list")) ?? one, Buffer.concat(pieces))).toBe(0);
      }));

    it("replaces an object and changes its version, also if the size stays the same", () =>
      withStore(async (store) => {
        const first = await store.put("x", one);
        const second = await store.put("x", Uint8Array.of(9));
        expect(second.version).not.toBe(first.version);
        expect(await store.get("x")).toEqual(Uint8Array.of(9));
        await store.put("x", two);
        expect(await store.get("x")).toEqual(two);
      }));

    it("puts if absent exactly once, however many try concurrently", () =>
      withStore(async (store) => {
        const tries = Array.from({ length: 8 }, (_, i) =>
          store.put("lock", Uint8Array.of(i), { ifAbsent: true }),
        );
        const outcomes = await Promise.allSettled(tries);
        const winners = outcomes.flatMap((outcome, i) => (outcome.status === "fulfilled" ? [i] : []));
        expect(winners).toHaveLength(1);
        expect(await store.get("lock")).toEqual(Uint8Array.from(winners));
        for (const outcome of outcomes) {
          if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "CONFLICT" });
        }
        expect(await collectEntries(store, "")).toEqual([{ name: "lock", kind: "object" }]);
      }));

    it("puts if the version is the expected one, and otherwise changes nothing", () =>
      withStore(async (store) => {
        await expect(store.put("s", one, { ifVersion: "none" })).rejects.toMatchObject({ code: "CONFLICT" });
        const { version } = await store.put("s", one);
        await store.put("s", two, { ifVersion: version });
        await expect(store.put("s", one, { ifVersion: version })).rejects.toMatchObject({ code: "CONFLICT" });
        expect(await store.get("s")).toEqual(two);
      }));

    it("keeps the old object and leaves nothing behind if the source fails", () =>
      withStore(async (store) => {
        await store.put("x", one);
        async function* fail(): AsyncGenerator<Uint8Array> {
          yield new Uint8Array(300_000);
          throw new Error("the source broke");
        }
        await expect(store.put("x", fail())).rejects.toThrow("the source broke");
        await expect(store.put("new/y", fail())).rejects.toThrow("the source broke");
        expect(await store.get("x")).toEqual(one);
        expect(await store.get("new/y")).toBeUndefined();
        expect(await collectEntries(store, "new")).toEqual([]);
      }));

    it("keeps the old object if it is aborted in the middle", () =>
      withStore(async (store) => {
        await store.put("x", one);
        const controller = new AbortController();
        async function* make(): AsyncGenerator<Uint8Array> {
          yield new Uint8Array(2 << 20);
          controller.abort(new Error("enough"));
          yield new Uint8Array(2 << 20);
        }
        await expect(store.put("x", make(), { signal: controller.signal })).rejects.toThrow("enough");
        expect(await store.get("x")).toEqual(one);
      }));

    it("deletes objects and empty folders, and accepts absent ones", () =>
      withStore(async (store) => {
        await store.put("d/x", one);
        await store.put("d/y", one);
        await store.delete("d/x");
        await store.delete("d/x");
        await store.delete("no/such");
        await store.delete("d");
        expect(await store.get("d/y")).toEqual(one);
        await store.delete("d/y");
        await store.delete("d");
        expect(await collectEntries(store, "")).toEqual([]);
      }));

    it("refuses to put and delete keys that are not plain paths", () =>
      withStore(async (store) => {
        for (const key of BAD_KEYS) {
          const label = JSON.stringify(key);
          await expect(store.put(key, one), label).rejects.toMatchObject({ code: "UNSAFE_PATH" });
          await expect(store.delete(key), label).rejects.toMatchObject({ code: "UNSAFE_PATH" });
        }
        expect(await collectEntries(store, "")).toEqual([]);
      }));
  });
}

function describeCapabilities(name: string, open: () => Promise<WritingSubject>): void {
  const withStore = makeWithStore(open);

  describe(`${name} also`, () => {
    it("reads what is there now into the caller's buffer", () =>
      withStore(async (store) => {
        const target = new Uint8Array(1);
        await store.put("x", Uint8Array.of(9));
        expect(store.readIntoSync("x", 0, target)).toBe(1);
        await store.put("x", two);
        expect(await store.readInto("x", 0, target)).toBe(1);
        expect(target).toEqual(Uint8Array.of(2));
      }));

    it("renames objects over others, and folders with everything in them", () =>
      withStore(async (store) => {
        await store.put("a", one);
        await store.put("b", two);
        await store.rename("a", "b");
        expect(await store.get("a")).toBeUndefined();
        expect(await store.get("b")).toEqual(one);
        await store.put("f/g/h", two);
        expect(await store.get("f/g/h")).toEqual(two);
        await store.rename("f", "new/f");
        expect(await store.get("new/f/g/h")).toEqual(two);
        expect(await store.get("f/g/h")).toBeUndefined();
        await expect(store.rename("nothing", "c")).rejects.toMatchObject({ code: "NOT_FOUND" });
        await store.put("full/x", one);
        await expect(store.rename("new", "full")).rejects.toMatchObject({ code: "CONFLICT" });
        await expect(store.rename("b", "full")).rejects.toMatchObject({ code: "CONFLICT" });
        expect(await store.get("full/x")).toEqual(one);
        expect(await store.get("b")).toEqual(one);
      }));

    it("syncs existing objects and names missing ones", () =>
      withStore(async (store) => {
        const keys = Array.from({ length: 20 }, (_, i) => `s/${i % 3}/${i}`);
        for (const key of keys) await store.put(key, one, { durable: false });
        await store.sync(keys);
        await expect(store.sync(["s/0/0", "s/none"])).rejects.toMatchObject({ code: "NOT_FOUND" });
      }));

    it("links: a hard link shares later changes in place, a copy does not, a symbolic link follows the name", () =>
      withStore(async (store) => {
        await store.put("data/from", two);
        await store.link("data/from", "c/hard", "hard");
        await store.link("data/from", "c/symbolic", "symbolic");
        await store.link("data/from", "c/copy", "copy");
        await store.writeRange("data/from", 1, Uint8Array.of(5));
        expect(await store.get("c/hard")).toEqual(Uint8Array.of(2, 5));
        expect(await store.get("c/symbolic")).toEqual(Uint8Array.of(2, 5));
        expect(await store.get("c/copy")).toEqual(two);
        await store.put("data/from", one);
        expect(await store.get("c/hard")).toEqual(Uint8Array.of(2, 5));
        expect(await store.get("c/symbolic")).toEqual(one);
        expect(await store.stat("c/symbolic")).toEqual({ isLink: true, ...(await store.stat("data/from")) });
        expect((await collectEntries(store, "c")).map(({ kind }) => kind)).toEqual([
          "object",
          "object",
          "object",
        ]);
        await expect(store.link("data/from", "c/hard", "hard")).rejects.toMatchObject({ code: "CONFLICT" });
        await expect(store.link("data/from", "c/copy", "copy")).rejects.toMatchObject({ code: "CONFLICT" });
        await expect(store.link("data/from", "c/copy", "symbolic")).rejects.toMatchObject({
          code: "CONFLICT",
        });
        await expect(store.link("nothing", "c/x", "hard")).rejects.toMatchObject({ code: "NOT_FOUND" });
      }));

    it("writes in place, extends, and changes the version", () =>
      withStore(async (store) => {
        const { version } = await store.put("x", Uint8Array.of(1, 2, 3));
        await store.writeRange("x", 2, Uint8Array.of(8, 9));
        expect(await store.get("x")).toEqual(Uint8Array.of(1, 2, 8, 9));
        await store.writeRange("x", 6, Uint8Array.of(4));
        expect(await store.get("x")).toEqual(Uint8Array.of(1, 2, 8, 9, 0, 0, 4));
        expect((await store.stat("x"))?.version).not.toBe(version);
        await expect(store.writeRange("y", 0, one)).rejects.toMatchObject({ code: "NOT_FOUND" });
      }));

    it("refuses keys that are not plain paths, for every other way to write", () =>
      withStore(async (store) => {
        const unsafe = { code: "UNSAFE_PATH" };
        await store.put("x", one);
        for (const key of BAD_KEYS) {
          const label = JSON.stringify(key);
          await expect(store.rename("x", key), label).rejects.toMatchObject(unsafe);
          await expect(store.rename(key, "x"), label).rejects.toMatchObject(unsafe);
          await expect(store.link("x", key, "hard"), label).rejects.toMatchObject(unsafe);
          await expect(store.link(key, "y", "copy"), label).rejects.toMatchObject(unsafe);
          await expect(store.writeRange(key, 0, one), label).rejects.toMatchObject(unsafe);
          await expect(store.sync([key]), label).rejects.toMatchObject(unsafe);
        }
        expect(await collectEntries(store, "")).toEqual([{ name: "x", kind: "object" }]);
      }));
  });
}
