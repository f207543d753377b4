/**
 * What one of our writers leaves of a Zarr array when it is killed, as the readers of Zarr see it: each shard is as
 * before the change that it died in, or as after it; or, for shards written in place, an error. After an append
 * `recoverShard` repairs that.
 */
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { recoverShard } from "../../src/zarr/write/recover-shard.ts";
import { convertInto, killedJoins, NODE, ROOT } from "../crash/joins.ts";
import { runAndKill } from "../crash/killed-child.ts";
import { randomFrom } from "../crash/random.ts";
import { CHUNKS, chunkOf, ITEMS, itemsOf, roundOf, SHARDS, shardOf } from "../crash/zarr-rounds.ts";
import { findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { openZarrWriter } from "../zarr/writer.ts";
import type { SuiteContext } from "./suite.ts";

export const ZARR_READERS = ["zarr-python", "zarrs", "tensorstore"] as const;
/** `whole`: every shard is given whole, and with threads the threads write it. */
const MODES = ["whole", "rewrite", "append", "fixed"] as const;
type Mode = (typeof MODES)[number];
/** Number of killed processes of each kind; and the maximum milliseconds before the kill. */
const [KILLS, MAX_DELAY] = [5, 150];

/** A partly written chunk is detected by its checksum. */
const SPEC = {
  ...{ shape: [SHARDS * CHUNKS * ITEMS], dataType: "int32", chunkShape: [ITEMS] },
  ...{ shardShape: [CHUNKS * ITEMS], fillValue: -1 },
  codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
};

/** An array as a killed process left it, and the rounds that its shards may be in. */
interface Left {
  readonly path: string;
  readonly rounds: readonly number[];
}

/** Kills writers of every kind, and has what they leave read. */
export async function proveKilledZarr(context: SuiteContext): Promise<void> {
  await proveKilledJoins(context);
  const entry = await makeEntry(context.folder);
  for (const mode of MODES) {
    for (const threads of [0, 2]) {
      const root = join(context.folder, `zarr-${mode}-${threads}`);
      await mkdir(root);
      const left = await killMany(root, entry, mode, threads);
      if (mode === "append") left.push(await cutAppend(root));
      const what = `${mode} with ${threads} threads`;
      const damaged: Left[] = [];
      for (const each of left) if (!(await proveOurs(context, what, mode, each))) damaged.push(each);
      await proveForeign(context, what, left, damaged);
      if (mode === "append") {
        context.checks.equal(`${what}: an append that was cut is damaged`, damaged.length > 0, true);
        for (const each of damaged) await recoverAll(each);
        for (const each of damaged)
          context.checks.equal(
            `${what}: what is recovered is right`,
            await proveOurs(context, what, "whole", each),
            true,
          );
        await proveForeign(context, `${what}, recovered`, damaged, []);
      }
      await rm(root, { recursive: true });
    }
  }
}

/** What a conversion into a hierarchy leaves if it is killed is a hierarchy: zarr-python reads what the root lists, before and after it is completed. */
async function proveKilledJoins({ checks, peer, folder }: SuiteContext): Promise<void> {
  const fixture = findFixture("ctable/bcolz-mixed");
  const price = fixture.kind === "table" ? fixture.columns["price"] : undefined;
  for (const [i, image] of (await killedJoins()).entries())
    for (const isCompleted of [false, true]) {
      const disk = join(folder, `join-${i}-${isCompleted}`);
      const store = new FileStore(disk);
      for (const [key, bytes] of image) await store.put(key, bytes);
      if (isCompleted) await convertInto(store, { overwrite: true });
      await store.close();
      const group = { path: join(disk, ROOT), group: true, use: "listed" };
      const array = { path: join(disk, NODE, "price"), dtype: "<f8" };
      const isListed = isCompleted || Buffer.from(image.get(`${ROOT}/zarr.json`) ?? []).includes("a/b/t");
      const isThere = isCompleted || image.has(`${NODE}/price/zarr.json`);
      const [listed, values] = (await peer("zarr-python")?.read([group, array])) ?? [];
      if (values === undefined) return;
      const label = `a join killed at write ${i + 1}${isCompleted ? ", completed" : ""}`;
      const members = isListed
        ? ["a", "a/b", "a/b/t", "a/b/t/id", "a/b/t/name", "a/b/t/price", "first"]
        : ["first"];
      checks.equal(`${label}: zarr-python lists`, listed, { kind: "group", members, attrs: {} });
      if (isThere)
        checks.values(`${label}: zarr-python reads`, values, {
          shape: [90],
          sha256: price?.sha256 ?? "",
        });
      else checks.refused(`${label}: zarr-python finds nothing yet`, values);
    }
}

/** A program that has all that the loop imports. */
async function makeEntry(folder: string): Promise<string> {
  const rounds = join(folder, "zarr-rounds.mjs");
  await build({
    entryPoints: [join(repositoryRoot, "test", "crash", "zarr-rounds.ts")],
    outfile: rounds,
    format: "esm",
  });
  const built = (file: string): string => pathToFileURL(join(repositoryRoot, "build", "src", file)).href;
  const entry = join(folder, "zarr-entry.mjs");
  const modules = {
    node: built("node/index.js"),
    reading: built("zarr/read/open.js"),
    writing: built("zarr/write/writable-array.js"),
    recovering: built("zarr/write/recover-shard.js"),
    threads: built("node/threads/threads.js"),
    encoding: built("node/threads/thread-encoder.js"),
    pool: built("node/threads/worker-pool.js"),
    rounds: pathToFileURL(rounds).href,
  };
  const lines = Object.entries(modules).map(([name, url]) => `export * as ${name} from "${url}";\n`);
  const worker = `export const workerUrl = new URL("${built("node/threads/chunk-worker.js")}");\n`;
  await writeFile(entry, [...lines, worker].join(""));
  return entry;
}

/** Lets one process after the other continue where the previous one was killed, and copies what each left. */
async function killMany(root: string, entry: string, mode: Mode, threads: number): Promise<Left[]> {
  const folder = join(root, "array");
  await mkdir(folder);
  const array = await createZarr(new FileStore(folder), "a", SPEC);
  await array.set(null, itemsOf(0));
  const loop = join(repositoryRoot, "test", "crash", "zarr-loop.mjs");
  const random = randomFrom(17 + threads);
  const left: Left[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const said = await runAndKill([loop, folder, entry, mode, String(threads)], random() * MAX_DELAY);
    const last = (word: string): number | undefined => {
      const found = [...said.matchAll(new RegExp(`${word} (\\d+)\n`, "g"))].pop();
      return found === undefined ? undefined : Number(found[1]);
    };
    const done = last("done") ?? 0;
    const path = join(root, String(kill));
    await cp(join(folder, "a"), path, { recursive: true });
    left.push({ path, rounds: [done, last("doing") ?? done] });
  }
  return left;
}

/** An append that was certainly interrupted: a file that is cut in the middle of the added bytes. */
async function cutAppend(root: string): Promise<Left> {
  const folder = join(root, "cut");
  const store = new FileStore(folder);
  const array = await createZarr(store, "", SPEC, { strategy: "append" });
  await array.set(null, itemsOf(0));
  await array.set([{ start: ITEMS, stop: 2 * ITEMS, step: 1 }], chunkOf(1, 1));
  await store.close();
  const file = join(folder, "c", "0");
  await truncate(file, (await readFile(file)).length - ITEMS);
  return { path: folder, rounds: [0, 1] };
}

/** Reads the array shard by shard: each is in one of the rounds. False if it is damaged, which only some may be. */
async function proveOurs(
  { checks }: SuiteContext,
  what: string,
  mode: Mode,
  { path, rounds }: Left,
): Promise<boolean> {
  const items = await readAll(path);
  if (items === undefined) {
    checks.equal(
      `${what}: damage is left by writing into shards alone`,
      ["append", "fixed"].includes(mode),
      true,
    );
    return false;
  }
  for (let shard = 0; shard < SHARDS; shard++) {
    const round = roundOf(items, shard);
    const found = items.subarray(shard * CHUNKS * ITEMS, (shard + 1) * CHUNKS * ITEMS);
    const isRight =
      rounds.includes(round) && Buffer.compare(bytesOf(found), bytesOf(shardOf(round, shard))) === 0;
    checks.equal(`${what}: shard ${shard} of ${path} is in round ${round}, one of ${rounds}`, isRight, true);
  }
  return true;
}

/** All items; undefined if they are damaged. */
async function readAll(path: string): Promise<Int32Array | undefined> {
  const store = new FileStore(path);
  try {
    return ((await (await openZarrArray(store, "")).get()) as ArraySlice).data as Int32Array;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return undefined;
    throw error;
  } finally {
    await store.close();
  }
}

/** The readers have the same values as we have, or an error where we have one. */
async function proveForeign(
  { checks, peer }: SuiteContext,
  what: string,
  left: readonly Left[],
  damaged: readonly Left[],
): Promise<void> {
  const expected = await Promise.all(left.map(async ({ path }) => readAll(path)));
  for (const name of ZARR_READERS) {
    const answers = (await peer(name)?.read(left.map(({ path }) => ({ path, dtype: "<i4" })))) ?? [];
    for (const [i, answer] of answers.entries()) {
      const each = left[i];
      const items = expected[i];
      if (each === undefined) continue;
      const label = `${what}: ${name} reads ${each.path}`;
      if (damaged.includes(each) || items === undefined) checks.refused(`${label}, which is damaged`, answer);
      else {
        const sha256 = createHash("sha256").update(bytesOf(items)).digest("hex");
        checks.values(label, answer, { shape: SPEC.shape, sha256 });
      }
    }
  }
}

async function recoverAll({ path }: Left): Promise<void> {
  const store = new FileStore(path);
  const array = await openZarrWriter(store, "");
  for (let shard = 0; shard < SHARDS; shard++) await recoverShard(array, [shard]);
  await store.close();
}

function bytesOf(items: Int32Array): Uint8Array {
  return new Uint8Array(items.buffer, items.byteOffset, items.byteLength);
}
