/** Two conversions to one destination at the same time: one is refused, and nothing of it is in the other's result. */
import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { openArray } from "../../src/index.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { walkKeys } from "../../src/store/tree.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { interceptStore, type StoreCall } from "../../src/store/wrappers/intercept.ts";
import { type ConvertFormat, type ConvertOptions, type ConvertResult, convert } from "../../src/zarr.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { putCarray } from "./to-zarr/make-archive.ts";

const countTo = (last: number): number[] => Array.from({ length: 1000 }, (_, i) => Math.sign(last) * (i + 1));

/** Converts the values 1, 2, … 1000, or -1, -2, … to "out". */
async function convertTo(
  last: number,
  store: WritableStore,
  to: ConvertFormat,
  options: ConvertOptions = {},
): Promise<ConvertResult> {
  const source = new MemoryStore();
  const values = new Uint8Array(Int32Array.from(countTo(last)).buffer);
  await putCarray(source, "a", values, 100, { dtype: "int32", shape: [1000] });
  return convert(await open(source, "a"), { store, path: "out" }, { to, chunksPerShard: 3, ...options });
}

async function valuesIn(store: WritableStore): Promise<number[]> {
  const array = await openArray(store, "out");
  expect((await array.verify()).ok).toBe(true);
  return Array.from((await array.get()).data as Int32Array);
}

/** True if the values of the format can be read back here as an array. */
const isArray = (to: ConvertFormat): boolean => !["npy", "parquet", "arrow"].includes(to);

const formats = ["zarr", "zarr3-transformer", "bcolz", "blz", "npy", "bloscpack", "b2nd", "parquet", "arrow"];

/** The stored bytes, by key. Not of hidden objects: an interrupted conversion may leave them. */
async function objectsOf(store: WritableStore): Promise<Map<string, string>> {
  const objects = new Map<string, string>();
  for await (const key of walkKeys(store, ""))
    if (!key.startsWith(".")) objects.set(key, Buffer.from((await store.get(key)) ?? []).toString("base64"));
  return objects;
}

/** A store like a bucket, which neither renames nor claims. */
const bucketLike = (store: MemoryStore): WritableStore =>
  Object.assign(interceptStore(store, { onCall: (_, proceed) => proceed() }), { rename: undefined });

/** A store that calls back before its n-th change. */
function withCallback(inner: WritableStore, n: number, callback: () => Promise<unknown> | undefined) {
  let changes = 0;
  const onCall = async <T>({ method }: { method: string }, proceed: () => Promise<T>): Promise<T> => {
    if (["put", "delete", "rename"].includes(method) && changes++ === n) await callback();
    return proceed();
  };
  return { store: interceptStore(inner, { onCall }), changes: () => changes };
}

describe("two conversions that begin at the same time", () => {
  it.each(formats as ConvertFormat[])("to %s", async (to) => {
    const store = new MemoryStore();
    const results = await Promise.allSettled([1000, -1000].map((last) => convertTo(last, store, to)));
    const refused = results.filter((result) => result.status === "rejected");
    expect(refused.map(({ reason }) => isSuperchunkError(reason, "CONFLICT"))).toEqual([true]);
    if (!isArray(to)) return;
    expect(await valuesIn(store)).toEqual(countTo(results[0]?.status === "fulfilled" ? 1000 : -1000));
  });
});

it("a conversion that looked at the destination before another began and ended there is refused", async () => {
  class Late extends MemoryStore {
    #isLate = true;
    override async put(...put: Parameters<MemoryStore["put"]>): ReturnType<MemoryStore["put"]> {
      const isFirst = this.#isLate;
      this.#isLate = false;
      if (isFirst) await convertTo(1000, this, "zarr");
      return super.put(...put);
    }
  }
  const store = new Late();
  await expect(convertTo(-1000, store, "zarr")).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await valuesIn(store)).toEqual(countTo(1000));
  expect(await store.stat("out/.superchunk-convert.json")).toBeUndefined();
});

it.each(["zarr", "bcolz", "npy"] as const)(
  "of two that resume a conversion to %s at once, one is refused",
  async (to) => {
    for (let n = 2; ; n += sweep(1, 3)) {
      const memory = new MemoryStore();
      const died = new Error("died");
      let isDead = false;
      const onCall = async <T>({ method }: { method: string }, proceed: () => Promise<T>): Promise<T> => {
        if (isDead && ["put", "delete"].includes(method)) throw died;
        return proceed();
      };
      const { store, changes } = withCallback(interceptStore(bucketLike(memory), { onCall }), n, async () => {
        isDead = true;
      });
      if ((await Promise.allSettled([convertTo(1000, store, to)]))[0]?.status === "fulfilled") break;
      expect(changes()).toBeGreaterThan(n);
      if (
        (await memory.stat(
          to === "zarr" ? "out/.superchunk-convert.json" : ".out.superchunk-convert.json",
        )) === undefined
      )
        break;
      const resumed = [1, 2].map(() => convertTo(1000, bucketLike(memory), to, { resume: true }));
      const results = await Promise.allSettled(resumed);
      const refused = results.filter((result) => result.status === "rejected");
      expect(
        refused.map(({ reason }) => isSuperchunkError(reason, "CONFLICT")),
        `at ${n}`,
      ).toEqual([true]);
      if (isArray(to)) expect(await valuesIn(memory)).toEqual(countTo(1000));
    }
  },
);

