/** Every archive of the corpus, damaged in every way: whole chunks are saved, and all others are named. */
import * as fs from "node:fs";
import { join, relative } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type {
  Archive,
  ArrayArchive,
  ChunkedArchive,
  ChunkInfo,
  Hole,
  Progress,
  TableArchive,
} from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { decode } from "../../src/codec/index.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { formatDType } from "../../src/format/dtype.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import { keysOf, sha256 } from "../convert/to-zarr/read-back.ts";
import { type Fixture, findFixture, loadArchives } from "../fixtures/manifest.ts";
import { isExhaustive, sample } from "../scope.ts";
import { type FaultPlan, withFaults } from "../store/faulty.ts";

/** Archives of chunks, except one whose values may not be read, and one that was never finished. */
const archives = loadArchives().filter(
  ({ path, refuse }) => !refuse && path !== "blz-superchunk/aborted" && path !== "carray/bcolz-object",
);

/** The key of a file's archive. */
const FILE = "archive.blp";

interface Column {
  readonly name: string | undefined;
  readonly chunks: readonly ChunkInfo[];
  readonly chunkBytes: number;
  readonly rowBytes: number;
  /** Decoded bytes in stored order. */
  readonly bytes: Uint8Array;
}

/** An archive as it was before. */
interface Whole {
  readonly key: string;
  readonly image: ReadonlyMap<string, Uint8Array>;
  readonly columns: readonly Column[];
  readonly told: { readonly dtype?: never; readonly shape?: readonly number[]; readonly chunklen?: number };
}

/** The files of an archive, by their keys. */
function loadImage(fixture: Fixture): { readonly image: Map<string, Uint8Array>; readonly isFile: boolean } {
  const image = new Map<string, Uint8Array>();
  const isFile = fs.statSync(fixture.file).isFile();
  if (isFile) image.set(FILE, new Uint8Array(fs.readFileSync(fixture.file)));
  else
    for (const entry of fs.readdirSync(fixture.file, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) image.set(relative(fixture.file, path), new Uint8Array(fs.readFileSync(path)));
    }
  return { image, isFile };
}

async function load(fixture: Fixture): Promise<Whole> {
  const { image, isFile } = loadImage(fixture);
  const key = isFile ? FILE : "";
  const archive = await open(new MemoryStore(image), key);
  const leaves = leavesOf(archive);
  const columns: Column[] = [];
  for (const [name, leaf] of leaves) {
    const chunks: ChunkInfo[] = [];
    for await (const chunk of leaf.listChunks()) chunks.push(chunk);
    const rows = "shape" in leaf ? ((leaf as ArrayArchive).shape[0] ?? 1) : leaf.nbytes;
    const order = "order" in leaf ? (leaf as ArrayArchive).order : "C";
    const dimensions = "shape" in leaf ? (leaf as ArrayArchive).shape : [leaf.nbytes];
    const stored = order === "F" ? (dimensions.at(-1) ?? 1) : rows;
    const bytes = await leaf.readBytes(0, leaf.nbytes);
    columns.push({
      name,
      chunks,
      chunkBytes: leaf.chunkBytes,
      rowBytes: leaf.nbytes / Math.max(1, stored),
      bytes,
    });
  }
  // The column whose metadata come first among the files: its storage is removed.
  const storage = [...image.keys()].find((name) => name.endsWith("meta/storage")) ?? "";
  const first = (leaves.find(([name]) => storage.startsWith(`${name}/`))?.[1] ??
    leaves[0]?.[1]) as ArrayArchive;
  const told =
    archive.kind === "array"
      ? {
          dtype: formatDType(archive.dtype) as never,
          ...(isFile ? { shape: archive.shape } : { chunklen: archive.chunkLength }),
        }
      : archive.kind === "table"
        ? { dtype: formatDType(first.dtype) as never, chunklen: first.chunkLength }
        : {};
  return { key, image, columns, told: told as Whole["told"] };
}

function leavesOf(archive: Archive): (readonly [string | undefined, ChunkedArchive])[] {
  if (archive.kind === "bytes") return [[undefined, archive]];
  const names = archive.kind === "table" ? archive.names : archive.columnNames;
  if (names.length === 0) return [[undefined, archive as ArrayArchive]];
  return names.map((name) => [name, archive.column(name)]);
}

