/**
 * What we write in the formats of bloscpack and bcolz is what they write, and they can continue with it.
 *
 * Files are compared byte for byte where the chunks are equal; this is certain for level 0, which only stores.
 */

import { copyFile, cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { decodeFileHeader } from "../../src/format/header.ts";
import { decodeSectionHeader } from "../../src/format/metadata.ts";
import type { JsonInput } from "../../src/format/types.ts";
import { FileStore, open } from "../../src/node/index.ts";
import { createCarray, createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { chooseChunklen } from "../../src/write/bcolz/carray-settings.ts";
import { addColumn, renameColumn } from "../../src/write/bcolz/table-columns.ts";
import {
  appendToBloscpack,
  type BloscpackAppendOptions,
} from "../../src/write/bloscpack/bloscpack-append.ts";
import { compressArray, compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import type { FixtureDType } from "../fixtures/manifest.ts";
import { appendRows, resizeRows, trimRows } from "../write/foreign-support.ts";
import type { Job } from "./answers.ts";
import type { Checks } from "./checks.ts";
import { inCOrder, listFiles } from "./foreign-cases.ts";
import { shareChanges } from "./foreign-changes.ts";
import { dtypeOf, hash, hex, settingsOf, someBytes, someText } from "./foreign-data.ts";
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
    await compareNewMetadata(context);
    for (const name of BCOLZ) {
      await shareArrays(context, name);
      await shareTable(context, name);
      await shareChanges(context, name);
    }
  },
};

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

/** Header, metadata section and the length of the table must be equal; everything where the chunks are. */
async function compareTwo(
  checks: Checks,
  name: string,
  ours: string,
  theirs: string,
  mustEqual: boolean,
): Promise<void> {
  const [a, b] = [await readFile(ours), await readFile(theirs)];
  const header = decodeFileHeader(b, theirs);
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

/** What happens to metadata in an append, and the arguments with which bloscpack does it. */
const NEW_METADATA: readonly {
  readonly before: JsonInput;
  readonly after: JsonInput;
  readonly options: NonNullable<BloscpackAppendOptions["metadataOptions"]>;
}[] = [
  { before: { a: 1 }, after: { a: 2, b: ["é", 1.5, null] }, options: {} },
  { before: { long: "abc".repeat(300) }, after: {}, options: {} },
  { before: { a: 1 }, after: { text: "xyz".repeat(200) }, options: { codec: "zlib", level: 9 } },
  { before: [1, 2], after: { text: "not compressed" }, options: { codec: "none" } },
];

/** The same append with other metadata by both. */
async function compareNewMetadata({ checks, folder, peer }: SuiteContext): Promise<void> {
  const store = new FileStore(folder);
  const options = { clevel: 0, typesize: 8, cname: "blosclz", shuffle: "shuffle" } as const;
  const jobs: Job[] = [];
  const more = join(folder, "metadata.more");
  await writeFile(more, someBytes(700));
  for (const [i, { before, after, options: metadataOptions }] of NEW_METADATA.entries()) {
    const [ours, theirs] = [`metadata-${i}.ours.blp`, `metadata-${i}.theirs.blp`];
    await compressBytes(someBytes(2500), store, ours, { ...options, chunkSize: 1000, metadata: before });
    await copyFile(join(folder, ours), join(folder, theirs));
    const { codec = "zlib", level = 6 } = metadataOptions;
    jobs.push({
      path: join(folder, theirs),
      make: "append",
      from: more,
      metadata: JSON.stringify(after),
      newMetadata: { codec: codec === "none" ? "None" : codec, level },
      settings: settingsOf(options),
    });
    await appendToBloscpack(store, ours, someBytes(700), { ...options, metadata: after, metadataOptions });
  }
  for (const [i, answer] of ((await peer("bloscpack, writing")?.read(jobs)) ?? []).entries()) {
    const name = `append with other metadata ${JSON.stringify(NEW_METADATA[i]?.options)} (${i})`;
    if (answer.kind === "error") checks.fail(name, answer.error);
    else
      await compareTwo(
        checks,
        name,
        join(folder, `metadata-${i}.ours.blp`),
        join(folder, `metadata-${i}.theirs.blp`),
        true,
      );
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

/** Arrays of ours that bcolz reads, appends to and trims, and then we do. */
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
        { chunkLength: 32, attrs: { i } },
      );
      await appendRows(store, key, part(75, 150));
      await trimRows(store, key, 50);
      await appendRows(store, key, part(100, 117));
      const shape = [117, ...rowShape];
      made.push({ path: join(folder, key), dtype, bytes: part(0, 117), shape });
    }
  }
  const empty = join(folder, `${name.replaceAll(/\W/g, "")}-empty`);
  await createCarray(new FileStore(empty), "", { dtype: dtypeOf("<i8"), data: someBytes(80) });
  await resizeRows(new FileStore(empty), "", 0);
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

/** A table of ours that bcolz reads, appends to, trims and adds a column to, and then we do. */
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
      { name: "id", dtype: dtypeOf("<i4"), data: first.id, options: { chunkLength: 16 } },
      { name: "price", dtype: dtypeOf("<f8"), data: first.price, options: { chunkLength: 7 } },
      { name: "tag", dtype: dtypeOf("|S5"), data: first.tag },
    ],
    { attrs: { source: "é" } },
  );
  await appendRows(store, "", take(40, 90));
  await trimRows(store, "", 10);
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