it.each(["zarr", "bcolz"] as const)(
  "%s is overwritten where a server knows no conditions of deletes and puts",
  async (to) => {
    const memory = new MemoryStore();
    await convertTo(1000, memory, to);
    let refused = 0;
    const onCall = async <T>({ method, args }: StoreCall, proceed: () => Promise<T>): Promise<T> => {
      const { ifVersion } = (args.at(-1) ?? {}) as { ifVersion?: string };
      if (ifVersion === undefined) return proceed();
      refused++;
      throw new SuperchunkError(method === "put" ? "UNSUPPORTED" : "IO", "not implemented");
    };
    await convertTo(-1000, interceptStore(bucketLike(memory), { onCall }), to, { overwrite: true });
    expect(refused).toBeGreaterThan(1);
    expect(await valuesIn(memory)).toEqual(countTo(-1000));
  },
);

// Nothing of the older Zarr hierarchies is ever overwritten.
const replaceable = formats.filter((to) => to !== "zarr3-transformer") as ConvertFormat[];

/** What two conversions, with overwrite, do to a place: the later one begins before the n-th change of the earlier one, which waits for it if `waits`. */
async function race(
  n: number,
  to: ConvertFormat,
  options: { readonly waits: boolean; readonly verify: boolean },
) {
  const { waits, verify } = options;
  const memory = new MemoryStore();
  await convertTo(500, memory, to);
  let second: Promise<PromiseSettledResult<ConvertResult>[]> | undefined;
  const { store, changes } = withCallback(bucketLike(memory), n, () => {
    second = Promise.allSettled([convertTo(-1000, bucketLike(memory), to, { overwrite: true })]);
    return waits ? second : undefined;
  });
  const [earlier] = await Promise.allSettled([convertTo(1000, store, to, { overwrite: true, verify })]);
  const [later] = (await second) ?? [];
  for (const each of [earlier, later])
    if (each?.status === "rejected")
      expect(each.reason, `at change ${n}`).toMatchObject({ code: "CONFLICT" });
  return { memory, earlier: earlier.status, later: later?.status, isOver: changes() <= n };
}

describe.each(replaceable)("a conversion to %s that another one overwrites meanwhile", (to) => {
  /** What is in the place: the values, or all bytes of a format that is not read back here. */
  const resultIn = (store: WritableStore): Promise<unknown> =>
    isArray(to) ? valuesIn(store) : objectsOf(store);
  /** What `convert` makes of the values, in a place where nothing was. */
  const alone = async (last: number): Promise<unknown> => {
    const store = new MemoryStore();
    await convertTo(last, store, to);
    return resultIn(store);
  };

  it.each([
    { waits: true, verify: false },
    { waits: true, verify: true },
    { waits: false, verify: false },
  ])("does not get parts of both: $waits $verify", async (options) => {
    const wanted = [await alone(1000), await alone(-1000)];
    let refused = 0;
    for (let n = 0; ; n += n < 4 ? 1 : sweep(1, 4)) {
      const { memory, earlier, later, isOver } = await race(n, to, options);
      if (isOver) break;
      const where = `at change ${n}: ${earlier}, ${later}`;
      if (earlier === "rejected" || later === "rejected") refused++;
      if (earlier === "rejected" && later === "rejected") {
        // A file is whole, whichever it is of.
        const found = await resultIn(memory).catch(() => undefined);
        if (found !== undefined) expect([...wanted, new Map()], where).toContainEqual(found);
        continue;
      }
      const found = await resultIn(memory);
      if (earlier === later) expect(wanted, where).toContainEqual(found);
      else expect(found, where).toEqual(wanted[earlier === "fulfilled" ? 0 : 1]);
    }
    expect(refused).toBeGreaterThan(0);
  });

  it("is not disturbed on a disk, where the other one is refused", async () => {
    const folder = new FileStore(temporaryFolder());
    await convertTo(500, folder, to);
    let refused: unknown;
    const { store } = withCallback(folder, 2, async () => {
      const other = convertTo(-1000, new FileStore(folder.root), to, { overwrite: true });
      refused = await other.catch((error: unknown) => error);
    });
    await convertTo(1000, store, to, { overwrite: true });
    expect(refused).toMatchObject({ code: "CONFLICT" });
    expect(String(refused)).toContain("another conversion to this place is running");
    expect(await resultIn(folder)).toEqual(await alone(1000));
  });
});
