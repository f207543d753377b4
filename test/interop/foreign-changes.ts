/** Carrays and tables made by bcolz that we change in every way, as bcolz sees them afterwards. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FileStore } from "../../src/node/index.ts";
import { createCarray, createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { addColumn, deleteColumn, renameColumn } from "../../src/write/bcolz/table-columns.ts";
import { appendRows, changeAttributes, resizeRows } from "../write/foreign-support.ts";
import { dtypeOf, hash, someBytes } from "./foreign-data.ts";
import type { PeerName } from "./peers.ts";
import type { SuiteContext } from "./suite.ts";

const ROWS = 75;
const rows = someBytes(8 * ROWS);

/** What bcolz reads after rows were cut off and default values appended, and attributes set, changed and removed. */
export async function shareChanges(
  context: SuiteContext,
  name: Extract<PeerName, "bcolz-zipline" | "bcolz 1.2.1">,
): Promise<void> {
  await changeOurArray(context, name);
  await changeTheirArray(context, name);
  await changeTable(context, name);
}

async function changeOurArray({ checks, folder, peer }: SuiteContext, name: PeerName): Promise<void> {
  const path = join(folder, `${name.replaceAll(/\W/g, "")}-changed`);
  const store = new FileStore(path);
  await createCarray(
    store,
    "",
    { dtype: dtypeOf("<f8"), data: rows },
    { chunkLength: 32, fillValue: 2.5, attrs: { a: 1, b: "é", c: [1.5] } },
  );
  await resizeRows(store, "", 40);
  await resizeRows(store, "", 110);
  await appendRows(store, "", rows.subarray(0, 80));
  await changeAttributes(store, "", { set: { b: { deep: [null, true] }, d: 1e300 }, remove: ["a"] });
  await store.close();
  const expected = Buffer.concat([
    rows.subarray(0, 40 * 8),
    new Uint8Array(new Float64Array(70).fill(2.5).buffer),
    rows.subarray(0, 80),
  ]);
  const [answer] = (await peer(name)?.read([{ path, dtype: "<f8" }])) ?? [];
  if (answer === undefined) return;
  checks.values(`${name} reads an array cut and grown again`, answer, {
    shape: [120],
    sha256: hash(expected),
  });
  if (answer.kind === "values")
    checks.equal(`${name} reads changed attributes`, answer.attrs, {
      b: { deep: [null, true] },
      c: [1.5],
      d: 1e300,
    });
}

async function changeTheirArray({ checks, folder, peer }: SuiteContext, name: PeerName): Promise<void> {
  const writer = peer(`${name}, writing` as PeerName);
  if (writer === undefined) return;
  const path = join(folder, `${name.replaceAll(/\W/g, "")}-theirs`);
  const from = `${path}.raw`;
  await writeFile(from, rows);
  const [made] = await writer.read([{ path, make: "carray", from, dtype: "<f8", chunklen: 32 }]);
  if (made?.kind === "error") return checks.fail(`${name} makes an array`, made.error);
  const store = new FileStore(path);
  await resizeRows(store, "", 33);
  await appendRows(store, "", rows);
  await resizeRows(store, "", 109);
  await changeAttributes(store, "", { set: { unit: "m" } });
  await store.close();
  const expected = Buffer.concat([rows.subarray(0, 33 * 8), rows, new Uint8Array(8)]);
  const [answer] = (await peer(name)?.read([{ path, dtype: "<f8" }])) ?? [];
  if (answer === undefined) return;
  checks.values(`${name} reads its own array that we changed`, answer, {
    shape: [109],
    sha256: hash(expected),
  });
  if (answer.kind === "values")
    checks.equal(`${name} reads attributes that we gave it`, answer.attrs, { unit: "m" });
}

async function changeTable({ checks, folder, peer }: SuiteContext, name: PeerName): Promise<void> {
  const path = join(folder, `${name.replaceAll(/\W/g, "")}-changed-table`);
  const store = new FileStore(path);
  await createTable(
    store,
    "",
    [
      { name: "id", dtype: dtypeOf("<f8"), data: rows, options: { chunkLength: 16 } },
      { name: "gone", dtype: dtypeOf("<f8"), data: rows },
      { name: "price", dtype: dtypeOf("<f8"), data: rows, options: { fillValue: -1 } },
    ],
    { attrs: { a: 1, b: 2 } },
  );
  await resizeRows(store, "", 50);
  await resizeRows(store, "", 60);
  await deleteColumn(store, "", "gone");
  await addColumn(
    store,
    "",
    { name: "first", dtype: dtypeOf("<f8"), data: rows.subarray(0, 480) },
    { position: 0 },
  );
  await renameColumn(store, "", "id", "number");
  await changeAttributes(store, "", { set: { b: "two" }, remove: ["a"] });
  await store.close();
  const grown = (dflt: number): Uint8Array =>
    Buffer.concat([rows.subarray(0, 400), new Uint8Array(new Float64Array(10).fill(dflt).buffer)]);
  const columns = { first: rows.subarray(0, 480), number: grown(0), price: grown(-1) };
  const reader = peer(name);
  if (reader === undefined) return;
  const jobs = Object.keys(columns).map((column) => ({ path, column, dtype: "<f8" }) as const);
  const [group, ...answers] = await reader.read([{ path, group: true }, ...jobs]);
  checks.equal(`${name} opens a table whose columns were changed`, group, {
    kind: "group",
    members: Object.keys(columns),
    attrs: { b: "two" },
  });
  for (const [i, [column, bytes]] of Object.entries(columns).entries()) {
    const answer = answers[i];
    if (answer !== undefined)
      checks.values(`${name} reads column ${column} of it`, answer, { shape: [60], sha256: hash(bytes) });
  }
}