/** What damage does to the archive: the objects that are left, and what can no longer be known about the chunks. */
interface Damage {
  readonly image: ReadonlyMap<string, Uint8Array>;
  /** The caller has to say what the chunks hold. */
  readonly tells?: boolean;
  /** The places of this file's chunks are lost. */
  readonly unplaced?: string;
  /** Only the offset said where this chunk is. */
  readonly lost?: ChunkInfo;
}

type Kind =
  | "flipped byte"
  | "cut file"
  | "cut file, late"
  | "chunk file removed"
  | "header zeroed"
  | "offsets zeroed"
  | "one offset wrong"
  | "one offset beyond the file"
  | "sizes removed"
  | "storage removed";

/** The same numbers in every run. */
function pick(fixture: Fixture, salt: number, length: number): number {
  let hash = salt;
  for (const letter of fixture.path) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return hash % Math.max(1, length);
}

function damageOf(kind: Kind, fixture: Fixture, whole: Whole): Damage | undefined {
  const all = whole.columns.flatMap(({ chunks }) => chunks);
  const chunk = all[pick(fixture, 1, all.length)];
  const edit = (key: string, change: (bytes: Uint8Array) => Uint8Array | undefined): Damage["image"] => {
    const image = new Map(whole.image);
    const bytes = change((image.get(key) ?? new Uint8Array(0)).slice());
    if (bytes === undefined) image.delete(key);
    else image.set(key, bytes);
    return image;
  };
  const metadata = (name: string): string | undefined =>
    [...whole.image.keys()].find((key) => key.endsWith(`meta/${name}`));
  if (kind === "sizes removed" || kind === "storage removed") {
    const key = metadata(kind === "sizes removed" ? "sizes" : "storage");
    if (key === undefined) return undefined;
    return { image: edit(key, () => undefined), tells: kind === "storage removed" };
  }
  if (chunk === undefined) return undefined;
  const file = whole.image.get(chunk.key) ?? new Uint8Array(0);
  const version = file[4] ?? 0;
  const isOrdered = all.every(({ key, offset }, i) => {
    const before = all[i - 1];
    return before === undefined || before.key !== key || before.offset < offset;
  });
  switch (kind) {
    case "flipped byte": {
      const at = chunk.offset + 16 + pick(fixture, 2, chunk.ctbytes - 16);
      return { image: edit(chunk.key, (bytes) => bytes.fill((bytes[at] ?? 0) ^ 0x10, at, at + 1)) };
    }
    case "cut file":
    case "cut file, late": {
      const isLate = kind === "cut file, late";
      const at = isLate ? file.length - 1 - pick(fixture, 4, file.length / 4) : pick(fixture, 3, file.length);
      const first = Math.min(...all.filter(({ key }) => key === chunk.key).map(({ offset }) => offset));
      return {
        image: edit(chunk.key, (bytes) => bytes.subarray(0, at)),
        tells: whole.key !== "" && at < first,
      };
    }
    case "chunk file removed":
      return whole.key === "" ? { image: edit(chunk.key, () => undefined) } : undefined;
    case "header zeroed":
      return { image: edit(chunk.key, (bytes) => bytes.fill(0, 0, version === 1 ? 16 : 32)) };
    case "offsets zeroed":
    case "one offset wrong":
    case "one offset beyond the file": {
      const offsets = version > 1 && ((file[5] ?? 0) & 1) === 1;
      if (!offsets) return undefined;
      const { chunks = [] } = whole.columns.find((column) => column.chunks.includes(chunk)) ?? {};
      const own = chunks.filter(({ key }) => key === chunk.key);
      const table =
        file.length === 0
          ? -1
          : findTable(
              file,
              own.map(({ offset }) => offset),
            );
      if (kind !== "offsets zeroed") {
        const at = table + 8 * own.indexOf(chunk) + (kind === "one offset wrong" ? 0 : 7);
        return {
          image: edit(chunk.key, (bytes) => bytes.fill((bytes[at] ?? 0) ^ 0x10, at, at + 1)),
          ...(isOrdered && version < 4 ? {} : { lost: chunk }),
        };
      }
      return {
        image: edit(chunk.key, (bytes) => bytes.fill(0, table, table + 8 * own.length)),
        ...(isOrdered ? {} : { unplaced: chunk.key }),
      };
    }
  }
}

