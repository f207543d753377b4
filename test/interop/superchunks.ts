/**
 * Every superchunk that we write, opened by bloscpack: plain ones, with spare offsets, after appends and merges,
 * patches, and those of columns. bloscpack must refuse version 4, where only the offsets say where chunks are, and
 * reads the file again once it is compacted. The reference reader opens the arrays themselves, with their layouts,
 * patches and journals.
 */
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import type { ArrayArchive, BytesArchive } from "../../src/archive/kinds/types.ts";
import { formatDType } from "../../src/format/dtype.ts";
import { CHECKSUM_NAMES } from "../../src/format/header.ts";
import { create as createArray, edit as openWritable } from "../../src/node/edit.ts";
import { FileStore, open } from "../../src/node/index.ts";
import type { ArrayOptions } from "../../src/write/array/create.ts";
import { compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import type { Editable } from "../../src/write/editable.ts";
import type { FixtureDType } from "../fixtures/manifest.ts";
import type { Suite, SuiteContext } from "./suite.ts";

export const superchunks: Suite = {
  name: "superchunks",
  peers: ["bloscpack", "reference reader"],
  async run(context) {
    for (const history of HISTORIES) await shareArray(context, history);
    await shareRowsOfNothing(context);
    await shareStreams(context);
  },
};

/** How an array was made. */
interface History {
  readonly name: string;
  readonly options: ArrayOptions;
  readonly play: (array: Editable) => Promise<void>;
  readonly modify?: "in-place";
}

const ramp = (from: number, count: number): Float64Array =>
  Float64Array.from({ length: count }, (_, i) => from + (i >> 3));
const PLAIN = { dtype: "<f8", chunkLength: 100, superchunkLength: 5 } as const;

async function append(array: Editable, ...counts: readonly number[]): Promise<void> {
  for (const count of counts) {
    await array.append(ramp(array.length, count));
    await array.flush();
  }
}

const HISTORIES: readonly History[] = [
  { name: "one append", options: PLAIN, play: (array) => append(array, 1000) },
  { name: "a short last chunk, and spare offsets", options: PLAIN, play: (array) => append(array, 1123) },
  { name: "a single short chunk", options: PLAIN, play: (array) => append(array, 7) },
  {
    name: "appends that leave many parts",
    options: PLAIN,
    play: (array) => append(array, 430, 33, 5, 120, 1, 77, 250, 99),
  },
  {
    name: "patches",
    options: PLAIN,
    async play(array) {
      await append(array, 1730);
      for (const start of [3, 450, 900]) {
        await array.set([{ start, stop: start + 300, step: 7 }], -start);
        await array.flush();
      }
    },
  },
  {
    name: "cut, and grown again",
    options: { ...PLAIN, fillValue: 2.5 },
    async play(array) {
      await append(array, 1730);
      await array.resize(640);
      await array.resize(1500);
      await array.deleteRows(10, 77);
    },
  },
  ...CHECKSUM_NAMES.map((checksum) => ({
    name: `checksum ${checksum}`,
    options: { ...PLAIN, checksum },
    play: (array: Editable) => append(array, 777),
  })),
  // Without snappy, which bloscpack's Blosc was built without.
  ...(["blosclz", "lz4hc", "zlib", "zstd"] as const).map((cname) => ({
    name: `compressor ${cname}`,
    options: { ...PLAIN, compressor: { cname } },
    play: (array: Editable) => append(array, 777),
  })),
  {
    name: "columns",
    options: {
      dtype: [
        ["id", "<i4"],
        ["at", ">f8", [2]],
        ["tag", "|S3"],
      ],
      chunkLength: 50,
      superchunkLength: 4,
    },
    async play(array) {
      for (const count of [333, 21, 2]) {
        await array.append(Array.from({ length: count }, (_, i) => [i, [i / 2, -i], `t${i % 9}`]));
        await array.flush();
      }
      await array.set([{ start: 0, stop: 300, step: 11 }], [[7, [1, 2], "x"]]);
      await array.flush();
    },
  },
  {
    name: "columns with padding between them",
    options: {
      dtype: [
        ["id", "<i2"],
        ["", "|V2"],
        ["value", "<f4"],
        ["", "|V8"],
      ],
      chunkLength: 50,
      superchunkLength: 4,
    },
    async play(array) {
      await array.append(Array.from({ length: 333 }, (_, i) => [i, i / 2]));
      await array.flush();
      await array.set([{ start: 0, stop: 300, step: 11 }], [[7, 1]]);
      await array.flush();
    },
  },
  {
    name: "reserve",
    options: { ...PLAIN, reserve: "30%" },
    play: (array) => append(array, 1123),
  },
  {
    name: "changes in place",
    options: PLAIN,
    modify: "in-place",
    async play(array) {
      await append(array, 1500);
      await array.set(
        [{ start: 0, stop: 1500, step: 3 }],
        Float64Array.from({ length: 500 }, (_, i) => Math.sin(i)),
      );
      await array.flush();
    },
  },
];

async function shareArray(context: SuiteContext, { name, options, play, modify }: History): Promise<void> {
  const { checks, folder } = context;
  const root = join(folder, name.replaceAll(/\W+/g, "-"));
  const array = await createArray(root, { ...options, modify, threads: 0 });
  await play(array);
  await array.abandon();
  const before = await hashOf(root);
  await compareArray(context, root, name);
  const isMoved = options.reserve !== undefined || modify === "in-place";
  const versions = await compareFiles(context, root, name);
  checks.equal(`versions of ${name}`, versions.includes(4), isMoved);
  if (!isMoved) return;
  const again = await openWritable(root, { threads: 0 });
  await again.compact();
  await again.close();
  checks.equal(`values of ${name}, compacted`, await hashOf(root), before);
  checks.equal(
    `versions of ${name}, compacted`,
    (await compareFiles(context, root, `${name}, compacted`)).includes(4),
    false,
  );
  await compareArray(context, root, `${name}, compacted`);
}

/** Rows of zero bytes: by their shape, and by their dtype, which only a changed document gives them. */
async function shareRowsOfNothing(context: SuiteContext): Promise<void> {
  const root = join(context.folder, "nothing");
  await (await createArray(root, { dtype: "<f8", shape: [5, 0], threads: 0 })).close();
  await compareArray(context, root, "rows of zero bytes");
  const [storage, sizes] = [join(root, "meta", "storage"), join(root, "meta", "sizes")];
  await writeFile(storage, (await readFile(storage, "utf8")).replace("<f8", "|S0"));
  await writeFile(sizes, (await readFile(sizes, "utf8")).replace(/\[5, ?0\]/, "[5]"));
  await compareArray(context, root, "items of zero bytes");
}

/** The whole array, read by the reference reader. */
async function compareArray({ checks, peer }: SuiteContext, root: string, name: string): Promise<void> {
  const array = (await open(root, { threads: 0 })) as ArrayArchive;
  const { shape, dtype } = array;
  const bytes = await array.getBytes();
  await array.close();
  const [answer] =
    (await peer("reference reader")?.read([{ path: root, dtype: formatDType(dtype) as FixtureDType }])) ?? [];
  if (answer !== undefined)
    checks.values(`the reference reader reads ${name}`, answer, { shape, sha256: sha256(bytes) });
}

/** All superchunks of a root, each read by both; version 4 only by us. Returns the versions. */
async function compareFiles(
  { checks, peer }: SuiteContext,
  root: string,
  name: string,
): Promise<readonly number[]> {
  const all = await readdir(join(root, "data"), { recursive: true, withFileTypes: true });
  const paths = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const answers = (await peer("bloscpack")?.read(paths.map((path) => ({ path })))) ?? [];
  const versions: number[] = [];
  for (const [i, answer] of answers.entries()) {
    const path = paths[i] ?? "";
    const version = (await readFile(path))[4] ?? 0;
    versions.push(version);
    const what = `bloscpack reads ${relative(root, path)} of ${name}`;
    if (version === 4) checks.refused(what, answer);
    else {
      const ours = (await open(path, { threads: 0 })) as BytesArchive;
      const bytes = await ours.readBytes(0, ours.nbytes);
      checks.values(what, answer, { shape: [bytes.length], sha256: sha256(bytes) });
      await ours.close();
    }
  }
  return versions;
}

/** A stream records what it knows: bloscpack reads one of known length, and finds nothing in one of unknown length. */
async function shareStreams({ checks, folder, peer }: SuiteContext): Promise<void> {
  const store = new FileStore(folder);
  const data = new Uint8Array(ramp(0, 5000).buffer);
  const pieces = [data.subarray(0, 777), data.subarray(777)];
  const options = { stream: true, chunkSize: 4096 } as const;
  await compressBytes(pieces, store, "known.blp", { ...options, size: data.length });
  await compressBytes(pieces, store, "unknown.blp", options);
  await store.close();
  const paths = ["known.blp", "unknown.blp"].map((name) => join(folder, name));
  for (const path of paths) {
    const ours = (await open(path, { threads: 0 })) as BytesArchive;
    checks.equal(`we read ${path}`, sha256(await ours.readBytes(0, ours.nbytes)), sha256(data));
    await ours.close();
  }
  const [known, unknown] = (await peer("bloscpack")?.read(paths.map((path) => ({ path })))) ?? [];
  if (known === undefined || unknown === undefined) return;
  checks.values("bloscpack reads a stream of known length", known, {
    shape: [data.length],
    sha256: sha256(data),
  });
  checks.values("bloscpack reads a stream of unknown length as empty", unknown, {
    shape: [0],
    sha256: sha256(new Uint8Array(0)),
  });
}

async function hashOf(root: string): Promise<string> {
  const array = (await open(root, { threads: 0 })) as ArrayArchive;
  const bytes = await array.getBytes();
  await array.close();
  return sha256(bytes);
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
