/** Power cuts during writes of long files, which bypass the page cache: simulated from what a real process wrote and synced. */

import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { BUNDLED } from "../cli/built.ts";
import { randomFrom } from "../crash/random.ts";
import { note, runsOf } from "./figures.ts";

/** What the recorder saw: an operation with the number of entries before its start (its index) and before its end (`done`). */
interface Entry {
  readonly kind: "link" | "rename" | "unlink" | "mkdir" | "write" | "truncate" | "sync" | "direct" | "moment";
  readonly file?: number;
  readonly folder?: string;
  readonly name?: string;
  readonly from?: string;
  readonly to?: string;
  readonly position?: number;
  readonly length?: number;
  /** The position of a write's bytes in the log. */
  readonly at?: number;
  readonly text?: string;
  readonly done?: number;
}

/** Bytes that a disk writes as a unit. */
const SECTOR = 4096;

let folder: string;
beforeAll(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "superchunk-power-"));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

/** One possible disk after a power cut at which `cut` operations had begun. */
class CutDisk {
  readonly #entries: readonly Entry[];
  readonly #bytes: Uint8Array;
  readonly #random: () => number;

  constructor(entries: readonly Entry[], cut: number, bytes: Uint8Array, random: () => number) {
    // Operations that ended later had only begun.
    this.#entries = entries
      .slice(0, cut)
      .map(({ done, ...entry }) => (done === undefined || done > cut ? entry : { ...entry, done }));
    this.#bytes = bytes;
    this.#random = random;
  }

  /** Every file by its path. */
  image(root: string): Map<string, Uint8Array> {
    const names = this.#names();
    const image = new Map<string, Uint8Array>();
    for (const [path, file] of names) {
      if (file === undefined) continue;
      let above = dirname(path);
      while (above !== root && names.has(above)) above = dirname(above);
      if (above === root) image.set(path.slice(root.length + 1), this.#contentOf(file));
    }
    return image;
  }

  /** Names in all folders: those that were synced, and of the others as many as reached the disk, in order. */
  #names(): Map<string, number | undefined> {
    const folders = new Map<string, (readonly [index: number, entry: Entry])[]>();
    for (const [i, entry] of this.#entries.entries()) {
      const at = entry.kind === "rename" ? dirname(entry.to ?? "") : entry.name && entry.folder;
      if (at === undefined || at === "") continue;
      folders.set(at, [...(folders.get(at) ?? []), [i, entry]]);
    }
    const names = new Map<string, number | undefined>();
    for (const [path, operations] of folders) {
      const synced = operations.findLastIndex(([, entry]) =>
        this.#isSynced(entry, (sync) => sync.folder === path),
      );
      const open = operations.length - synced - 1;
      const kept = synced + 1 + Math.floor(this.#random() * (open + 1));
      for (const [, entry] of operations.slice(0, kept)) apply(names, entry);
    }
    return names;
  }

  #contentOf(file: number): Uint8Array {
    const operations = this.#entries.filter(
      (entry) => entry.file === file && (entry.kind === "write" || entry.kind === "truncate"),
    );
    const size = operations.reduce(
      (most, { position = 0, length = 0 }) => Math.max(most, position + length),
      0,
    );
    const content = new Uint8Array(size);
    let end = 0;
    // A disk that has none, some or all of what was not synced.
    const chance = [0, 0.5, 1][Math.floor(this.#random() * 3)] ?? 0;
    for (const entry of operations) {
      const { kind, position = 0, length = 0, at = 0 } = entry;
      const isSynced = this.#isSynced(entry, (sync) => sync.file === file);
      if (kind === "truncate") {
        if (isSynced || this.#random() < chance) {
          content.fill(0, length);
          end = length;
        }
        continue;
      }
      for (let done = 0; done < length; done += SECTOR) {
        if (!isSynced && this.#random() >= chance) continue;
        const piece = this.#bytes.subarray(at + done, at + Math.min(length, done + SECTOR));
        content.set(piece, position + done);
        end = Math.max(end, position + done + piece.length);
      }
    }
    return content.slice(0, end);
  }

  /** True if a completed sync began after the operation had ended. */
  #isSynced({ done }: Entry, isOfIt: (sync: Entry) => boolean): boolean {
    if (done === undefined) return false;
    return this.#entries.some(
      (sync, i) => sync.kind === "sync" && sync.done !== undefined && i >= done && isOfIt(sync),
    );
  }
}

function apply(
  names: Map<string, number | undefined>,
  { kind, name = "", from = "", to = "", file }: Entry,
): void {
  if (kind === "unlink") names.delete(name);
  else if (kind === "rename") {
    const moved = file ?? names.get(from);
    names.delete(from);
    names.set(to, moved);
  } else names.set(name, kind === "mkdir" ? undefined : file);
}