/** The offsets of a file, as one run of bytes. */
function findTable(file: Uint8Array, offsets: readonly number[]): number {
  const entries = new BigInt64Array(offsets.map(BigInt));
  return Buffer.from(file).indexOf(Buffer.from(entries.buffer));
}

/** Whether a chunk is unchanged; if other bytes decode and there is no digest, this cannot be known. */
async function stateOf(
  chunk: ChunkInfo,
  whole: Whole,
  { image, unplaced, lost }: Damage,
): Promise<"whole" | "gone" | "other"> {
  if (chunk.key === unplaced || chunk === lost) return "gone";
  const length = chunk.ctbytes + (chunk.digest?.length ?? 0) / 2;
  const bytesIn = (files: ReadonlyMap<string, Uint8Array>): Uint8Array =>
    (files.get(chunk.key) ?? new Uint8Array(0)).subarray(chunk.offset, chunk.offset + length);
  const [before, after] = [bytesIn(whole.image), bytesIn(image)];
  if (Buffer.from(before).equals(Buffer.from(after))) return "whole";
  if (chunk.checksum !== "None" || after.length < length) return "gone";
  try {
    await decode(after, { expectedNbytes: chunk.nbytes });
    return "other";
  } catch (error) {
    if (isSuperchunkError(error)) return "gone";
    throw error;
  }
}

const KINDS: readonly Kind[] = [
  "flipped byte",
  "cut file",
  "cut file, late",
  "chunk file removed",
  "header zeroed",
  "offsets zeroed",
  "one offset wrong",
  "one offset beyond the file",
  "sizes removed",
  "storage removed",
];

/** Chunks saved, and chunks that could be, by dialect and damage. */
const table = new Map<string, { saved: number; savable: number; archives: number }>();

describe.each(KINDS.map((kind, k) => [kind, k] as const))("%s", (kind, k) => {
  // Each archive with every third kind of damage, and each kind with a third of the archives.
  const chosen = archives.filter((_, i) => isExhaustive || (i + k) % 3 === 0);
  test.each(chosen.map((fixture) => [fixture.path, fixture] as const))(
    "%s: every whole chunk is saved, and all others are named",
    async (_, fixture) => {
      const whole = await load(fixture);
      const damage = damageOf(kind, fixture, whole);
      if (damage === undefined) {
        expect(KINDS).toContain(kind);
        return;
      }
      const source = new MemoryStore(damage.image);
      const target = new MemoryStore();
      const told = damage.tells === true ? whole.told : {};
      const states = new Map<ChunkInfo, "whole" | "gone" | "other">();
      for (const { chunks } of whole.columns)
        for (const chunk of chunks) states.set(chunk, await stateOf(chunk, whole, damage));
      const savable = [...states.values()].filter((state) => state === "whole").length;
      const row = table.get(`${fixture.dialect} | ${kind}`) ?? { saved: 0, savable: 0, archives: 0 };
      table.set(`${fixture.dialect} | ${kind}`, row);
      row.archives++;
      row.savable += savable;
      let holes: readonly Hole[];
      try {
        ({ holes } = await repairArray(source, whole.key, {
          ...told,
          into: { store: target, path: whole.key },
          holes: "fill",
        }));
      } catch (error) {
        // If nothing is left, there is nothing to copy.
        if (savable > 0) throw error;
        expect(isSuperchunkError(error) && error.isDamage).toBe(true);
        return;
      }
      const repaired = new Map(leavesOf(await open(target, whole.key)));
      for (const { name, chunks, chunkBytes, rowBytes, bytes } of whole.columns) {
        const leaf = repaired.get(name);
        expect(leaf?.nbytes ?? -1, name).toBeGreaterThanOrEqual(kind === "sizes removed" ? bytes.length : 0);
        const found = (await leaf?.readBytes(0, leaf.nbytes)) ?? new Uint8Array(0);
        const named = holes.filter((hole) => hole.column === name);
        for (const chunk of chunks) {
          const state = states.get(chunk);
          const start = chunk.index * chunkBytes;
          const end = Math.min(bytes.length, start + chunk.nbytes);
          const isNamed = named.some(
            ({ from, to }) => from * rowBytes < end && start < to * rowBytes && from * rowBytes <= start,
          );
          if (state === "gone") {
            // Chunks after the last counted one have no rows that could be named.
            if (start < found.length) expect(isNamed, `chunk ${chunk.index} is named`).toBe(true);
            continue;
          }
          expect(
            named.some((hole) => hole.chunk === chunk.index),
            `chunk ${chunk.index} is not named`,
          ).toBe(false);
          if (state === "other") continue;
          const isEqual = Buffer.from(found.subarray(start, end)).equals(
            Buffer.from(bytes.subarray(start, end)),
          );
          const isMixed = named.some(({ from, to }) => from * rowBytes < end && start < to * rowBytes);
          if (!isMixed) expect(isEqual, `chunk ${chunk.index} of ${name ?? "the archive"}`).toBe(true);
          row.saved++;
        }
      }
    },
  );
});

