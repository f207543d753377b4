/** A plan from S3 to S3 in shares: the objects of one `convert`, and as many requests as docs/many-machines.md counts. */
import { cp, open as openFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { convert, create, FileStore, finish, plan, runTasks, S3Store } from "../../src/node/index.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "../node/s3/server.ts";

const CHUNKS = 64;
const CHUNKS_PER_SHARD = 4;
const SHARES = 4;

let s3: TestS3;
let restoreEnvironment: () => void;

beforeAll(async () => {
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3);
});
afterAll(async () => {
  restoreEnvironment();
  await s3.close();
});

/** Requests since the last call, by kind. */
function requests(): { readonly gets: number; readonly puts: number; readonly others: number } {
  const methods = s3.log.splice(0).map((line) => (/list-type/.test(line) ? "LIST" : line.split(" ")[0]));
  const count = (method: string): number => methods.filter((each) => each === method).length;
  return { gets: count("GET"), puts: count("PUT"), others: methods.length - count("GET") - count("PUT") };
}

it("each chunk's file is read once, each shard written once, with few other requests", async () => {
  const folder = temporaryFolder();
  const rows = 1024 * CHUNKS;
  const data = Float64Array.from({ length: rows }, (_, i) => (i * 7919) % 65_521);
  const made = await create(join(folder, "in"), { format: "bcolz", dtype: "<f8", data, chunkLength: 1024 });
  await made.close();
  for (const entry of await readdir(join(folder, "in"), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    s3.fill(file.slice(folder.length + 1), await readFile(file));
  }
  const [from, to] = [`s3://${s3.bucket}/in`, `s3://${s3.bucket}/out.zarr`];
  // Receipts are also written once a second: on a slow machine there would be more of them.
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  requests();
  const planned = await plan(from, to, { chunksPerShard: CHUNKS_PER_SHARD });
  const atPlan = requests();
  expect(atPlan.gets + atPlan.puts + atPlan.others).toBeLessThanOrEqual(14);
  for (let k = 1; k <= SHARES; k++) {
    await runTasks(planned, { share: { k, n: SHARES } });
    const { gets, puts, others } = requests();
    // The metadata, the record, the first chunk once more.
    expect(gets - CHUNKS / SHARES).toBeLessThanOrEqual(10);
    // The record and the receipts.
    expect(puts - CHUNKS / CHUNKS_PER_SHARD / SHARES).toBeLessThanOrEqual(3);
    expect(others).toBeLessThanOrEqual(16);
  }
  await finish(planned);
  const atEnd = requests();
  expect(atEnd.puts).toBe(2);
  expect(atEnd.gets).toBeLessThanOrEqual(6 + SHARES);
  const straight = `s3://${s3.bucket}/straight.zarr`;
  await convert(from, straight, { chunksPerShard: CHUNKS_PER_SHARD });
  const [shared, wanted] = ["out.zarr", "straight.zarr"].map(
    (prefix) => new S3Store({ bucket: s3.bucket, prefix }),
  );
  if (shared === undefined || wanted === undefined) throw new Error("two stores");
  const keys = (await keysOf(wanted)).sort();
  expect(keys.length).toBe(CHUNKS / CHUNKS_PER_SHARD + 1);
  expect((await keysOf(shared)).sort()).toEqual(keys);
  for (const key of keys) expect(await shared.get(key), key).toEqual(await wanted.get(key));
});

it("folders, which S3 cannot rename, appear whole at their destination: conversions to bcolz, and repaired copies", async () => {
  const folder = temporaryFolder();
  const data = join(folder, "data");
  for (const name of ["carray/bcolz-bool", "carray/bcolz-f8-chunks"])
    await cp(join(corpusFolder, name), join(data, name), { recursive: true });
  const file = await openFile(join(data, "carray/bcolz-f8-chunks/data/__3.blp"), "r+");
  await file.write("damage", 16);
  await file.close();
  for (const [name, options] of [
    ["tables", { to: "bcolz", damaged: "fill" }],
    ["saved", { command: "repair", holes: "fill" }],
  ] as const) {
    for (const to of [`s3://${s3.bucket}/${name}`, join(folder, name)]) {
      const planned = await plan(data, to, options);
      // Twice concurrently: each makes everything.
      const runs = await Promise.all([runTasks(planned), runTasks(planned)]);
      expect(runs.flatMap(({ failures }) => failures)).toEqual([]);
      await finish(planned);
    }
    const [made, wanted] = [
      new S3Store({ bucket: s3.bucket, prefix: name }),
      new FileStore(join(folder, name)),
    ];
    const keys = (await keysOf(wanted)).sort();
    expect(keys.length).toBeGreaterThan(5);
    // The server omits folders that contain only folders, but not in a listing of everything.
    const listed = await (await fetch(`${s3.endpoint}/${s3.bucket}?list-type=2&prefix=${name}`)).text();
    expect([...listed.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => key).sort()).toEqual(
      keys.map((key) => `${name}/${key}`),
    );
    for (const key of keys.filter((each) => each !== "repair.jsonl"))
      expect(await made.get(key), key).toEqual(await wanted.get(key));
  }
});

it.each([
  ["bcolz", { rows: 300, chunkLength: 8, shardSize: 512 }],
  ["blz", { rows: 1300, chunkLength: 2, shardSize: 4096 }],
] as const)(
  "parts of one archive in %s, written twice at once, are those of one conversion on a disk",
  async (to, { rows, chunkLength, shardSize }) => {
    const folder = temporaryFolder();
    const data = Uint32Array.from({ length: rows }, (_, row) => row * row);
    const made = await create(join(folder, "in"), { format: "bcolz", dtype: "<u4", data, chunkLength });
    await made.close();
    await convert(join(folder, "in"), join(folder, "out"), { to });
    const planned = await plan(join(folder, "in"), `s3://${s3.bucket}/parts.${to}`, { to, shardSize });
    expect(planned.sources[0]?.tasks).toHaveLength(1);
    await Promise.all([runTasks(planned), runTasks(planned)]);
    expect(await finish(planned)).toMatchObject({ failed: 0 });
    const shared = new S3Store({ bucket: s3.bucket, prefix: `parts.${to}` });
    const wanted = new FileStore(join(folder, "out"));
    const keys = (await keysOf(wanted)).sort();
    expect((await keysOf(shared)).sort()).toEqual(keys);
    const shown = async (store: S3Store | FileStore, key: string): Promise<string> =>
      Buffer.from((await store.get(key)) ?? [])
        .toString("latin1")
        .replace(/"id": "[0-9a-f]{32}"/, "");
    for (const key of keys) expect(await shown(shared, key), key).toBe(await shown(wanted, key));
  },
);
