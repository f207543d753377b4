/** Real processes, killed at random moments while changing archives that bcolz and bloscpack read. */

import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import type { ArrayArchive, BytesArchive, TableArchive } from "../../src/archive/kinds/types.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { FileStore, open } from "../../src/node/index.ts";
import { createCarray, createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { appendToBloscpack } from "../../src/write/bloscpack/bloscpack-append.ts";
import { compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { seeCarray, seeTable } from "../write/bcolz/bcolz-rules.ts";
import { appendRows } from "../write/foreign-support.ts";
import { bundleLibrary } from "./bundle.ts";
import { runAndKill } from "./killed-child.ts";
import { randomFrom } from "./random.ts";

const KILLS = Number(process.env["KILLS"] ?? sweep(100, 4)) / 4;

let folder: string;
let entry: string;
beforeAll(async () => {
  folder = temporaryFolder();
  entry = join(folder, "superchunk.mjs");
  await bundleLibrary(entry);
});
/** What the loop printed before it died: the rows that it had, and those that it was about to have. */
interface Said {
  readonly done: number;
  readonly doing: number;
}

const loop = fileURLToPath(new URL("./foreign-loop.mjs", import.meta.url));

async function changeAndKill(path: string, kind: string, delay: number): Promise<Said> {
  const said = await runAndKill([loop, path, entry, kind], delay);
  const last = (word: string): number | undefined => {
    const found = [...said.matchAll(new RegExp(`${word} (\\d+)\n`, "g"))].pop();
    return found === undefined ? undefined : Number(found[1]);
  };
  const done = last("done") ?? 0;
  return { done, doing: last("doing") ?? done };
}

const numbers = (count: number, first = 0): Buffer =>
  Buffer.from(Int32Array.from({ length: count }, (_, i) => first + i).buffer);
const doubles = (count: number, first = 0): Buffer =>
  Buffer.from(Float64Array.from({ length: count }, (_, i) => first + i).buffer);
const INT = parseDType("<i4", "");
const FLOAT = parseDType("<f8", "");

/** The existing rows: by our reader, which finds nothing wrong, and by the rules of the other program. */
type Look = (store: FileStore, path: string) => Promise<number>;

const lookAtCarray: Look = async (store, path) => {
  const array = (await open(join(path, "a"))) as ArrayArchive;
  const [rows = 0] = array.shape;
  expect((await array.verify()).ok).toBe(true);
  await array.close();
  expect(await seeCarray(store, "a", 4)).toEqual({ rows, hex: numbers(rows).toString("hex") });
  return rows;
};

const lookAtTable: Look = async (store, path) => {
  const table = (await open(join(path, "a"))) as TableArchive;
  const { length } = table;
  const ours = {
    id: Buffer.from(await table.column("id").getBytes()).toString("hex"),
    price: Buffer.from(await table.column("price").getBytes()).toString("hex"),
  };
  // A kill may at most leave columns that are longer than the others.
  const errors = (await table.verify()).findings.filter(({ severity }) => severity === "error");
  for (const { code, message } of errors) {
    expect(code).toBe("INCOMPLETE");
    expect(message).toMatch(/column "price" has \d+ rows, but the table's shortest has/);
  }
  await table.close();
  expect(ours).toEqual({ id: numbers(length).toString("hex"), price: doubles(length).toString("hex") });
  expect(await seeTable(store, "a", { id: 4, price: 8 })).toEqual(ours);
  return length;
};

/** A file, in which a killed process may leave bytes after the last chunk if it `writesInPlace`. */
const lookAtFile = async (path: string, writesInPlace: boolean): Promise<number> => {
  const file = (await open(join(path, "a.blp"))) as BytesArchive;
  const rows = file.nbytes / 4;
  expect(Buffer.from(await file.readBytes(0, file.nbytes)).equals(numbers(rows))).toBe(true);
  const { findings } = await file.verify();
  expect(findings.filter(({ code }) => !(writesInPlace && code === "TRAILING"))).toEqual([]);
  await file.close();
  return rows;
};

const KINDS: readonly [
  kind: string,
  make: (store: FileStore) => Promise<unknown>,
  look: Look,
  append: (store: FileStore, rows: number) => Promise<unknown>,
  left: RegExp,
][] = [
  [
    "carray",
    (store) => createCarray(store, "a", { dtype: INT, data: numbers(50) }, { chunkLength: 16 }),
    lookAtCarray,
    (store, rows) => appendRows(store, "a", numbers(9, rows)),
    /^(?:a|a\/(?:data|meta|__attrs__|meta\/sizes|meta\/storage|data\/__\d+\.blp))$/,
  ],
  [
    "ctable",
    (store) =>
      createTable(
        store,
        "a",
        [
          { name: "id", dtype: INT, data: numbers(50) },
          { name: "price", dtype: FLOAT, data: doubles(50) },
        ],
        { chunkLength: 16 },
      ),
    lookAtTable,
    (store, rows) => appendRows(store, "a", { id: numbers(9, rows), price: doubles(9, rows) }),
    /^a(?:\/__rootdirs__|\/__attrs__|\/(?:id|price)(?:\/(?:data|meta|__attrs__|meta\/sizes|meta\/storage|data\/__\d+\.blp))?)?$/,
  ],
  [
    "bloscpack",
    (store) => compressBytes(numbers(50), store, "a.blp", { chunkSize: 64 }),
    (_store, path) => lookAtFile(path, false),
    (store, rows) => appendToBloscpack(store, "a.blp", numbers(9, rows), { grow: true }),
    /^a\.blp$/,
  ],
  [
    "in place",
    (store) => compressBytes(numbers(50), store, "a.blp", { chunkSize: 64, maxAppChunks: 100_000 }),
    (_store, path) => lookAtFile(path, true),
    (store, rows) => appendToBloscpack(store, "a.blp", numbers(9, rows), { inPlace: true }),
    /^a\.blp$/,
  ],
];

test.each(KINDS)(
  "after a SIGKILL at any moment the old rows or the new ones are there: %s",
  async (kind, make, look, append, left) => {
    const path = join(folder, kind);
    fs.mkdirSync(path);
    const store = new FileStore(path);
    await make(store);
    const random = randomFrom(7);
    let seen = 0;
    // On a busy machine some are killed before they change anything, and prove nothing.
    for (let kill = 0; kill < KILLS || seen <= KILLS / 10; kill++) {
      const { done, doing } = await changeAndKill(path, kind, random() * 40);
      const rows = await look(store, path);
      expect([done, doing], `kill ${kill}`).toContain(rows);
      if (doing !== done) seen++;
    }
    expect(seen).toBeGreaterThan(KILLS / 10);
    const before = await look(store, path);
    await append(store, before);
    expect(await look(store, path)).toBe(before + 9);
    await store.removeLeftovers("");
    const names = fs.readdirSync(path, { recursive: true }).map((name) => String(name).replaceAll("\\", "/"));
    expect(names.filter((name) => !left.test(name))).toEqual([]);
    await store.close();
  },
);
