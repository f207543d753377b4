/** The sharding storage transformer against zarr 2.18, which wrote it: the calls of its store, and what is converted to it. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { FileStore } from "../../src/node/index.ts";
import { createTransformerArray, ShardingTransformer } from "../../src/zarr/transformer.ts";
import { findFixture } from "../fixtures/manifest.ts";
import type { StoreCall } from "./answers.ts";
import { runCommand } from "./command.ts";
import { lastLines } from "./program.ts";
import type { SuiteContext } from "./suite.ts";

/** Archives that the command turns into transformer shards, read by zarr 2.18. */
export async function proveTransformerExport({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return;
  const rows = [
    findFixture("bloscpack-3/array-f8.blp"),
    findFixture("carray/bcolz-f8-chunks"),
    findFixture("carray/bcolz-i8-2d-attrs"),
  ];
  for (const row of rows) {
    if (row.kind !== "array" || typeof row.dtype !== "string") throw new Error(row.path);
    const target = join(folder, `exported-${row.path.replaceAll("/", "-")}`);
    const result = await runCommand(
      ...(["convert", row.file, target, "--to", "zarr3-transformer", "--chunks-per-shard", "2"] as const),
    );
    if (result.code !== 0) checks.fail(`convert ${row.path} --to zarr3-transformer`, lastLines(result));
    const [answer] = await zarr2.read([{ path: target, dtype: row.dtype, arrayPath: "" }]);
    if (answer !== undefined)
      checks.values(`zarr 2.18 reads ${row.path} as transformer shards`, answer, {
        shape: row.shape,
        sha256: row.sha256,
      });
  }
}

/** The calls of the draft's store: what one of us stores, lists and erases, the other finds, in the same shards. */
export async function proveTransformerCalls({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarr2 = peer("zarr 2.18");
  if (zarr2 === undefined) return;
  for (const separator of ["/", "."] as const) {
    const path = join(folder, `calls-${separator === "/" ? "slash" : "dot"}`);
    await mkdir(path);
    const store = new FileStore(path);
    const spec = {
      ...{ shape: [9, 11], chunkShape: [2, 2], chunksPerShard: [2, 3], dataType: "<i4", fillValue: 0 },
      ...{ separator, order: "C" as const, compressor: null },
    };
    await createTransformerArray(store, "", "g/a", spec);
    const prefix = "data/root/g/a";
    const settings = { prefix, chunksPerShard: spec.chunksPerShard, chunkCounts: [5, 6], separator };
    const ours = new ShardingTransformer(store, settings);
    const key = (row: number, column: number): string => `${prefix}/c${row}${separator}${column}`;
    const ask = async (name: string, calls: readonly StoreCall[]): Promise<void> => {
      const parts = [
        [key(1, 2), 1, 3],
        [key(4, 5), 0, 1],
      ] as const;
      const [answer] = await zarr2.read([{ path, arrayPath: "g/a", make: "calls", calls, parts }]);
      const found = answer?.kind === "group" ? answer.members : answer;
      const keys = [];
      for await (const each of ours.listPrefix(`${prefix}/`)) keys.push(each);
      const listed = [];
      for (const each of keys.sort()) listed.push(`${each} ${toHex(await ours.get(each))}`);
      const read = await ours.getPartialValues(parts.map(([at, offset, length]) => [at, { offset, length }]));
      const { keys: direct, prefixes } = await ours.listDir(`${prefix}/`);
      const expected = [...listed, ...read.map(toHex), ...direct, ...prefixes];
      checks.equal(`zarr 2.18 and we find the same chunks, separator ${separator}: ${name}`, found, expected);
    };
    const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
    for (const [row, column] of [
      [0, 0],
      [1, 2],
      [1, 3],
      [3, 1],
      [4, 5],
    ] as const)
      await ours.set(key(row, column), bytes(row, column, 7, 8, 9));
    await ask("set by us", []);
    await ours.setPartialValues([
      [key(1, 2), 1, bytes(50, 51)],
      [key(3, 1), 5, bytes(60)],
    ]);
    await ours.erase(key(0, 0));
    await ours.eraseValues([key(4, 5)]);
    await ask("changed in part and erased by us", []);
    await ask("set, changed in part and erased by it", [
      ["set", key(2, 4), "0102030405"],
      ["setPartial", key(1, 2), 0, "ff"],
      ["erase", key(1, 3)],
    ]);
    await ours.set(key(0, 0), bytes(1));
    await ask("set by us over what it erased", []);
    await ask("all below a prefix erased by it", [["erasePrefix", `${prefix}/`]]);
    await ours.set(key(1, 2), bytes(1, 2, 3, 4));
    await ask("set by us again", []);
    await ours.erasePrefix(`${prefix}/`);
    await ask("all below a prefix erased by us", []);
  }
}

function toHex(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? "none" : Buffer.from(bytes).toString("hex");
}
