/**
 * Damaged archives: whatever is cut off, flipped or missing, every call ends in one error that gives the place, or
 * in exactly the original values; never in other values, never in a hang.
 */
import { describe, expect, test } from "vitest";
import type { Archive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { loadArchives } from "../fixtures/manifest.ts";
import { sample, sweep } from "../scope.ts";
import { loadFolder, type MemoryArchive } from "./memory-archive.ts";

const readable = loadArchives().filter((row) => !row.refuse);

/** All decoded bytes, or the error's code. Anything else that is thrown fails the test. */
async function outcome(store: MemoryStore, path: string): Promise<Uint8Array | string> {
  try {
    return await decodeAll(await open(store, path));
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    expect(error.message).toContain(error.details.path);
    return error.code;
  }
}

async function decodeAll(archive: Archive): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  const sources = archive.kind === "table" ? archive.names.map((name) => archive.column(name)) : [archive];
  for (const source of sources) for await (const piece of source.streamBytes()) parts.push(piece.slice());
  return new Uint8Array(await new Blob(parts as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

/** The metadata objects, and the first and last data file: those between are like the first. */
function oneOfEachKind(files: MemoryArchive["files"]): MemoryArchive["files"] {
  const data = files.filter(([key]) => /\.(blp|bin)$/.test(key));
  return files.filter(
    (file) => file[1].length > 0 && (!data.includes(file) || file === data[0] || file === data.at(-1)),
  );
}

/** Codes that damage may end in; UNSUPPORTED could be a later version or dtype. */
const DAMAGE = [
  "BAD_MAGIC",
  "TRUNCATED",
  "BAD_FIELD",
  "BAD_CHUNK",
  "CHECKSUM_MISMATCH",
  "INCOMPLETE",
  "UNSAFE_PATH",
  "UNSUPPORTED",
  "LIMIT",
];

describe.each(sample(readable, 30))("$path, cut short", (row) => {
  test("at any length of any of its files: an error or all the values", async () => {
    const { store, path, files } = await loadFolder(row.file);
    const whole = await decodeAll(await open(store, path));
    let errors = 0;
    for (const [key, bytes] of oneOfEachKind(files)) {
      const step = Math.max(1, Math.floor(bytes.length / sweep(30, 6)));
      for (let length = 0; length < bytes.length; length += length < 64 ? sweep(1, 7) : step) {
        await store.put(key, bytes.subarray(0, length));
        const result = await outcome(store, path);
        if (typeof result === "string") {
          errors++;
          expect(DAMAGE).toContain(result);
        } else expect(Buffer.compare(result, whole)).toBe(0);
      }
      await store.put(key, bytes);
    }
    expect(errors).toBeGreaterThan(0);
  });

  test("without any one of its files: an error or all the values", async () => {
    const { store, path, files } = await loadFolder(row.file);
    const whole = await decodeAll(await open(store, path));
    for (const [key, bytes] of files) {
      await store.delete(key);
      const result = await outcome(store, path);
      if (typeof result === "string") expect([...DAMAGE, "NOT_FOUND"]).toContain(result);
      else if (whole.length > 0) {
        // Attributes may be missing; data may not.
        expect(key).toMatch(/__attrs__$|attributes$/);
        expect(Buffer.compare(result, whole)).toBe(0);
      }
      await store.put(key, bytes);
    }
    expect(files.length).toBeGreaterThan(0);
  });
});

describe.each(
  sample(
    readable.filter((row) => row.kind !== "table"),
    30,
  ),
)("$path, one byte flipped", (row) => {
  test("in any header or table: an error, or the original values if the byte does not matter", async () => {
    const { store, path, files } = await loadFolder(row.file);
    const archive = await open(store, path);
    const whole = await decodeAll(archive);
    const { checksum } = archive.kind === "table" ? {} : await archive.summary();
    const sealed = checksum !== undefined && checksum !== "None";
    let tried = 0;
    for (const [key, bytes] of files) {
      if (!/\.(blp|bin)$/.test(key)) continue;
      for (let at = 0; at < Math.min(bytes.length, sealed ? 400 : 32); at += sweep(1, 7)) {
        const damaged = bytes.slice();
        damaged[at] = (damaged[at] ?? 0) ^ 0xff;
        await store.put(key, damaged);
        const result = await outcome(store, path);
        tried++;
        if (typeof result === "string") expect(DAMAGE).toContain(result);
        else expect(result.length).toBe(whole.length);
        if (typeof result !== "string" && sealed) expect(Buffer.compare(result, whole)).toBe(0);
      }
      await store.put(key, bytes);
      break;
    }
    expect(tried > 0 || whole.length === 0).toBe(true);
  });
});

describe("headers that promise more than the file holds", () => {
  const file = (row: string) => loadFolder(loadArchives().find((each) => each.path === row)?.file ?? "");

  async function withBytes(path: string, at: number, bytes: readonly number[]): Promise<Uint8Array | string> {
    const { store, path: key, files } = await file(path);
    const [name, original] = files.find(([key]) => /\.(blp|bin)$/.test(key)) ?? ["", new Uint8Array()];
    const damaged = original.slice();
    damaged.set(bytes, at);
    await store.put(name, damaged);
    return outcome(store, key);
  }

  const int64 = (value: bigint) => [...new Uint8Array(BigInt64Array.of(value).buffer)];

  test("2^62 chunks are refused before a table is read", async () => {
    expect(await withBytes("bloscpack-3/sum-adler32.blp", 16, int64(2n ** 62n))).toMatch(
      /BAD_FIELD|TRUNCATED|LIMIT/,
    );
    expect(await withBytes("bloscpack-3/append-api.blp", 16, int64(2n ** 62n))).toMatch(
      /BAD_FIELD|TRUNCATED|LIMIT/,
    );
    expect(await withBytes("bloscpack-3/append-api.blp", 24, int64(2n ** 62n))).toMatch(
      /BAD_FIELD|TRUNCATED|LIMIT/,
    );
    expect(await withBytes("bloscpack-1/v1-chunks.blp", 8, int64(2n ** 40n))).toBe("TRUNCATED");
  });

  test("negative counts other than -1 are refused", async () => {
    expect(await withBytes("bloscpack-3/append-api.blp", 16, int64(-2n))).toBe("BAD_FIELD");
    expect(await withBytes("bloscpack-3/append-api.blp", 24, int64(-5n))).toBe("BAD_FIELD");
  });

  test("offsets that are outside the file, inside the table, repeated or negative are refused", async () => {
    const first = 32;
    for (const offset of [2n ** 50n, 8n, -7n, 17000n]) {
      expect(await withBytes("bloscpack-3/append-api.blp", first, int64(offset))).toMatch(
        /BAD_FIELD|TRUNCATED/,
      );
    }
    const { files } = await file("bloscpack-3/append-api.blp");
    const second = [...(files[0]?.[1].slice(first + 8, first + 16) ?? [])];
    expect(await withBytes("bloscpack-3/append-api.blp", first, second)).toBe("BAD_FIELD");
  });

  test("a chunk that claims to decode to 2 GB is refused because it contradicts the archive's own sizes", async () => {
    expect(await withBytes("carray/bcolz-u2-exact", 20, [0xff, 0xff, 0xff, 0x7f])).toBe("BAD_FIELD");
  });

  test("an archive that claims 2^52 rows is refused before memory is allocated", async () => {
    const { store, path } = await file("carray/bcolz-f8-chunks");
    await store.put(
      "meta/sizes",
      new TextEncoder().encode(`{"shape": [${2 ** 49}], "nbytes": ${2 ** 52}, "cbytes": 1}`),
    );
    const archive = await open(store, path);
    if (archive.kind !== "array") throw new Error("not an array");
    await expect(archive.get()).rejects.toSatisfy(
      (error) => isSuperchunkError(error, "INCOMPLETE") || isSuperchunkError(error, "LIMIT"),
    );
    await expect(archive.get([5])).resolves.toBeTypeOf("number");
  });
});

describe("names that lead out of the archive", () => {
  test.each(["../secret", "/etc", "a/../../b", "..", "a\0b", ""])(
    "a column named %j is refused",
    async (name) => {
      const store = new MemoryStore();
      await store.put("t/__rootdirs__", new TextEncoder().encode(JSON.stringify({ names: [name] })));
      await expect(open(store, "t")).rejects.toThrow(SuperchunkError);
      await expect(open(store, "t")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    },
  );
});

describe("sources that are not archives", () => {
  test("no file, a folder of other files, and a file of another kind: each has its own error", async () => {
    const store = new MemoryStore();
    await store.put("other/readme.txt", new TextEncoder().encode("hello, this is text"));
    await expect(open(store, "nowhere")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(open(store, "other")).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await expect(open(store, "other/readme.txt")).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await store.put("x.blp", new TextEncoder().encode("hello, this is text"));
    await expect(open(store, "x.blp")).rejects.toMatchObject({ code: "BAD_MAGIC" });
    await store.put("y.blp", new Uint8Array());
    await expect(open(store, "y.blp")).rejects.toMatchObject({ code: "TRUNCATED" });
  });
});
