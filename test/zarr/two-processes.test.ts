/** Processes that append to one Zarr array at the same time: one of them gets the conflict, and no row that was reported is lost. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { create, openArray } from "../../src/node/index.ts";
import { bundleWriting } from "../crash/bundle.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";

const LOOP = join(repositoryRoot, "test", "zarr", "append-loop.mjs");

test.each([
  ["chunks", {}],
  ["shards", { shardShape: [64] }],
])("%s", async (_, layout) => {
  const folder = temporaryFolder();
  const [path, entry, start] = [join(folder, "a.zarr"), join(folder, "edit.mjs"), join(folder, "start")];
  await bundleWriting(entry);
  const array = await create(path, {
    format: "zarr",
    dtype: "<i4",
    shape: [0],
    chunkShape: [16],
    ...layout,
  });
  await array.close();
  const rounds = sweep(200, 15);
  const children = [1_000_000, 2_000_000].map((own) =>
    spawn(process.execPath, [LOOP, path, entry, String(own), String(rounds), start], {
      stdio: ["ignore", "pipe", "inherit"],
    }),
  );
  const outputs = Promise.all(children.map((child) => text(child.stdout)));
  const ended = Promise.all(children.map((child: ChildProcess) => once(child, "exit")));
  await Promise.all(children.map((child) => once(child.stdout, "readable")));
  writeFileSync(start, "");
  expect((await ended).map(([code]) => code)).toEqual([0, 0]);
  const lines = (await outputs).flatMap((output) => output.split("\n"));
  const acknowledged = lines.filter((line) => /^\d+$/.test(line)).map(Number);
  expect(acknowledged.length).toBe(2 * rounds);
  await using read = await openArray(path, { dtype: "int32" });
  const { data } = await read.get(null);
  const found = new Map<number, number>();
  for (const value of data) found.set(value, (found.get(value) ?? 0) + 1);
  expect(acknowledged.filter((value) => found.get(value) !== 5)).toEqual([]);
  // What a conflict stopped may have been written when the array was closed.
  expect([...found].filter(([, rows]) => rows !== 5)).toEqual([]);
  expect(readdirSync(path).filter((name) => name.endsWith(".tmp"))).toEqual([]);
});
