/**
 * What we write in the formats of bloscpack and bcolz is what they write, and they go on with it.
 *
 * Files are compared byte for byte where the chunks are equal; that they are is sure for level 0, which only stores.
 */
import { createHash } from "node:crypto";
import { copyFile, cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { appendToBloscpack } from "../../src/array/foreign/bloscpack-append.ts";
import type { BloscpackOptions } from "../../src/array/foreign/bloscpack-options.ts";
import { compressArray, compressBytes } from "../../src/array/foreign/bloscpack-write.ts";
import { chooseChunklen } from "../../src/array/foreign/carray-settings.ts";
import {
  appendToCarray,
  createCarray,
  resizeCarray,
  trimCarray,
} from "../../src/array/foreign/carray-write.ts";
import { addColumn, renameColumn } from "../../src/array/foreign/table-columns.ts";
import { appendToTable, createTable, trimTable } from "../../src/array/foreign/table-write.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { decodeHeader } from "../../src/format/header.ts";
import { decodeSectionHeader } from "../../src/format/metadata.ts";
import type { ChecksumName, DType, JsonValue } from "../../src/format/types.ts";
import { FileStore, open } from "../../src/node/index.ts";
import type { FixtureDType } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";
import type { Checks } from "./checks.ts";
import type { PeerName } from "./peers.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const BCOLZ = ["bcolz-zipline", "bcolz 1.2.1"] as const;

export const foreign: Suite = {
  name: "foreign",
  peers: [
    "bloscpack",
    "bloscpack, writing",
    ...BCOLZ,
    ...BCOLZ.map((name) => `${name}, writing` as const),
  ] satisfies readonly PeerName[],
  async run(context) {
    await compareFiles(context);
    await compareAppends(context);
    for (const name of BCOLZ) {
      await shareArrays(context, name);
      await shareTable(context, name);
    }
  },
};

interface FileCase {
  readonly name: string;
  readonly data: Uint8Array;
  readonly options: BloscpackOptions & { readonly clevel: number };
  readonly array?: {
    readonly dtype: FixtureDType;
    readonly shape: readonly number[];
    readonly order: "C" | "F";
  };
  readonly metadata?: JsonValue;
}

/** Each file made by both. */
async function compareFiles({ checks, folder, peer }: SuiteContext): Promise<void> {
  const store = new FileStore(folder);
  const cases = listFiles();
  const jobs: Job[] = [];
  for (const [i, { data, options, array, metadata }] of cases.entries()) {
    const from = join(folder, `data-${i}`);
    await writeFile(from, data);
    if (array === undefined) {
      const more = metadata === undefined ? {} : { metadata };
      await compressBytes(data, store, `ours-${i}.blp`, { ...options, ...more });
    } else {
      const { dtype, shape, order } = array;
      await compressArray({ dtype: dtypeOf(dtype), shape, order, data }, store, `ours-${i}.blp`, options);
    }
    jobs.push({
      path: join(folder, `theirs-${i}.blp`),
      make: array === undefined ? "bytes" : "array",
      from,
      ...array,
      ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
      settings: settingsOf(options),
    });
  }
  const made = (await peer("bloscpack, writing")?.read(jobs)) ?? [];
  for (const [i, answer] of made.entries()) {
    const tried = cases[i];
    if (tried === undefined) continue;
    if (answer.kind === "error") checks.fail(`bloscpack makes ${tried.name}`, answer.error);
    else {
      const [ours, theirs] = [join(folder, `ours-${i}.blp`), join(folder, `theirs-${i}.blp`)];
      await compareTwo(checks, tried.name, ours, theirs, tried.options.clevel === 0);
    }
  }
  const answers =
    (await peer("bloscpack")?.read(
      cases.map(({ array }, i) => ({
        path: join(folder, `ours-${i}.blp`),
        ...(array && { dtype: array.dtype }),
      })),
    )) ?? [];
  for (const [i, answer] of answers.entries()) {
    const tried = cases[i];
    if (tried === undefined) continue;
    const { data, array, name } = tried;
    const rows = array === undefined ? undefined : inCOrder(data, array);
    const expected = { shape: array?.shape ?? [data.length], sha256: hash(rows ?? data) };
    checks.values(`bloscpack reads ${name}`, answer, expected);
  }
}

/** Header, metadata section and the length of the table must be equal; all of it where the chunks are. */
async function compareTwo(
  checks: Checks,
  name: string,
  ours: string,
  theirs: string,
  mustEqual: boolean,
): Promise<void> {
  const [a, b] = [await readFile(ours), await readFile(theirs)];
  const header = decodeHeader(b, theirs);
  const section = header.metadata ? decodeSectionHeader(b.subarray(32, 64), theirs, 32).sectionLength : 0;
  const tableAt = 32 + section;
  checks.equal(`header and metadata of ${name}`, hex(a.subarray(0, tableAt)), hex(b.subarray(0, tableAt)));
  const chunksAt = tableAt + (header.offsets ? 8 * (header.nchunks + header.maxAppChunks) : 0);
  const sameChunks = a.length === b.length && a.subarray(chunksAt).equals(b.subarray(chunksAt));
  if (mustEqual || sameChunks) checks.equal(`all bytes of ${name}`, a.equals(b), true);
  else {
    const firsts = [a, b].map((file) => (header.offsets ? Number(file.readBigInt64LE(tableAt)) : chunksAt));
    checks.equal(`place of the first chunk of ${name}`, firsts[0], firsts[1]);
  }
}

function listFiles(): FileCase[] {
  const cases: FileCase[] = [];
  const sums: ChecksumName[] = [
    "None",
    "adler32",
    "crc32",
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
  ];
  const lengths = [0, 1, 1000, 4096, 4097, 100_000];
  for (const [i, checksum] of sums.entries()) {
    for (const clevel of [0, 7]) {
      const length = lengths[(i + clevel) % lengths.length] ?? 1;
      const options = { checksum, clevel, chunkSize: 4096, typesize: [1, 4, 8, 16][i % 4] ?? 1 };
      const name = `${length} bytes with ${checksum}, level ${clevel}`;
      cases.push({ name, data: someBytes(length), options });
      cases.push({
        name: `${name}, no offsets`,
        data: someBytes(length),
        options: { ...options, offsets: false },
      });
    }
  }
  for (const maxAppChunks of [0, 7, "3x"] as const)
    cases.push({
      name: `room for ${maxAppChunks}`,
      data: someBytes(9999),
      options: { clevel: 0, chunkSize: 1000, maxAppChunks },
    });
  // Not null: to bloscpack that is no metadata.
  const metadata: JsonValue[] = [
    {},
    [],
    "text",
    17,
    { a: [1, 2.5, "é\u0001", null, true], b: { c: 1e300 } },
    { long: "abc".repeat(500) },
  ];
  for (const value of metadata)
    cases.push({
      name: `metadata ${JSON.stringify(value).slice(0, 40)}`,
      data: someBytes(500),
      options: { clevel: 0 },
      metadata: value,
    });
  const arrays: FileCase["array"][] = [
    { dtype: "<f8", shape: [1000], order: "C" },
    { dtype: ">u2", shape: [40, 25], order: "C" },
    { dtype: "<i4", shape: [10, 20, 5], order: "F" },
    { dtype: "<i4", shape: [1, 100], order: "F" },
    { dtype: "|b1", shape: [77], order: "C" },
    { dtype: "|S5", shape: [100], order: "C" },
    { dtype: "<U3", shape: [100], order: "C" },
    { dtype: "<M8[ns]", shape: [100], order: "C" },
    { dtype: "<c16", shape: [], order: "C" },
    {
      dtype: [
        ["id", "<u4"],
        ["v", "<f4", [3]],
        ["t", "|S4"],
      ],
      shape: [64],
      order: "C",
    },
  ];
  for (const array of arrays) {
    if (array === undefined) continue;
    const items = array.shape.reduce((product, n) => product * n, 1);
    const size = dtypeOf(array.dtype).itemSize;
    const data =
      array.dtype === "|b1"
        ? someBytes(items).map((byte) => byte & 1)
        : array.dtype === "<U3"
          ? someText(items * 3)
          : someBytes(items * size);
    const cut = Math.max(size, Math.floor(700 / size) * size);
    cases.push({
      name: `array ${JSON.stringify(array)}`,
      data,
      options: { clevel: 0, chunkSize: cut, typesize: undefined },
      array,
    });
  }
  return cases;
}

/** The same append to the same file by both. */
async function compareAppends({ checks, folder, peer }: SuiteContext): Promise<void> {
  const store = new FileStore(folder);
  const options = { clevel: 0, typesize: 8, cname: "blosclz", shuffle: "shuffle" } as const;
  const jobs: Job[] = [];
  const names: string[] = [];
  const contents: Uint8Array[] = [];
  for (const [before, added] of [
    [2500, 100],
    [2500, 500],
    [2500, 501],
    [2500, 7777],
    [3000, 1],
    [10, 25],
  ] as const) {
    const name = `append-${before}-${added}`;
    const all = someBytes(before + added);
    await compressBytes(all.subarray(0, before), store, `${name}.blp`, { ...options, chunkSize: 1000 });
    await writeFile(join(folder, `${name}.more`), all.subarray(before));
    for (const how of ["theirs", "in-place", "new"])
      await copyFile(join(folder, `${name}.blp`), join(folder, `${name}.${how}.blp`));
    await appendToBloscpack(store, `${name}.in-place.blp`, all.subarray(before), {
      ...options,
      inPlace: true,
    });
    await appendToBloscpack(store, `${name}.new.blp`, all.subarray(before), options);
    jobs.push({
      path: join(folder, `${name}.theirs.blp`),
      make: "append",
      from: join(folder, `${name}.more`),
      settings: settingsOf(options),
    });
    names.push(name);
    contents.push(all);
  }
  for (const [i, answer] of ((await peer("bloscpack, writing")?.read(jobs)) ?? []).entries()) {
    if (answer.kind === "error") {
      checks.fail(`bloscpack appends, ${names[i]}`, answer.error);
      continue;
    }
    const theirs = join(folder, `${names[i]}.theirs.blp`);
    for (const how of ["in-place", "new"])
      await compareTwo(checks, `${names[i]} ${how}`, join(folder, `${names[i]}.${how}.blp`), theirs, true);
  }
  const read = names.flatMap((name) =>
    ["in-place", "new"].map((how) => ({ path: join(folder, `${name}.${how}.blp`) })),
  );
  for (const [i, answer] of ((await peer("bloscpack")?.read(read)) ?? []).entries()) {
    const all = contents[Math.floor(i / 2)] ?? new Uint8Array(0);
    checks.values(`bloscpack reads ${read[i]?.path}`, answer, { shape: [all.length], sha256: hash(all) });
  }
}

const ITEM_TYPES: readonly FixtureDType[] = [
  "<f8",
  "<i4",
  ">i4",
  "|u1",
  "|b1",
  "<f4",
  "<c16",
  "|S5",
  "<U3",
  "<M8[ns]",
  "<m8[D]",
];

/** Arrays of ours that bcolz reads, appends to and trims, and we again. */
async function shareArrays(
  { checks, folder, peer }: SuiteContext,
  name: (typeof BCOLZ)[number],
): Promise<void> {
  const [reader, writer] = [peer(name), peer(`${name}, writing`)];
  if (reader === undefined || writer === undefined) return;
  const store = new FileStore(folder);
  const lengths = [0, 1, 90, 1000, 100_000, 1_000_000, 100_000_000, 10_000_000_000];
  for (const [i, answer] of (
    await writer.read(lengths.map((rows) => ({ path: "", make: "chunklen", rows })))
  ).entries()) {
    const rows = lengths[i] ?? 0;
    if (answer.kind === "values")
      checks.equal(`${name}'s chunklen for ${rows} rows`, [chooseChunklen(rows, 8)], answer.shape);
    else checks.fail(`${name}'s chunklen for ${rows} rows`, "no answer");
  }
  const made: {
    readonly path: string;
    readonly dtype: FixtureDType;
    readonly bytes: Uint8Array;
    readonly shape: number[];
  }[] = [];
  for (const [i, dtype] of ITEM_TYPES.entries()) {
    for (const rowShape of i === 0 ? [[], [3]] : [[]]) {
      const key = `${name.replaceAll(/\W/g, "")}-${i}-${rowShape.length}`;
      const type = dtypeOf(dtype);
      const rowBytes = rowShape.reduce((product, n) => product * n, type.itemSize);
      const rows =
        dtype === "|b1"
          ? someBytes(200).map((byte) => byte & 1)
          : dtype === "<U3"
            ? someText(600)
            : someBytes(200 * rowBytes);
      const part = (from: number, to: number): Uint8Array => rows.subarray(from * rowBytes, to * rowBytes);
      await createCarray(
        store,
        key,
        { dtype: type, rowShape, data: part(0, 75) },
        { chunklen: 32, attrs: { i } },
      );
      await appendToCarray(store, key, part(75, 150));
      await trimCarray(store, key, 50);
      await appendToCarray(store, key, part(100, 117));
      const shape = [117, ...rowShape];
      made.push({ path: join(folder, key), dtype, bytes: part(0, 117), shape });
    }
  }
  const empty = join(folder, `${name.replaceAll(/\W/g, "")}-empty`);
  await createCarray(new FileStore(empty), "", { dtype: dtypeOf("<i8"), data: someBytes(80) });
  await resizeCarray(new FileStore(empty), "", 0);
  made.push({ path: empty, dtype: "<i8", bytes: new Uint8Array(0), shape: [0] });
  const answers = await reader.read(made.map(({ path, dtype }) => ({ path, dtype })));
  for (const [i, answer] of answers.entries()) {
    const tried = made[i];
    if (tried === undefined) continue;
    checks.values(`${name} reads our ${JSON.stringify(tried.dtype)}`, answer, {
      shape: tried.shape,
      sha256: hash(tried.bytes),
    });
  }
  const full = made.filter(({ shape }) => shape[0] !== 0);
  await writer.read(full.map(({ path }) => ({ path, make: "grow" })));
  for (const [i, answer] of (
    await writer.read(full.map(({ path }) => ({ path, make: "trim", rows: 40 })))
  ).entries()) {
    const tried = full[i];
    if (tried === undefined) continue;
    const what = `${name} appends to our ${JSON.stringify(tried.dtype)} and trims it`;
    if (answer.kind !== "values") {
      checks.fail(what, answer.kind === "error" ? answer.error : "a group");
      continue;
    }
    const array = await open(tried.path);
    if (array.kind !== "array") continue;
    const twice = Buffer.concat([tried.bytes, tried.bytes]);
    const kept = (twice.length / (2 * 117)) * (2 * 117 - 40);
    checks.equal(what, hash(await array.getBytes()), hash(twice.subarray(0, kept)));
    await array.close();
  }
}

/** A table of ours that bcolz reads, appends to, trims and gives a column, and we again. */
async function shareTable(
  { checks, folder, peer }: SuiteContext,
  name: (typeof BCOLZ)[number],
): Promise<void> {
  const [reader, writer] = [peer(name), peer(`${name}, writing`)];
  if (reader === undefined || writer === undefined) return;
  const path = join(folder, `${name.replaceAll(/\W/g, "")}-table`);
  const store = new FileStore(path);
  const rows = { id: someBytes(4 * 100), price: someBytes(8 * 100), tag: someBytes(5 * 100) };
  const take = (from: number, to: number) => ({
    id: rows.id.subarray(from * 4, to * 4),
    price: rows.price.subarray(from * 8, to * 8),
    tag: rows.tag.subarray(from * 5, to * 5),
  });
  const first = take(0, 40);
  await createTable(
    store,
    "",
    [
      { name: "id", dtype: dtypeOf("<i4"), data: first.id, options: { chunklen: 16 } },
      { name: "price", dtype: dtypeOf("<f8"), data: first.price, options: { chunklen: 7 } },
      { name: "tag", dtype: dtypeOf("|S5"), data: first.tag },
    ],
    { attrs: { source: "é" } },
  );
  await appendToTable(store, "", take(40, 90));
  await trimTable(store, "", 10);
  await addColumn(store, "", { name: "extra", dtype: dtypeOf("<i2"), data: someBytes(160) }, { position: 1 });
  await renameColumn(store, "", "price", "cost");
  const columns = {
    id: ["<i4", take(0, 80).id],
    extra: ["<i2", someBytes(160)],
    cost: ["<f8", take(0, 80).price],
    tag: ["|S5", take(0, 80).tag],
  } as const;
  const [group] = await reader.read([{ path, group: true }]);
  checks.equal(`${name} opens our table`, group, {
    kind: "group",
    members: Object.keys(columns),
    attrs: { source: "é" },
  });
  const jobs = Object.entries(columns).map(([column, [dtype]]) => ({ path, column, dtype }));
  for (const [i, answer] of (await reader.read(jobs)).entries()) {
    const [column, [, bytes]] = Object.entries(columns)[i] ?? ["", ["", new Uint8Array(0)]];
    checks.values(`${name} reads our column ${column}`, answer, { shape: [80], sha256: hash(bytes) });
  }
  const copy = `${path}-copy`;
  await cp(path, copy, { recursive: true });
  const changes = [{ make: "grow" }, { make: "trim", rows: 30 }, { make: "addcol" }] as const;
  for (const answer of await writer.read(changes.map((change) => ({ path: copy, ...change }))))
    if (answer.kind === "error") checks.fail(`${name} changes our table`, answer.error);
  const table = await open(copy);
  if (table.kind !== "table") return;
  checks.equal(
    `we read what ${name} made of our table`,
    [table.length, table.names],
    [130, [...Object.keys(columns), "added"]],
  );
  for (const [column, [, bytes]] of Object.entries(columns)) {
    const twice = Buffer.concat([bytes, bytes]);
    checks.equal(
      `we read column ${column} of it`,
      hash(await table.column(column).getBytes()),
      hash(twice.subarray(0, (twice.length / 160) * 130)),
    );
  }
  await table.close();
}

function settingsOf(options: BloscpackOptions): NonNullable<Job["settings"]> {
  return {
    typesize: options.typesize ?? 8,
    clevel: options.clevel ?? 7,
    shuffle: options.shuffle !== "noshuffle",
    cname: options.cname ?? "blosclz",
    chunk_size: options.chunkSize === "max" ? 2 ** 31 - 17 : (options.chunkSize ?? 1 << 20),
    offsets: options.offsets ?? true,
    checksum: options.checksum ?? "adler32",
    max_app_chunks: options.maxAppChunks ?? "10x",
  };
}

function dtypeOf(spelled: FixtureDType): DType {
  return parseDType(spelled as unknown as JsonValue, "interop");
}

/** The values in C order, as the readers give them. */
function inCOrder(data: Uint8Array, { dtype, shape, order }: NonNullable<FileCase["array"]>): Uint8Array {
  if (order === "C" || shape.length < 2) return data;
  const size = dtypeOf(dtype).itemSize;
  const out = new Uint8Array(data.length);
  const count = shape.reduce((product, n) => product * n, 1);
  for (let i = 0; i < count; i++) {
    let rest = i;
    let at = 0;
    const index = shape.map(() => 0);
    for (let k = shape.length - 1; k >= 0; k--) {
      index[k] = rest % (shape[k] ?? 1);
      rest = Math.floor(rest / (shape[k] ?? 1));
    }
    for (let k = shape.length - 1; k >= 0; k--) at = at * (shape[k] ?? 1) + (index[k] ?? 0);
    out.set(data.subarray(at * size, (at + 1) * size), i * size);
  }
  return out;
}

/** Bytes without zeros, which strings would lose at their ends; small, so that none of them is a NaN. */
function someBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => 1 + ((i * 7 + (i >> 6) * 3) % 60));
}

function someText(characters: number): Uint8Array {
  const points = Uint32Array.from({ length: characters }, (_, i) => 97 + (i % 26));
  return new Uint8Array(points.buffer);
}

const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