afterAll(() => {
  const lines = [...table].map(
    ([name, { saved, savable, archives: count }]) =>
      `${name.padEnd(40)} ${String(count).padStart(3)} archives ${String(saved).padStart(4)} / ${savable}`,
  );
  process.stdout.write(`\nchunks saved / savable\n${lines.sort().join("\n")}\n`);
  for (const [name, { saved, savable }] of table) expect(saved, name).toBe(savable);
});

describe("a header in the middle of a file without offsets", () => {
  const damaged = async (): Promise<MemoryStore> => {
    const { image, columns } = await load(findFixture("bloscpack-3/sum-md5.blp"));
    const bytes = (image.get(FILE) ?? new Uint8Array(0)).slice();
    const [, second] = columns[0]?.chunks ?? [];
    return new MemoryStore([[FILE, bytes.fill(0xff, second?.offset, (second?.offset ?? 0) + 16)]]);
  };

  test("ends the walk, and nothing is guessed unless asked for", async () => {
    const { holes, problems } = await repairArray(await damaged(), FILE, { dryRun: true });
    expect(holes.map(({ chunk }) => chunk)).toEqual([1, 2]);
    expect(problems.join()).toMatch(/is not a chunk.*\{scan: true\}/);
  });

  test("costs one chunk if a search is asked for, and the report says so", async () => {
    const { holes, problems } = await repairArray(await damaged(), FILE, { dryRun: true, scan: true });
    expect(holes.map(({ chunk, from, to }) => [chunk, from, to])).toEqual([[1, 4096, 8192]]);
    expect(problems.join()).toMatch(/a search found a chunk at byte \d+/);
  });
});

test("a table whose columns differ in length keeps all rows, or only those that all columns have", async () => {
  const { image } = await load(findFixture("ctable/bzl-mixed"));
  const source = new MemoryStore(image);
  const table = (await open(source)) as TableArchive;
  const whole = await table.column("a").getBytes();
  const short = new Map(image);
  for (const key of image.keys()) if (/^b\/data\/__[34]\.blp$/.test(key)) short.delete(key);
  short.set("b/meta/sizes", new TextEncoder().encode('{"shape": [48], "nbytes": 384}'));
  for (const [holes, rows] of [
    ["fill", 70],
    ["drop", 48],
    ["cut", 48],
  ] as const) {
    const target = new MemoryStore();
    const report = await repairArray(new MemoryStore(short), "", {
      into: { store: target, path: "t" },
      holes,
    });
    expect(report.holes.map(({ column, from, to }) => [column, from, to])).toEqual([["b", 48, 70]]);
    const saved = (await open(target, "t")) as TableArchive;
    expect(saved.length).toBe(rows);
    expect(await saved.column("a").getBytes()).toEqual(whole.slice(0, (whole.length / 70) * rows));
  }
});

test("a missing column is named and the others are saved; without their names, columns come in order", async () => {
  const { image } = await load(findFixture("ctable/bzl-mixed"));
  const without = new Map([...image].filter(([key]) => !key.startsWith("b/") && key !== "__rootdirs__"));
  without.set("__rootdirs__", image.get("__rootdirs__") ?? new Uint8Array(0));
  const target = new MemoryStore();
  const { lost } = await repairArray(new MemoryStore(without), "", { into: { store: target, path: "t" } });
  expect(lost).toEqual([expect.stringMatching(/^column "b": .*no array/)]);
  expect(((await open(target, "t")) as TableArchive).names).toEqual(["a", "flag"]);
  without.delete("__rootdirs__");
  without.set("__attrs__", new TextEncoder().encode("{}"));
  const found = await repairArray(new MemoryStore(without), "", { into: { store: target, path: "u" } });
  expect(found.problems).toEqual([expect.stringMatching(/__rootdirs__ is missing$/)]);
  expect(found.lost).toEqual(["the order of the columns; they are sorted by name"]);
  expect(((await open(target, "u")) as TableArchive).names).toEqual(["a", "flag"]);
});

