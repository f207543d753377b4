/**
 * Fills a small disk with every kind of archive that grows, makes it read-only, and removes the archive's folder;
 * prints the outcome as JSON. Runs where it may mount: in its own namespace.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";

const [, , disk, entry] = process.argv;
const { core, node } = await import(entry);

const numbers = (first, count) =>
  Int32Array.from({ length: count }, (_, i) => ((first + i) * 2654435761) | 0);
const bytes = (first, count) => new Uint8Array(numbers(first, count).buffer);
const made = async (options) =>
  (await node.create(join(disk, "a"), { format: "bcolz", chunkLength: 1024, ...options })).close();

async function withRoot(path, work) {
  const array = await node.edit(path, { threads: 0 });
  try {
    await work(array);
    await array.close();
  } catch (error) {
    await array.abandon();
    throw error;
  }
}

const at = (name) => join(disk, name);
const store = new node.FileStore(disk);

async function appended(source, options) {
  const file = await core.edit(store, "a.blp", { format: "bloscpack" });
  await file.appendBytes(source, options);
  await file.close();
}
const KINDS = {
  superchunks: {
    make: async () =>
      (
        await node.create(at("a"), { dtype: "<i4", chunkLength: 1024, superchunkLength: 4, threads: 0 })
      ).close(),
    append: (first, count) => withRoot(at("a"), (array) => array.append(numbers(first, count))),
    open: () => node.open(at("a")),
  },
  carray: {
    make: () => made({ dtype: "<i4" }),
    append: (first, count) => withRoot(at("a"), (array) => array.append(bytes(first, count))),
    open: () => node.open(at("a")),
  },
  ctable: {
    make: () =>
      made({
        dtype: [
          ["x", "<i4"],
          ["y", "<i4"],
        ],
      }),
    append: (first, count) =>
      withRoot(at("a"), (array) => array.append({ x: bytes(first, count), y: bytes(first, count) })),
    open: async () => (await node.open(at("a"))).column("y"),
  },
  bloscpack: {
    make: () => core.compressBytes(bytes(0, 2000), store, "a.blp", { chunkSize: 4096, maxAppChunks: 500 }),
    append: (first, count) => appended(bytes(first, count), {}),
    open: () => node.open(at("a.blp")),
  },
  "in place": {
    make: () => core.compressBytes(bytes(0, 2000), store, "a.blp", { chunkSize: 4096, maxAppChunks: 500 }),
    append: (first, count) => appended(bytes(first, count), { inPlace: true }),
    open: () => node.open(at("a.blp")),
  },
};

/** Number of rows, after checking that they are right and that nothing is wrong with the archive. */
async function look(open) {
  const archive = await open();
  const found = await archive.readBytes(0, archive.nbytes);
  const report = await archive.verify();
  await archive.close();
  const rows = found.length / 4;
  const isRight = Buffer.from(found).equals(Buffer.from(bytes(0, rows)));
  return { rows, isRight, errors: report.findings.filter(({ severity }) => severity === "error") };
}

async function codeOf(work) {
  try {
    await work();
    return "nothing";
  } catch (error) {
    return error.code ?? String(error);
  }
}

const results = {};
for (const [kind, { make, append, open }] of Object.entries(KINDS)) {
  fs.writeFileSync(at("ballast"), new Uint8Array(150_000));
  await make();
  let { rows } = await look(open);
  let full = "nothing";
  for (let i = 0; i < 1000 && full === "nothing"; i++) {
    full = await codeOf(() => append(rows, 1500));
    if (full === "nothing") rows += 1500;
  }
  const afterFull = { expected: rows, ...(await look(open)) };
  fs.rmSync(at("ballast"));
  await append(rows, 1500);
  rows += 1500;
  const afterFree = { expected: rows, ...(await look(open)) };

  await store.close(); // an open file prevents its disk from becoming read-only
  execFileSync("mount", ["-o", "remount,ro", disk]);
  const readOnly = await codeOf(() => append(rows, 10));
  const whileReadOnly = { expected: rows, ...(await look(open)) };
  execFileSync("mount", ["-o", "remount,rw", disk]);
  await append(rows, 10);
  rows += 10;
  const afterReadOnly = { expected: rows, ...(await look(open)) };

  const name = fs.existsSync(at("a")) ? "a" : "a.blp";
  fs.renameSync(at(name), at("elsewhere"));
  const vanished = await codeOf(() => append(rows, 10));
  const made = fs.readdirSync(disk).filter((each) => each !== "elsewhere");
  fs.renameSync(at("elsewhere"), at(name));
  await append(rows, 10);
  rows += 10;
  const afterVanished = { expected: rows, ...(await look(open)) };
  results[kind] = {
    full,
    afterFull,
    afterFree,
    readOnly,
    whileReadOnly,
    afterReadOnly,
    vanished,
    made,
    afterVanished,
  };
  for (const left of fs.readdirSync(disk)) fs.rmSync(at(left), { recursive: true });
}
process.stdout.write(JSON.stringify(results));
