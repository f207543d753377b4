/** The README, block by block and command by command, as written, on real archives. */
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commandsIn, makeFolder, readExamples, runCommand, runModule } from "./examples.ts";
import { findFixture, repositoryRoot } from "./fixtures/manifest.ts";
import { serveObjects } from "./store/server.ts";

const TABLE = findFixture("ctable/bcolz-daily-equities").file;
const text = readFileSync(join(repositoryRoot, "README.md"), "utf8");
const commands = readExamples("README.md", "sh").flatMap(commandsIn);
const examples = readExamples("README.md", "ts");

/** A folder with the archives that the README names. */
function makeArchives(): string {
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(TABLE, join(folder, "daily_equities.bcolz"), { recursive: true });
  return folder;
}

test("every block is run: commands here, TypeScript by test/docs.test.ts, and its output is compared", async () => {
  const fences = text.match(/^```\w+$/gm) ?? [];
  expect(fences.length).toBe(1 + examples.length);
  expect([commands.length, examples.length]).toEqual([3, 3]);
  const [first = ""] = examples;
  expect(first).toContain("// Uint32Array(5), [5]");
  const code = first.replaceAll('"daily_equities.bcolz"', JSON.stringify(TABLE));
  const { data, shape } = await runModule(`${code}\nexport { data, shape };`);
  expect(data).toEqual(Uint32Array.of(51654, 50967, 52198, 51992, 52827));
  expect(shape).toEqual([5]);
});

test("the browser example opens an archive over HTTP", async () => {
  const [, line = ""] = /In a browser, `(import [^`]+)`/.exec(text) ?? [];
  const [, call = ""] = /and `(await open\(new HttpStore\([^`]+)`/.exec(text) ?? [];
  const { file } = findFixture("bloscpack-3/array-f8.blp");
  const server = await serveObjects([["prices.blp", new Uint8Array(readFileSync(file))]]);
  try {
    const here = call.replace("https://…/", `${server.url}/`);
    const { shape } = await runModule(`${line};\nexport const { shape } = ${here};`);
    expect(shape).toEqual([3000]);
  } finally {
    await server.close();
  }
});

test("the commands run in order", async () => {
  const folder = makeArchives();
  for (const command of commands) {
    const { code, err } = await runCommand(command, folder);
    expect([command, code, err]).toEqual([command, 0, expect.not.stringContaining("error")]);
  }
  expect(existsSync(join(folder, "daily.zarr/close/zarr.json"))).toBe(true);
});

test("the commands in its text and tables run too, with archives for SRC, ROOT and PATH", async () => {
  const folder = makeArchives();
  const inline = Array.from(text.matchAll(/`superchunk ([a-z]+ [^`]+)`/g), ([, words = ""]) => words);
  expect(inline.map((words) => words.split(" ")[0])).toEqual([
    "convert",
    "link",
    "create",
    "serve",
    "virtualize",
    "convert",
  ]);
  expect((await runCommand("convert daily_equities.bcolz prices.zarr", folder)).code).toBe(0);
  for (const words of inline) {
    // `serve` ends only on Ctrl-C; test/cli/help-examples.test.ts runs it.
    if (words.startsWith("serve ")) continue;
    const [, choice = ""] = / --to (\S+)/.exec(words) ?? [];
    for (const format of choice.split(/\\?\|/)) {
      // Icechunk is a package that not every system can load; test/references covers it.
      if (format === "icechunk") continue;
      if (words.startsWith("link "))
        cpSync(findFixture("blz-superchunk/f8-default").file, join(folder, "ROOT"), { recursive: true });
      const line = words.replace(choice, format).replace("SRC", "daily_equities.bcolz").replaceAll('"', "");
      const { code, err } = await runCommand(line, folder);
      expect([line, code, code === 0 ? "" : err]).toEqual([line, 0, ""]);
      for (const made of ["DST", "ROOT", "prices"])
        rmSync(join(folder, made), { recursive: true, force: true });
    }
  }
});
