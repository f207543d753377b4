/** Forged records of links: nothing is cut off, and no permission given, because a record says so. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crc32c } from "../../../src/bytes/checksum.ts";
import { isIndexOfFile } from "../../../src/dual/shard-file.ts";
import { link, unlink } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { copyOf, temporaryFolder } from "./support.ts";

const RECORD = "superchunk-link.json";

/** A folder whose record claims that linking added the last `tail` bytes of a file elsewhere. */
async function makeUp(
  victim: string,
  tail: number,
  kind: "hard" | "symbolic",
  mode = "666",
): Promise<string> {
  const root = join(temporaryFolder(), "made-up");
  fs.mkdirSync(join(root, "c"), { recursive: true });
  const bytes = fs.readFileSync(victim);
  const size = bytes.length - tail;
  const sum = (await crc32c(bytes.subarray(size))).toString(16).padStart(8, "0");
  const file = { path: "victim", link: "c/0", size, mode, tail, crc32c: sum };
  const record = {
    ...{ superchunk_link: 1, kind, data: join(victim, ".."), archive: "victim", files: [file] },
    ...{ documents: ["zarr.json"], options: {}, folders: ["", "c"] },
  };
  fs.writeFileSync(join(root, RECORD), JSON.stringify(record));
  if (kind === "symbolic") fs.symlinkSync(victim, join(root, "c", "0"));
  return root;
}

function victimOf(bytes: Uint8Array): string {
  const victim = join(temporaryFolder(), "victim");
  fs.writeFileSync(victim, bytes, { mode: 0o640 });
  return victim;
}

/** A Bloscpack file that is linked, and how many bytes that added. */
async function linkedBytes(): Promise<{ bytes: Uint8Array; added: number }> {
  const file = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
  const { added } = await link(file, `${file}.zarr`);
  const bytes = fs.readFileSync(file);
  await unlink(`${file}.zarr`);
  return { bytes, added };
}

const look = (path: string): unknown[] => [fs.readFileSync(path), fs.statSync(path).mode & 0o7777];

test.each(["hard", "symbolic"] as const)(
  "[FL-05] a file elsewhere that is not an archive is left unchanged: %s",
  async (kind) => {
    for (const tail of [0, 1, 20, 500]) {
      const victim = victimOf(Uint8Array.from({ length: 1000 }, (_, i) => i % 251));
      const before = look(victim);
      const { removed } = await unlink(await makeUp(victim, tail, kind));
      expect([removed, ...look(victim)]).toEqual([0, ...before]);
    }
  },
);

test.each(["hard", "symbolic"] as const)(
  "[FL-05] a linked file elsewhere loses its index and not a byte more, whatever the record says: %s",
  async (kind) => {
    const { bytes, added } = await linkedBytes();
    for (const more of [-16, -1, 0, 1, 16, bytes.length - added]) {
      const victim = victimOf(bytes);
      const { removed } = await unlink(await makeUp(victim, added + more, kind));
      expect(removed, `${more} more`).toBe(more === 0 ? added : 0);
      if (more !== 0) expect(look(victim)).toEqual([Buffer.from(bytes), 0o640]);
    }
  },
);

test("[FL-05] the index of a file is recognized at one place only, also after a padded copy", async () => {
  const copy = copyOf(join(corpusFolder, "blz-superchunk", "i8-2d-crc32"));
  const { files } = await link(copy);
  expect(files.map(({ padded }) => padded)).toContain(true);
  for (const { file, added } of files) {
    const bytes = fs.readFileSync(file);
    const store = new MemoryStore([["victim", bytes]]);
    const proven: number[] = [];
    for (let size = 0; size < bytes.length; size++)
      if (await isIndexOfFile(store, "victim", { size, bytes: bytes.subarray(size) })) proven.push(size);
    expect(proven).toEqual([bytes.length - added]);
    const others = new MemoryStore([["victim", new Uint8Array(bytes.length)]]);
    const tail = { size: bytes.length - added, bytes: bytes.subarray(-added) };
    expect(await isIndexOfFile(others, "victim", tail)).toBe(false);
  }
});

test("[FL-05] in the record's own folder, a record that claims chunks of a file gets only the index cut off", async () => {
  const copy = copyOf(join(corpusFolder, "blz-superchunk", "f8-default"));
  const file = join(copy, "data", "__1__.bin");
  const original = fs.readFileSync(file);
  await link(copy);
  const linked = fs.readFileSync(file);
  const path = join(copy, RECORD);
  const record = JSON.parse(fs.readFileSync(path, "utf8")) as { files: Record<string, unknown>[] };
  const size = original.length - 40;
  const sum = (await crc32c(linked.subarray(size))).toString(16).padStart(8, "0");
  Object.assign(record.files[0] ?? {}, { size, tail: linked.length - size, crc32c: sum, mode: "4755" });
  fs.writeFileSync(path, JSON.stringify(record));
  await unlink(copy);
  // The permission to write comes back as recorded; no other does.
  expect(look(file)).toEqual([original, 0o644]);
});
