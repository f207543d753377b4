/** The README, block by block and command by command, as it stands there, on real archives. */
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commandsIn, makeFolder, readExamples, runCommand, runModule } from "./examples.ts";
import { findFixture, repositoryRoot } from "./fixtures/manifest.ts";
import { serveObjects } from "./store/server.ts";

const TABLE = findFixture("ctable/bcolz-daily-equities").file;
const text = readFileSync(join(repositoryRoot, "README.md"), "utf8");
const scripts = readExamples("README.md", "sh");
const examples = readExamples("README.md", "js");
const commands = scripts.flatMap(commandsIn);

/** A folder with the archives that the README names. */
function makeArchives(): string {
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(TABLE, join(folder, "daily_equities.bcolz"), { recursive: true });
  cpSync(TABLE, join(folder, "archives", "one.bcolz"), { recursive: true });
  cpSync(findFixture("carray/blz-f8").file, join(folder, "archives", "two"), { recursive: true });
  return folder;
}

test("every block is run: commands here, the scripts of npm by their own tests, and JavaScript here", () => {
  const fences = text.match(/^```\w+$/gm) ?? [];
  expect(fences.length).toBe(scripts.length + examples.length);
  expect(examples.length).toBeGreaterThan(3);
  const others = scripts.flatMap((script) =>
    script.split("\n").filter((line) => line !== "" && !line.startsWith("npx superchunk ")),
  );
  // test/cli/demo.test.ts runs the demo.
  expect(others.map((line) => line.replace(/ +#.*/, ""))).toEqual([
    "npm ci && npm run demo",
    "npm ci && npm test",
  ]);
  expect(commands.length).toBe(5);
});

test.each(examples.map((code, i) => ({ name: code.split("\n")[0] ?? String(i), code })))(
  "$name …",
  async ({ code }) => {
    const folder = makeFolder();
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const prepared = code
      .replaceAll('"daily_equities.bcolz"', JSON.stringify(TABLE))
      .replaceAll('"eurofx"', JSON.stringify(join(folder, "eurofx")));
    const shown = code.includes("// Uint32Array(5), [5]") ? "export { data, shape };\n" : "";
    const { done, data, shape } = await runModule(`${prepared}\n${shown}export const done = true;`);
    expect(done).toBe(true);
    if (shown === "") return;
    expect(data).toEqual(Uint32Array.of(51654, 50967, 52198, 51992, 52827));
    expect(shape).toEqual([5]);
  },
);

test("what a browser would run opens an archive over HTTP", async () => {
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

test("the commands do, one after the other", async () => {
  const folder = makeArchives();
  for (const command of commands) {
    const { code, err } = await runCommand(command, folder);
    expect([command, code, err]).toEqual([command, 0, expect.not.stringContaining("error")]);
  }
  for (const made of ["daily.zarr/close/zarr.json", "all.zarr/one.bcolz/zarr.json", "report.json"])
    expect([made, existsSync(join(folder, made))]).toEqual([made, true]);
});

test("so do those in its text and tables, with archives for what they call SRC, ROOT and PATH", async () => {
  const folder = makeArchives();
  const inline = Array.from(text.matchAll(/`superchunk ([a-z]+ [^`]+)`/g), ([, words = ""]) => words);
  expect(inline.map((words) => words.split(" ")[0])).toEqual([
    "convert",
    "link",
    "create",
    "link",
    "serve",
    "virtualize",
    "convert",
  ]);
  expect((await runCommand("convert daily_equities.bcolz prices.zarr", folder)).code).toBe(0);
  for (const words of inline) {
    // `serve` ends by Ctrl-C alone; test/cli/help-examples.test.ts runs it.
    if (words.startsWith("serve ")) continue;
    const [, choice = ""] = / --to (\S+)/.exec(words) ?? [];
    for (const format of choice.split(/\\?\|/)) {
      // Icechunk is a package that not every system can load; test/references has it.
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