test("an extra chunk file after the last counted row is named, and its rows are not counted", async () => {
  const { image } = await load(findFixture("carray/blz-f8"));
  const more = new Map(image).set("data/__9.blp", image.get("data/__0.blp") ?? new Uint8Array(0));
  const { rows, lost, holes } = await repairArray(new MemoryStore(more), "", { dryRun: true });
  expect({ rows, holes }).toEqual({ rows: 700, holes: [] });
  expect(lost).toEqual([expect.stringContaining("__9.blp")]);
});

test("[FM.3-03] [FG-15] copies of files, carrays and tables also name what was filled", async () => {
  for (const path of [
    "bloscpack-3/array-f8.blp",
    "bloscpack-3/sum-crc32.blp",
    "carray/blz-f8",
    "ctable/bzl-mixed",
  ]) {
    const whole = await load(findFixture(path));
    const { image = whole.image } = damageOf("flipped byte", findFixture(path), whole) ?? {};
    const lost = whole.columns[0]?.chunks[1]?.key ?? "";
    const damaged = whole.key === "" ? new Map([...whole.image].filter(([key]) => key !== lost)) : image;
    const target = new MemoryStore();
    const into = { store: target, path: whole.key === "" ? "copy" : whole.key };
    const { filled } = await repairArray(new MemoryStore(damaged), whole.key, { into, holes: "fill" });
    expect(filled.length, path).toBe(1);
    const archive = await open(target, into.path);
    const [[, leaf] = [undefined, undefined]] = leavesOf(archive);
    expect((leaf as ArrayArchive).warnings.join(), path).toMatch(/hold a fill value/);
    const { findings } = await archive.verify();
    expect(
      findings.map(({ code }) => code),
      path,
    ).toContain("FILLED");
  }
});

test("[FG-15] the put that makes a carray an array also names its filled rows, and so do its copies", async () => {
  const { image } = loadImage(findFixture("carray/bcolz-f8-chunks"));
  image.delete("data/__0.blp");
  const puts: string[] = [];
  const target = new MemoryStore();
  const put = target.put.bind(target);
  target.put = (key, source, options) => {
    if (key.endsWith("meta/sizes")) puts.push(key);
    return put(key, source, options);
  };
  const { filled } = await repairArray(new MemoryStore(image), "", {
    into: { store: target, path: "a" },
    holes: "fill",
  });
  expect(puts).toEqual(["a/meta/sizes"]);
  const told = `rows 0 to ${(filled[0]?.to ?? 0) - 1} hold a fill value`;
  const again = new MemoryStore();
  await repairArray(target, "a", { into: { store: again, path: "b" } });
  for (const [store, key] of [
    [target, "a"],
    [again, "b"],
  ] as const)
    expect((await open(store, key)).warnings.join()).toContain(told);
});

test("[FM.3-03] a member of that name with another meaning is a user attribute", async () => {
  const store = new MemoryStore();
  const metadata = { "superchunk-filled": "yes" };
  await compressBytes(Uint8Array.of(1, 2, 3), store, FILE, { metadata });
  const { attrs, warnings } = await open(store, FILE);
  expect([attrs, warnings]).toEqual([metadata, []]);
});

