/** The examples of the README run as they stand there, on real archives. */
import { cpSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commandsIn, makeFolder, readExamples, runCommand, runModule } from "./examples.ts";
import { findFixture } from "./fixtures/manifest.ts";

const TABLE = findFixture("ctable/bcolz-daily-equities").file;
const examples = readExamples("README.md", "js");
const commands = readExamples("README.md", "sh").flatMap(commandsIn);

test("there are examples", () => {
  expect(examples.length).toBeGreaterThan(3);
  expect(commands.length).toBeGreaterThan(3);
});

test.each(examples.map((code, i) => ({ name: code.split("\n")[0] ?? String(i), code })))(
  "$name …",
  async ({ code }) => {
    const folder = makeFolder();
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const prepared = code
      .replaceAll('"daily_equities.bcolz"', JSON.stringify(TABLE))
      .replaceAll('"eurofx"', JSON.stringify(join(folder, "eurofx")));
    // What an example calls its own data.
    const before = prepared.includes("encode(bytes") ? "const bytes = new Uint8Array(8000);\n" : "";
    const shown = code.includes("// Uint32Array(5), [5]") ? "export { data, shape };\n" : "";
    const { done, data, shape } = await runModule(`${before}${prepared}\n${shown}export const done = true;`);
    expect(done).toBe(true);
    if (shown === "") return;
    expect(data).toEqual(Uint32Array.of(51654, 50967, 52198, 51992, 52827));
    expect(shape).toEqual([5]);
  },
);

test("the commands do, one after the other", async () => {
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(TABLE, join(folder, "daily_equities.bcolz"), { recursive: true });
  cpSync(TABLE, join(folder, "archives", "one.bcolz"), { recursive: true });
  cpSync(findFixture("carray/blz-f8").file, join(folder, "archives", "two"), { recursive: true });
  for (const command of commands) {
    const { code, err } = await runCommand(command, folder);
    expect([command, code, err]).toEqual([command, 0, expect.not.stringContaining("error")]);
  }
  for (const made of ["daily.zarr/close/zarr.json", "all.zarr/one.bcolz/zarr.json", "report.json"])
    expect([made, existsSync(join(folder, made))]).toEqual([made, true]);
});