/** The value of a row, as the writer has it. */
function itemOf(row: number): number {
  const mixed = Math.imul(row + 1, 2654435761);
  const again = Math.imul(mixed ^ (mixed >>> 15), 2246822519);
  return again ^ (again >>> 13);
}

function areRight(bytes: Uint8Array): boolean {
  const values = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  return values.every((value, row) => value === itemOf(row));
}

/** Rows of the array on a disk, undefined if there is none; fails if any of them is wrong. */
async function rowsOn(store: MemoryStore, label: string): Promise<number | undefined> {
  try {
    const archive = await open(store, "a");
    if (archive.kind !== "array") throw new Error("not an array");
    const bytes = await archive.readBytes(0, archive.nbytes);
    const { findings } = await archive.verify();
    expect([label, areRight(bytes), findings.filter(({ severity }) => severity === "error")]).toEqual([
      label,
      true,
      [],
    ]);
    return bytes.length / 4;
  } catch (error) {
    if (
      isSuperchunkError(error, "NOT_FOUND") ||
      isSuperchunkError(error, "INCOMPLETE") ||
      isSuperchunkError(error, "UNSUPPORTED")
    )
      return undefined;
    throw error;
  }
}

test("a power cut at any moment keeps every acknowledged row, and of a conversion all or nothing", async () => {
  const root = join(folder, "disk");
  const log = join(folder, "log");
  const entry = join(folder, "superchunk.mjs");
  fs.mkdirSync(root);
  const sources = fileURLToPath(new URL("../../src", import.meta.url));
  await build({
    ...BUNDLED,
    stdin: {
      contents: `export { create as createArray, openArchive as open, locateTarget } from "./node/index.ts";
      export { convert } from "./convert/run/convert.ts";`,
      resolveDir: sources,
      loader: "ts",
    },
    outfile: entry,
  });
  const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  execFileSync(
    process.execPath,
    [
      "--import",
      script("./power-recorder.mjs"),
      script("./power-writer.mjs"),
      join(root, "a"),
      join(root, "z"),
      entry,
    ],
    { env: { ...process.env, RECORD_ROOT: root, RECORD_LOG: log, SUPERCHUNK_DIRECT: "1" }, stdio: "pipe" },
  );
  const entries = JSON.parse(fs.readFileSync(`${log}.json`, "utf8")) as Entry[];
  const bytes = new Uint8Array(fs.readFileSync(`${log}.bin`));

  const cuts = runsOf(10, 200, 1000);
  const random = randomFrom(20_260);
  let [arrays, zarrs] = [0, 0];
  for (let run = 0; run < cuts; run++) {
    // The last is the whole run, with all caches lost.
    const cut = run === 0 ? entries.length : Math.floor(random() * entries.length);
    const label = `cut ${run} at ${cut} of ${entries.length}`;
    const store = new MemoryStore(new CutDisk(entries, cut, bytes, random).image(root));
    const moments = entries
      .slice(0, cut)
      .flatMap(({ kind, text }) => (kind === "moment" && text !== undefined ? [text] : []));
    const acknowledged = lastNumber(moments, "rows");
    const rows = await rowsOn(store, label);
    if (rows !== undefined) arrays++;
    const allowed = [acknowledged, Math.max(acknowledged ?? 0, lastNumber(moments, "appending") ?? 0)];
    if (acknowledged !== undefined || rows !== undefined) expect(allowed, label).toContain(rows ?? "nothing");
    if ((await store.stat("z/zarr.json")) === undefined) {
      expect(moments, label).not.toContain("converted");
      continue;
    }
    zarrs++;
    const { data } = await (await openZarrArray(store, "z")).get(null);
    const values = data as Int32Array;
    expect([label, values.length, values.every((value, row) => value === itemOf(row))]).toEqual([
      label,
      lastNumber(moments, "rows"),
      true,
    ]);
  }
  const direct = new Set(entries.flatMap(({ kind, file }) => (kind === "direct" ? [file] : [])));
  note("power cuts under long files", {
    cuts,
    "operations of the run": entries.length,
    "files written past the page cache": direct.size,
    "whole arrays": arrays,
    "whole conversions": zarrs,
    "wrong values": 0,
  });
  // Most of the run is appending.
  expect(arrays).toBeGreaterThan(cuts / 4);
  // The first cut is after the end.
  expect(zarrs).toBeGreaterThan(0);
});

function lastNumber(moments: readonly string[], word: string): number | undefined {
  const last = moments.findLast((text) => text.startsWith(`${word} `));
  return last === undefined ? undefined : Number(last.slice(word.length + 1));
}
