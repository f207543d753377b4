/** An archive that another one replaces while it is verified: parts of both were read, so the verdict would be about neither. */
import { describe, expect, it } from "vitest";
import type { VerifyReport } from "../../src/archive/kinds/types.ts";
import { open as openArchive } from "../../src/archive/open/open.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { open } from "../../src/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { walkKeys } from "../../src/store/tree.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { type ConvertFormat, convert } from "../../src/zarr.ts";
import { putCarray } from "../convert/to-zarr/make-archive.ts";

/** An archive of 1000 numbers at "out", or a table of three columns, by key. */
async function make(first: number, to: ConvertFormat, columns: readonly string[]): Promise<MemoryStore> {
  const source = new MemoryStore();
  const values = new Uint8Array(Int32Array.from({ length: 1000 }, (_, i) => first + i).buffer);
  const paths = columns.length === 0 ? ["a"] : columns.map((name) => `a/${name}`);
  for (const path of paths) await putCarray(source, path, values, 100, { dtype: "int32", shape: [1000] });
  if (columns.length > 0) await source.put("a/__rootdirs__", Buffer.from(JSON.stringify({ names: columns })));
  const store = new MemoryStore();
  await convert(await openArchive(source, "a"), { store, path: "out" }, { to });
  return store;
}

async function objectsOf(store: MemoryStore): Promise<Map<string, Uint8Array>> {
  const objects = new Map<string, Uint8Array>();
  for await (const key of walkKeys(store, "")) objects.set(key, (await store.get(key)) ?? new Uint8Array(0));
  return objects;
}

/** Verifies an archive that is replaced at the n-th request of the check. `pins`: the store refuses ranges of another version than it has seen. */
async function verifyReplaced(
  before: ReadonlyMap<string, Uint8Array>,
  after: ReadonlyMap<string, Uint8Array>,
  n: number,
  pins = false,
): Promise<{ report: VerifyReport | undefined; error: unknown; requests: readonly string[] }> {
  const memory = new MemoryStore();
  for (const [key, bytes] of before) await memory.put(key, bytes);
  const seen = new Map<string, string>();
  const requests: string[] = [];
  let isChecking = false;
  const store = interceptStore(memory, {
    onCall: async ({ method, key }, proceed) => {
      if (isChecking) {
        if (requests.length === n) for (const [name, bytes] of after) await memory.put(name, bytes);
        requests.push(key);
      }
      const version = (await memory.stat(key))?.version ?? "";
      if (!seen.has(key)) seen.set(key, version);
      else if (pins && method === "getRange" && seen.get(key) !== version)
        throw new SuperchunkError("STALE", "another version", { path: key });
      return proceed();
    },
    onSync: (_, proceed) => proceed(),
    onList: () => undefined,
  });
  const plain = Object.assign(store, { pinsVersions: pins, readInto: undefined, readIntoSync: undefined });
  const archive = await open(plain, "out");
  isChecking = true;
  try {
    return { report: await archive.verify(), error: undefined, requests };
  } catch (error) {
    return { report: undefined, error, requests };
  }
}

const ARRAYS = ["bloscpack", "bcolz", "b2nd", "zarr", "zarr3-transformer"] as const;
const CASES = [
  ...ARRAYS.map((to) => ({ to, columns: [] as string[] })),
  ...(["bcolz", "zarr"] as const).map((to) => ({ to, columns: ["x", "y"] })),
];

describe.each(CASES)("$to of columns $columns", ({ to, columns }) => {
  it("is STALE for verify, at whatever request another took its place", async () => {
    const one = await objectsOf(await make(1, to, columns));
    const other = await objectsOf(await make(5, to, columns));
    expect([...other.keys()].sort()).toEqual([...one.keys()].sort());
    const { report, requests } = await verifyReplaced(one, other, Number.POSITIVE_INFINITY);
    expect(report?.ok).toBe(true);
    // A check that begins after that sees only the other one; one that ends before it, only the first.
    const [first, last] = [columns.length + 1, requests.length - 1];
    let stale = 0;
    for (let n = 0; n <= last; n++) {
      const found = await verifyReplaced(one, other, n);
      if (found.error === undefined && (n < first || (n === last && found.report?.ok === true))) continue;
      expect(found.error, `at request ${n} of ${requests.length}`).toMatchObject({ code: "STALE" });
      expect(String(found.error)).toMatch(
        /changed while it was read; run it again|another array has taken its place/,
      );
      stale++;
    }
    expect(stale).toBeGreaterThan(0);
  });
});

it.each([
  ["bloscpack", []],
  ["bcolz", []],
  ["bcolz", ["x", "y"]],
] as const)(
  "%s of columns %o that was replaced since it was opened is STALE for verify",
  async (to, columns) => {
    const [one, other] = [
      await objectsOf(await make(1, to, columns)),
      await objectsOf(await make(5, to, columns)),
    ];
    const { error } = await verifyReplaced(one, other, 0);
    expect(error).toMatchObject({ code: "STALE" });
  },
);

describe.each(["bcolz", "zarr"] as const)("%s in a store that refuses other versions", (to) => {
  it("takes one more request to notice that another took its place", async () => {
    const [one, other] = [await objectsOf(await make(1, to, [])), await objectsOf(await make(5, to, []))];
    const { report, requests } = await verifyReplaced(one, other, Number.POSITIVE_INFINITY, true);
    expect(report?.ok).toBe(true);
    const document = to === "zarr" ? "out/zarr.json" : "out/meta/storage";
    expect(requests.filter((key) => key === document)).toHaveLength(1);
    const { error } = await verifyReplaced(one, other, 2, true);
    // The only shard of the Zarr array is refused itself.
    const reason = to === "zarr" ? "another version" : "changed while it was read; run it again";
    expect(error).toMatchObject({ code: "STALE" });
    expect(String(error)).toContain(reason);
  });
});
