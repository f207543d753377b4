/** Shards that are written in place: what is left if the disk is full, and under the other names that an object has. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { bundleScript } from "../store/script.ts";
import { openZarrWriter } from "./writer.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };
/** Items of a chunk, and chunks of the shard. */
const [LENGTH, CHUNKS] = [16_384, 4];
const spec = {
  ...{ shape: [LENGTH * CHUNKS], dataType: "int32", chunkShape: [LENGTH], shardShape: [LENGTH * CHUNKS] },
  ...{ fillValue: -1, codecs: [LITTLE, ZSTD] },
} as const;

function makeFolder(): string {
  const folder = temporaryFolder();
  return folder;
}

/** Values of the n-th change: in every other one a chunk hardly gets smaller. */
function valuesOf(change: number, length: number): Int32Array {
  return Int32Array.from({ length }, (_, i) =>
    change % 2 === 0 ? change : Math.imul(i + 7, 0x9e3779b1 + change),
  );
}

const whole = (chunk: number): { start: number; stop: number; step: number } => ({
  start: chunk * LENGTH,
  stop: (chunk + 1) * LENGTH,
  step: 1,
});

test.each([
  ["append", "end"],
  ["append", "start"],
  ["fixed", "end"],
  ["fixed", "start"],
] as const)(
  "[FH-08] a write by %s that the disk has no space for leaves the shard unchanged, index at the %s",
  async (strategy, indexLocation) => {
    const folder = makeFolder();
    const array = await createZarr(new FileStore(folder), "a", { ...spec, indexLocation });
    await array.set(null, 0);
    const script = join(folder, "writer.mjs");
    const at = (path: string): string => JSON.stringify(join(process.cwd(), path));
    await bundleScript(
      `import { FileStore } from ${at("src/node/fs/fs-store.ts")};
      import { openZarrWriter } from ${at("test/zarr/writer.ts")};
      const array = await openZarrWriter(new FileStore(${JSON.stringify(folder)}), "a", { strategy: ${JSON.stringify(strategy)} });
      const valuesOf = ${valuesOf.toString()};
      let done = 0;
      try {
        for (; done < 100; done++) {
          // Two chunks at a time: one that gets another place, and one that stays where it was if it can.
          const chunk = done % ${CHUNKS - 1};
          const start = chunk * ${LENGTH};
          const two = new Int32Array(${2 * LENGTH});
          two.set(valuesOf(done, ${LENGTH}));
          two.set(valuesOf(done + 1, ${LENGTH}), ${LENGTH});
          await array.set([{ start, stop: start + ${2 * LENGTH}, step: 1 }], two);
        }
      } catch (error) {
        process.stdout.write(done + " " + error.code);
      }`,
      script,
    );
    // The limit of a file's length, in blocks of 512 bytes: a full disk without needing one. In fixed order a shard
    // stops growing.
    const out = execFileSync(
      "sh",
      [
        "-c",
        'ulimit -f "$2"; exec "$0" "$1"',
        process.execPath,
        script,
        strategy === "append" ? "600" : "300",
      ],
      {
        encoding: "utf8",
      },
    );
    const [done = "", code] = out.split(" ");
    expect(code).toBe("LIMIT");
    const model = new Int32Array(LENGTH * CHUNKS);
    for (let change = 0; change < Number(done); change++) {
      const start = (change % (CHUNKS - 1)) * LENGTH;
      model.set(valuesOf(change, LENGTH), start);
      model.set(valuesOf(change + 1, LENGTH), start + LENGTH);
    }
    const read = async (): Promise<unknown> =>
      ((await (await openZarrArray(new FileStore(folder), "a")).get()) as ArraySlice).data;
    expect(
      Buffer.compare(Buffer.from(((await read()) as Int32Array).buffer), Buffer.from(model.buffer)),
    ).toBe(0);
    // With space again, the next write continues.
    const writer = await openZarrWriter(new FileStore(folder), "a", { strategy });
    await writer.set([whole(2)], 5);
    model.fill(5, 2 * LENGTH, 3 * LENGTH);
    expect(
      Buffer.compare(Buffer.from(((await read()) as Int32Array).buffer), Buffer.from(model.buffer)),
    ).toBe(0);
    expect(await writer.verify()).toMatchObject({ ok: true });
  },
);

test.each([
  ["append", "hard"],
  ["append", "symbolic"],
  ["fixed", "hard"],
  ["fixed", "symbolic"],
] as const)(
  "[FH-08] a shard with a second name is not written to by %s: the file under the other name is unchanged (%s link)",
  async (strategy, kind) => {
    const folder = makeFolder();
    const array = await createZarr(new FileStore(folder), "a", spec, { strategy });
    await array.set(null, 1);
    const shard = join(folder, "a", "c", "0");
    const backup = join(folder, "backup");
    if (kind === "hard") fs.linkSync(shard, backup);
    else {
      fs.renameSync(shard, backup);
      fs.symlinkSync(backup, shard);
    }
    const before = fs.readFileSync(backup);
    await array.set([whole(1)], 2);
    await array.set([whole(2)], valuesOf(1, LENGTH));
    expect(fs.readFileSync(backup).equals(before)).toBe(true);
    const { data } = (await (await openZarrArray(new FileStore(folder), "a")).get()) as ArraySlice;
    const expected = new Int32Array(LENGTH * CHUNKS).fill(1);
    expected.fill(2, LENGTH, 2 * LENGTH);
    expected.set(valuesOf(1, LENGTH), 2 * LENGTH);
    expect(Buffer.compare(Buffer.from((data as Int32Array).buffer), Buffer.from(expected.buffer))).toBe(0);
  },
);
