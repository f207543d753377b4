/** Arrow files, cut at any length or with any byte changed, end in an error of superchunk, never in another one. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { openTableFile } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { sample } from "../scope.ts";

const FIXTURES = join(import.meta.dirname, "..", "..", "fixtures", "tables");
const FILES = ["lz4.feather", "zstd.feather", "uncompressed.feather", "stream.arrows"];

async function readAll(path: string): Promise<void> {
  const table = await openTableFile(path);
  for await (const _ of table.rows());
}

/** The code of the error, or "read". Throws all other errors. */
async function outcomeOf(path: string): Promise<string> {
  try {
    await readAll(path);
    return "read";
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return error.code;
  }
}

test.each(FILES)("%s", async (file) => {
  const whole = readFileSync(join(FIXTURES, file));
  const path = join(temporaryFolder(), file);
  // The metadata are at the beginning; of what follows, every ninth byte.
  const positions = [...whole.keys()].filter((at) => at < 2000 || at % 9 === 0);
  const codes = new Set<string>();
  for (const at of sample(positions, 10)) {
    writeFileSync(path, whole.subarray(0, at));
    codes.add(await outcomeOf(path).catch((error: unknown) => `cut at ${at}: ${error}`));
  }
  for (const at of sample(positions, 30)) {
    const changed = Uint8Array.from(whole);
    changed[at] = (changed[at] ?? 0) ^ 0xff;
    writeFileSync(path, changed);
    codes.add(await outcomeOf(path).catch((error: unknown) => `changed at ${at}: ${error}`));
  }
  expect([...codes].filter((code) => code.includes(" "))).toEqual([]);
  expect(codes.size).toBeGreaterThan(1);
});

test("a stream that ends inside the length of a message is not read as a whole one", async () => {
  const whole = readFileSync(join(FIXTURES, "stream.arrows"));
  const path = join(temporaryFolder(), "cut.arrows");
  const codes: string[] = [];
  // The last eight bytes are the mark of its end, which writers may leave out.
  for (const cut of [0, 1, 4, 7, 8]) {
    writeFileSync(path, whole.subarray(0, whole.length - cut));
    codes.push(await outcomeOf(path));
  }
  expect(codes).toEqual(["read", "TRUNCATED", "TRUNCATED", "TRUNCATED", "read"]);
});