test("an array of Python objects is copied file by file without decoding, and damaged files are left out and named", async () => {
  const { image } = loadImage(findFixture("carray/bcolz-object"));
  const copyOf = async (source: ReadonlyMap<string, Uint8Array>, holes?: "fill" | "drop") => {
    const target = new MemoryStore();
    const report = await repairArray(new MemoryStore(source), "", {
      into: { store: target, path: "o" },
      holes,
    });
    const copied = new Map<string, Uint8Array | undefined>();
    for (const name of source.keys()) copied.set(name, await target.get(`o/${name}`));
    return { report, copied, target };
  };
  const whole = await copyOf(image);
  expect(whole.report).toMatchObject({ holes: [], lost: [], whole: 4 });
  expect(whole.copied).toEqual(image);

  const damaged = new Map(image);
  const chunk = (damaged.get("data/__2.blp") ?? new Uint8Array(0)).slice();
  chunk[20] = 0xff;
  damaged.set("data/__2.blp", chunk);
  await expect(copyOf(damaged)).rejects.toMatchObject({ code: "INCOMPLETE", details: { field: "holes" } });
  await expect(copyOf(damaged, "drop")).rejects.toMatchObject({ code: "UNSUPPORTED" });
  const { report, copied, target } = await copyOf(damaged, "fill");
  expect(report.holes).toMatchObject([
    { chunk: 2, from: 2, to: 3, path: expect.stringContaining("__2.blp") },
  ]);
  expect(copied).toEqual(new Map([...image, ["data/__2.blp", undefined]]));
  // The report itself says that a chunk is missing, and that the objects were not read.
  const { ok, findings } = await (await open(target, "o")).verify();
  expect(ok).toBe(false);
  expect(findings.map(({ code }) => code).sort()).toEqual(["INCOMPLETE", "UNSUPPORTED"]);
});

test("a column of Python objects in a table is named, with what to do", async () => {
  const { image } = loadImage(findFixture("carray/bcolz-object"));
  const table = new Map<string, Uint8Array>([
    ["__rootdirs__", new TextEncoder().encode('{"names": ["o"], "dirs": {"o": "o"}}')],
  ]);
  for (const [name, bytes] of image) table.set(`o/${name}`, bytes);
  await expect(
    repairArray(new MemoryStore(table), "", { into: { store: new MemoryStore(), path: "t" } }),
  ).rejects.toMatchObject({ code: "INCOMPLETE", message: expect.stringContaining("repair it by itself") });
});

test("reports the order of the items if the metadata of a file are lost", async () => {
  const values = Float64Array.from({ length: 12 }, (_, i) => i);
  const store = new MemoryStore();
  await compressBytes(new Uint8Array(values.buffer), store, FILE, { metadata: { container: "numpy" } });
  const bytes = (await store.get(FILE)) ?? new Uint8Array(0);
  // A byte of the section after its header of 32 bytes, which still gives the section's end.
  const changed = Buffer.from(bytes).indexOf("JSON") + 36;
  const damaged = new MemoryStore(
    new Map([[FILE, bytes.map((byte, i) => (i === changed ? byte ^ 0xff : byte))]]),
  );
  for (const order of ["C", "F"] as const) {
    const target = new MemoryStore();
    const told = { dtype: "<f8", shape: [3, 4], order };
    const { lost } = await repairArray(damaged, FILE, { into: { store: target, path: FILE }, ...told });
    expect(lost).toContain("the metadata");
    const copy = (await open(target, FILE)) as ArrayArchive;
    expect([copy.order, copy.shape]).toEqual([order, [3, 4]]);
    // Item (1, 2): the seventh in C order, the eighth in Fortran's.
    expect(await copy.get([1, 2])).toBe(order === "C" ? 6 : 7);
  }
});

test("a salvage survey reports its progress chunk by chunk, and ends when the caller aborts", async () => {
  const looked = new Set<string>();
  for (const fixture of archives) {
    const { image, key, columns } = await load(fixture);
    const [column] = columns;
    if (columns.length !== 1 || column === undefined || column.chunks.length < 2) continue;
    looked.add(fixture.path.split("/")[0] ?? "");
    const total = column.chunks.length;
    const store = new MemoryStore(image);
    const seen: Progress[] = [];
    await repairArray(store, key, { dryRun: true, onProgress: (progress) => seen.push(progress) });
    expect(seen, fixture.path).toEqual(
      Array.from({ length: total }, (_, i) => ({ done: i + 1, total, unit: "chunks" })),
    );
    const abort = new AbortController();
    let checked = 0;
    const onProgress = (): void => {
      checked++;
      abort.abort(new Error("enough"));
    };
    const aborted = repairArray(store, key, { dryRun: true, signal: abort.signal, onProgress });
    await expect(aborted, fixture.path).rejects.toThrow("enough");
    expect(checked, fixture.path).toBe(1);
  }
  expect([...looked].sort()).toEqual([
    "bloscpack-1",
    "bloscpack-2",
    "bloscpack-3",
    "blz-superchunk",
    "carray",
  ]);
});

