/**
 * What one of our writers leaves in bcolz's formats when it is killed, as bcolz sees it: the rows before the
 * operation that it died in, or those after it. Nothing of ours repairs the folders before bcolz opens them.
 * `killed-zarr.ts` does the same for Zarr arrays.
 */
import { createHash } from "node:crypto";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseDType } from "../../src/format/dtype.ts";
import { FileStore, open } from "../../src/node/index.ts";
import { createCarray, createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { runAndKill } from "../crash/killed-child.ts";
import { randomFrom } from "../crash/random.ts";
import { type FixtureDType, repositoryRoot } from "../fixtures/manifest.ts";
import { proveKilledZarr, ZARR_READERS } from "./killed-zarr.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const BCOLZ = ["bcolz-zipline", "bcolz 1.2.1"] as const;
/** Processes that are killed, of each kind; and those within a change, at least: on a busy machine more are killed for that. */
const KILLS = 30;
const LEAST_BETWEEN = 3;
/** Maximum milliseconds before the kill. */
const MAX_DELAY = 40;

/** A folder as a killed process left it. */
interface Left {
  readonly path: string;
  /** Rows that it had printed as existing, and rows that it was about to have. */
  readonly done: number;
  readonly doing: number;
}

interface Kind {
  readonly name: "carray" | "ctable";
  readonly dtype: FixtureDType;
  readonly make: (store: FileStore) => Promise<unknown>;
  /** The bytes of the given number of rows. */
  readonly bytesOf: (rows: number) => Uint8Array;
}

const KINDS: readonly Kind[] = [
  {
    name: "carray",
    dtype: "<i4",
    make: (store) =>
      createCarray(store, "a", { dtype: parseDType("<i4", ""), data: numbers(50) }, { chunkLength: 16 }),
    bytesOf: numbers,
  },
  {
    name: "ctable",
    dtype: [
      ["id", "<i4"],
      ["price", "<f8"],
    ],
    make: (store) =>
      createTable(
        store,
        "a",
        [
          { name: "id", dtype: parseDType("<i4", ""), data: numbers(50) },
          {
            name: "price",
            dtype: parseDType("<f8", ""),
            data: new Uint8Array(Float64Array.from({ length: 50 }, (_, i) => i).buffer),
          },
        ],
        { chunkLength: 16 },
      ),
    bytesOf: tableRows,
  },
];

export const killed: Suite = {
  name: "killed",
  peers: [...BCOLZ, ...BCOLZ.map((name) => `${name}, writing` as const), ...ZARR_READERS],
  async run(context) {
    await proveKilledZarr(context);
    if (BCOLZ.every((name) => context.peer(name) === undefined)) return;
    const entry = join(context.folder, "superchunk.mjs");
    const built = (file: string): string => pathToFileURL(join(repositoryRoot, "build", "src", file)).href;
    await writeFile(
      entry,
      `export * as core from "${built("index.js")}";\nexport * as node from "${built("node/index.js")}";\n`,
    );
    for (const kind of KINDS) {
      const left = await killMany(kind, context.folder, entry);
      for (const name of BCOLZ) {
        await lookAt(context, name, kind, left);
        if (kind.name === "carray") await goOn(context, name, kind, left);
      }
    }
  },
};

/** Lets one process after the other continue where the previous one was killed, and copies what each left. */
async function killMany(kind: Kind, folder: string, entry: string): Promise<Left[]> {
  const path = join(folder, kind.name);
  await mkdir(path);
  const store = new FileStore(path);
  await kind.make(store);
  await store.close();
  const loop = join(repositoryRoot, "test", "crash", "foreign-loop.mjs");
  const random = randomFrom(11);
  const left: Left[] = [];
  let between = 0;
  for (let kill = 0; kill < KILLS || (between < LEAST_BETWEEN && kill < 5 * KILLS); kill++) {
    const said = await runAndKill([loop, path, entry, kind.name], random() * MAX_DELAY);
    const last = (word: string): number | undefined => {
      const found = [...said.matchAll(new RegExp(`${word} (\\d+)\n`, "g"))].pop();
      return found === undefined ? undefined : Number(found[1]);
    };
    const done = last("done") ?? 0;
    const copy = join(folder, `${kind.name}-${kill}`);
    await cp(join(path, "a"), copy, { recursive: true });
    const doing = last("doing") ?? done;
    left.push({ path: copy, done, doing });
    if (doing !== done) between++;
  }
  return left;
}

/** What bcolz reads is what had been acknowledged, or what the process was about to acknowledge. */
async function lookAt(
  { checks, peer }: SuiteContext,
  name: (typeof BCOLZ)[number],
  { name: kind, dtype, bytesOf }: Kind,
  left: readonly Left[],
): Promise<void> {
  const reader = peer(name);
  if (reader === undefined) return;
  const answers = await reader.read(left.map(({ path }) => ({ path, dtype })));
  let between = 0;
  for (const [i, { done, doing }] of left.entries()) {
    const answer = answers[i];
    const what = `${name} opens the ${kind} that kill ${i} left`;
    if (answer?.kind !== "values") {
      checks.fail(what, JSON.stringify(answer));
      continue;
    }
    const [rows = 0] = answer.shape;
    checks.equal(`${what}: ${rows} rows, ${done} or ${doing}`, [done, doing].includes(rows), true);
    checks.equal(`${what}: its values`, answer.sha256, hash(bytesOf(rows)));
    if (done !== doing) between++;
  }
  const isEnough = between >= LEAST_BETWEEN;
  checks.equal(`${kind}: some of them were killed within a change (${between})`, isEnough, true);
}

/** bcolz appends its rows once more to what was left, and we read them. */
async function goOn(
  { checks, peer, folder }: SuiteContext,
  name: (typeof BCOLZ)[number],
  { bytesOf }: Kind,
  left: readonly Left[],
): Promise<void> {
  const writer = peer(`${name}, writing`);
  if (writer === undefined) return;
  const copies: string[] = [];
  for (const [i, { path }] of left.entries()) {
    const copy = join(folder, `${name.replaceAll(/\W/g, "")}-grown-${i}`);
    await cp(path, copy, { recursive: true });
    copies.push(copy);
  }
  const before = await Promise.all(copies.map(rowsOf));
  const answers = await writer.read(copies.map((path) => ({ path, make: "grow" })));
  for (const [i, path] of copies.entries()) {
    const what = `${name} appends to what kill ${i} left`;
    const rows = before[i] ?? 0;
    const answer = answers[i];
    if (answer?.kind !== "values") {
      checks.fail(what, JSON.stringify(answer));
      continue;
    }
    const array = await open(path);
    if (array.kind !== "array") continue;
    const twice = Buffer.concat([bytesOf(rows), bytesOf(rows)]);
    checks.equal(what, [array.shape[0], hash(await array.getBytes())], [2 * rows, hash(twice)]);
    await array.close();
  }
}

async function rowsOf(path: string): Promise<number> {
  const array = await open(path);
  await array.close();
  return array.kind === "array" ? (array.shape[0] ?? 0) : 0;
}

function numbers(count: number): Uint8Array {
  return new Uint8Array(Int32Array.from({ length: count }, (_, i) => i).buffer);
}

/** Row i is (i, i.0), as numpy packs it. */
function tableRows(count: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(count * 12));
  for (let i = 0; i < count; i++) {
    view.setInt32(12 * i, i, true);
    view.setFloat64(12 * i + 4, i, true);
  }
  return new Uint8Array(view.buffer);
}

function hash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
