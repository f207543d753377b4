/** Text of variable length: zarr-python writes it, we read it, and zarr-python reads what it becomes in Zarr v3. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { FileStore } from "../../src/node/index.ts";
import { putRow } from "../../src/values/item-bytes.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import type { Job } from "./answers.ts";
import { runCommand } from "./command.ts";
import type { SuiteContext } from "./suite.ts";

const DTYPE = "<U9";
const SHAPE = [13, 17];
const TEXTS = ["", "a", "Zürich", "東京", "😀", "of 9 char", "e\u0301", "\ufeffmark", " \n\t"];

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 1, blocksize: 0 },
};
const TEXT = { name: "vlen-utf8" };

function inShards(codecs: readonly object[]): object {
  const index = { index_codecs: [LITTLE, { name: "crc32c" }], index_location: "end" };
  return { name: "sharding_indexed", configuration: { chunk_shape: [2, 5], codecs, ...index } };
}

function version3(...codecs: readonly object[]): object {
  return {
    ...{
      zarr_format: 3,
      node_type: "array",
      shape: SHAPE,
      data_type: "string",
      fill_value: "",
      attributes: {},
    },
    chunk_grid: { name: "regular", configuration: { chunk_shape: [4, 10] } },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    codecs,
  };
}

function version2(compressor: object | null, order: "C" | "F" = "C"): object {
  const filters = [{ id: "vlen-utf8" }];
  return {
    ...{ zarr_format: 2, shape: SHAPE, chunks: [4, 10], dtype: "|O" },
    compressor,
    filters,
    fill_value: "",
    order,
  };
}

const V2_BLOSC = { id: "blosc", cname: "zstd", clevel: 3, shuffle: 2, blocksize: 0 };

/** Documents, and whether `convert` copies all chunks. */
const CASES: readonly (readonly [name: string, document: object, isCopied: boolean])[] = [
  ["no codec", version3(TEXT), true],
  ["zstd", version3(TEXT, ZSTD), true],
  ["blosc, crc32c", version3(TEXT, BLOSC, { name: "crc32c" }), true],
  [
    "gzip, transposed",
    version3({ name: "transpose", configuration: { order: [1, 0] } }, TEXT, {
      name: "gzip",
      configuration: { level: 1 },
    }),
    true,
  ],
  ["shards of zstd", version3(inShards([TEXT, ZSTD])), true],
  ["version 2, blosc", version2(V2_BLOSC), true],
  ["version 2, order F", version2({ id: "zstd", level: 1 }, "F"), true],
  ["version 2, no compressor", version2(null), true],
  ["version 2, zlib", version2({ id: "zlib", level: 1 }), false],
];

export async function proveText({ checks, folder, peer }: SuiteContext): Promise<void> {
  const zarrPython = peer("zarr-python");
  if (zarrPython === undefined) return;
  const dtype = parseDType(DTYPE, "");
  const bytes = new Uint8Array(13 * 17 * dtype.itemSize);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 13 * 17; i++)
    putRow(view, i * dtype.itemSize, dtype, [], TEXTS[(i * 7) % TEXTS.length]);
  const from = join(folder, "texts");
  await writeFile(from, bytes);
  const expected = { shape: SHAPE, sha256: createHash("sha256").update(bytes).digest("hex") };
  const root = join(folder, "text");
  const job = { dtype: DTYPE, text: true } as const;
  const jobs: Job[] = [];
  for (const [i, [, document]] of CASES.entries()) {
    const path = join(root, String(i));
    await mkdir(path, { recursive: true });
    const isVersion2 = "dtype" in document;
    await writeFile(join(path, isVersion2 ? ".zarray" : "zarr.json"), JSON.stringify(document));
    jobs.push({ ...job, path, make: "zarr", from, shape: SHAPE });
  }
  const copies: [string, Job][] = [];
  for (const [i, answer] of (await zarrPython.read(jobs)).entries()) {
    const [name = "", , isCopied] = CASES[i] ?? [];
    const path = join(root, String(i));
    checks.values(`zarr-python writes text: ${name}`, answer, expected);
    try {
      const array = await openZarrArray(new FileStore(path));
      const found = createHash("sha256")
        .update(await array.getBytes())
        .digest("hex");
      checks.equal(`we read text that zarr-python writes: ${name}`, found, expected.sha256);
      checks.equal(`every chunk of that text: ${name}`, (await array.verify()).findings, []);
    } catch (error) {
      checks.fail(`we read text: ${name}`, isSuperchunkError(error) ? error.message : String(error));
    }
    const copy = `${path}-v3`;
    const { code, stdout } = await runCommand("convert", path, copy, "--verify");
    const how = isCopied === true ? "copied" : "recompressed";
    checks.equal(`text becomes version 3, ${how}: ${name}`, [code, / 0 recoded/.test(stdout)], [0, isCopied]);
    copies.push([name, { ...job, path: copy }]);
  }
  const answers = await zarrPython.read(copies.map(([, each]) => each));
  for (const [i, answer] of answers.entries())
    checks.values(`zarr-python reads text that became version 3: ${copies[i]?.[0]}`, answer, expected);
}