test("a file that is cut inside its short last chunk is truncated there, and has no other finding", async () => {
  for (const typed of [true, false]) {
    const values = new Float64Array(10_000).map((_, i) => Math.sin(i) * 1e9);
    const store = new MemoryStore();
    const bytes = new Uint8Array(values.buffer);
    const metadata = { container: "numpy", dtype: "<f8", shape: [10_000], order: "C" };
    await compressBytes(bytes, store, FILE, { chunkSize: 32_768, ...(typed ? { metadata } : {}) });
    const whole = (await store.get(FILE)) ?? new Uint8Array(0);
    await store.put(FILE, whole.subarray(0, whole.length - 100));
    const { holes } = await repairArray(store, FILE, { dryRun: true });
    expect(holes.map(({ chunk, code }) => ({ chunk, code }))).toEqual([{ chunk: 2, code: "TRUNCATED" }]);
  }
});

test("a header that counts too many chunks is one problem, not millions of holes", async () => {
  const store = new MemoryStore();
  await compressBytes(new Uint8Array(100_000).fill(7), store, FILE, { chunkSize: 128, offsets: false });
  const whole = (await store.get(FILE)) ?? new Uint8Array(0);
  const counted = (bytes: Uint8Array, count: number): MemoryStore => {
    const changed = bytes.slice();
    new DataView(changed.buffer).setBigInt64(16, BigInt(count), true);
    return new MemoryStore(new Map([[FILE, changed]]));
  };
  for (const count of [800, 70_000, 100_000, 1e9]) {
    const { holes, problems, rows } = await repairArray(counted(whole, count), FILE, { dryRun: true });
    const why =
      count === 1e9
        ? / counts 1000000000 chunks, which do not fit/
        : / counts \d+ chunks, but there are 782$/;
    expect([count, holes, problems, rows]).toEqual([count, [], [expect.stringMatching(why)], 100_000]);
    if (count === 800) continue;
    const cut = counted(whole.subarray(0, whole.length - 100), count);
    const found = await repairArray(cut, FILE, { dryRun: true });
    expect(found.holes.length).toBeLessThan(2);
    expect(found.problems.filter((each) => each.includes("the count is ignored"))).toHaveLength(1);
  }
  // A file that is cut off has the rest of its chunks as holes.
  const short = await repairArray(counted(whole.subarray(0, 2000), 782), FILE, { dryRun: true });
  expect(short.holes.length).toBeGreaterThan(700);
});

describe.each([
  { offsets: true, typed: true },
  { offsets: true, typed: false },
  { offsets: false, typed: true },
  { offsets: false, typed: false },
])("a flipped bit in the headers of a file, %j", ({ offsets, typed }) => {
  test("costs no chunk", async () => {
    const values = new Float64Array(1000).map((_, i) => Math.floor(i ** 1.5));
    const bytes = new Uint8Array(values.buffer);
    const store = new MemoryStore();
    const metadata = typed ? { container: "numpy", dtype: "<f8", shape: [1000], order: "C" } : undefined;
    await compressBytes(bytes, store, FILE, {
      chunkSize: 1504,
      checksum: "md5",
      offsets,
      ...(metadata && { metadata }),
    });
    const whole = (await store.get(FILE)) ?? new Uint8Array(0);
    const bits = Array.from({ length: 8 * ((typed ? 64 : 32) - 4) }, (_, i) => 32 + i);
    for (const bit of sample(bits, 12)) {
      const changed = whole.slice();
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const damaged = new MemoryStore(new Map([[FILE, changed]]));
      const target = new MemoryStore();
      const told = {
        holes: "fill",
        scan: true,
        ...(typed ? { dtype: "<f8", shape: [1000] } : { dtype: "|u1" }),
      } as const;
      await repairArray(damaged, FILE, { into: { store: target, path: FILE }, ...told });
      const copy = (await open(target, FILE)) as ArrayArchive;
      const where = `bit ${bit & 7} of byte ${bit >> 3}`;
      expect(copy.nbytes, where).toBe(bytes.length);
      expect(Buffer.from(await copy.readBytes(0, copy.nbytes)).equals(bytes), where).toBe(true);
    }
  });
});

