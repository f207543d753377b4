/** A plan from S3 to S3 in shares: the objects of one `convert`, and as many requests as docs/many-machines.md counts. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { convert, create, finish, plan, runTasks, S3Store } from "../../src/node/index.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "../node/s3/server.ts";

const CHUNKS = 128;
const CHUNKS_PER_SHARD = 8;
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

it("each chunk's file is read once, each shard put once, and little besides", async () => {
  const folder = temporaryFolder();
  const rows = 1024 * CHUNKS;
  const data = Float64Array.from({ length: rows }, (_, i) => (i * 7919) % 65_521);
  const made = await create(join(folder, "in"), { format: "bcolz", dtype: "<f8", data, chunkLength: 1024 });
  await made.close();
  const bucket = new S3Store({ bucket: s3.bucket });
  for (const entry of await readdir(join(folder, "in"), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    await bucket.put(file.slice(folder.length + 1), await readFile(file));
  }
  const [from, to] = [`s3://${s3.bucket}/in`, `s3://${s3.bucket}/out.zarr`];
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
