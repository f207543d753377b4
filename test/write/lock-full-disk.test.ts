/** A lock that cannot be written leaves nothing behind, least of all a lock without a holder. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { acquireLock } from "../../src/node/fs/lock.ts";
import { temporaryFolder } from "../folder.ts";

/** What the file system lacks now. */
const lacks = vi.hoisted(() => ({ room: false, links: false, handles: false, temporary: false }));

vi.mock("node:fs", async (load) => {
  const real = await load<typeof fs>();
  const failure = (code: string): Error => Object.assign(new Error(code), { code, syscall: "write" });
  return {
    ...real,
    openSync: (path: string, flags: string) => {
      if (lacks.handles) throw failure("EMFILE");
      return real.openSync(path, flags);
    },
    writeFileSync: (path: string | number, text: string, options: fs.WriteFileOptions) => {
      const isShort = lacks.room && !(lacks.links && String(path).endsWith(".tmp"));
      real.writeFileSync(path, isShort ? "" : text, options);
      if (isShort) throw failure("ENOSPC");
    },
    linkSync: (from: string, to: string) => {
      if (lacks.links) throw failure("EPERM");
      if (lacks.temporary) real.rmSync(from);
      lacks.temporary = false;
      real.linkSync(from, to);
    },
  };
});

test.each([
  ["with hard links", false],
  ["without hard links", true],
])("on a full file system %s", async (_, links) => {
  const folder = temporaryFolder();
  const path = join(folder, "meta", "lock");
  Object.assign(lacks, { room: true, links });
  await expect(acquireLock(path)).rejects.toMatchObject({ code: "NO_SPACE", details: { path } });
  expect(fs.readdirSync(folder)).toEqual([]);
  lacks.room = false;
  await (await acquireLock(path)).release();
});

test("if no file can be opened, another writer's lock stays", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "lock");
  Object.assign(lacks, { links: true });
  const lock = await acquireLock(path);
  const text = fs.readFileSync(path, "utf8");
  lacks.handles = true;
  await expect(acquireLock(path)).rejects.toMatchObject({ details: { found: "EMFILE" } });
  lacks.handles = false;
  expect(fs.readFileSync(path, "utf8")).toBe(text);
  await lock.release();
});

test("a lock is taken although another process removes its temporary, as what an interrupted write left", async () => {
  const folder = temporaryFolder();
  Object.assign(lacks, { room: false, links: false, handles: false, temporary: true });
  const lock = await acquireLock(join(folder, "lock"));
  expect(lacks.temporary).toBe(false);
  expect(fs.readdirSync(folder)).toEqual(["lock"]);
  await lock.release();
});