test.each(["bloscpack-3/array-f8.blp", "carray/bcolz-f8-chunks", "ctable/bcolz-mixed"])(
  "%s: a repair that is killed before any write is completed by the next one",
  async (path) => {
    const fixture = findFixture(path);
    const { image } = loadImage(fixture);
    const source = new MemoryStore(image);
    const from = fixture.kind !== "table" && path.endsWith(".blp") ? FILE : "";
    const repaired = async (store: MemoryStore, faults: FaultPlan): Promise<boolean> => {
      const faulty = withFaults(store, faults);
      const repairing = repairArray(source, from, {
        holes: "fill",
        into: { store: faulty.store, path: "copy" },
      });
      await repairing.catch(() => undefined);
      return !faulty.failed();
    };
    const straight = new MemoryStore();
    expect(await repaired(straight, { failAt: Number.POSITIVE_INFINITY, kind: "crash" })).toBe(true);
    const expected = await hashesOf(straight);
    for (let failAt = 1, isWhole = false; !isWhole; failAt++) {
      const store = new MemoryStore();
      isWhole = await repaired(store, { failAt, kind: "crash", counts: "writes" });
      // One that was killed at its very end has nothing left to do.
      const isDone = (await hashesOf(store)).join() === expected.join();
      const into = { store, path: "copy" };
      if ((await store.stat(".copy.superchunk-convert.json")) !== undefined) {
        const other = { scan: true, into };
        await expect(repairArray(source, from, { holes: "fill", ...other })).rejects.toMatchObject({
          code: "CONFLICT",
          message: expect.stringContaining("{scan} was not given, and is true now"),
        });
      }
      if (!isDone) await repairArray(source, from, { holes: "fill", into });
      expect([failAt, await hashesOf(store)]).toEqual([failAt, expected]);
    }
  },
);

test("a repair that was killed is not continued with another treatment of holes", async () => {
  const store = new MemoryStore();
  const metadata = { container: "numpy", dtype: "<i4", shape: [1000], order: "C" };
  const values = Int32Array.from({ length: 1000 }, (_, i) => i * i);
  await compressBytes(new Uint8Array(values.buffer), store, FILE, { chunkSize: 400, metadata });
  const bytes = (await store.get(FILE)) ?? new Uint8Array(0);
  bytes.fill(0xff, bytes.length >> 1, (bytes.length >> 1) + 60);
  await store.put(FILE, bytes);
  const into = {
    store: withFaults(store, { failAt: 2, kind: "crash", counts: "writes" }).store,
    path: "copy",
  };
  await expect(repairArray(store, FILE, { holes: "fill", into })).rejects.toMatchObject({ code: "IO" });
  const again = { store, path: "copy" };
  await expect(repairArray(store, FILE, { holes: "drop", fill: 7, into: again })).rejects.toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining(
      '{holes} was "fill", and is "drop" now; {fill} was not given, and is 7 now',
    ),
  });
  const { rows, filled } = await repairArray(store, FILE, { holes: "fill", into: again });
  expect([rows, filled.length]).toEqual([1000, 1]);
});

async function hashesOf(store: MemoryStore): Promise<string[]> {
  const keys = (await keysOf(store)).sort();
  return Promise.all(
    keys.map(async (key) => `${key} ${sha256((await store.get(key)) ?? new Uint8Array(0))}`),
  );
}

test("the search for chunks in a long file is reported in bytes, once for each MiB, before the chunks are", async () => {
  const size = 5 << 20;
  // Only the magic is left: nothing counts the chunks, or says where they are.
  const long = new Uint8Array(size);
  long.set(new TextEncoder().encode("blpk"));
  const seen: Progress[] = [];
  const onProgress = (progress: Progress): void => void seen.push(progress);
  await repairArray(new MemoryStore(new Map([[FILE, long]])), FILE, {
    dryRun: true,
    scan: true,
    onProgress,
  }).catch(() => undefined);
  const searched = seen.filter(({ unit }) => unit === "bytes");
  expect(searched.length).toBeGreaterThanOrEqual(3);
  expect(searched.every(({ total }) => total === size)).toBe(true);
  for (const [i, { done }] of searched.entries())
    expect(done - (searched[i - 1]?.done ?? 0)).toBeGreaterThanOrEqual(1 << 20);
});
