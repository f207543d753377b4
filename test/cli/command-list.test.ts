/** Which commands are loaded for which first argument. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { COMMAND_NAMES, loadCommands } from "../../cli/command-list.ts";
import { Command, Context } from "../../cli/context.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

const { stdin, stdout, stderr } = process;
const context = new Context({ stdin, stdout, stderr, signal: new AbortController().signal });

async function namesFor(first: string | undefined): Promise<readonly string[]> {
  const program = new Command();
  for (const add of await loadCommands(first)) add(program, context);
  return program.commands.map((command) => command.name());
}

test("a first argument that names a command loads only that command", async () => {
  const all = await namesFor(undefined);
  expect(all.length).toBeGreaterThan(20);
  expect([...all].sort()).toEqual([...COMMAND_NAMES].sort());
  for (const name of all) expect(await namesFor(name)).toEqual(name === "completion" ? all : [name]);
});

test("an unknown command loads them all, so that the help and the nearest name are found; --version loads none", async () => {
  const all = await namesFor(undefined);
  for (const first of ["help", "--help", "--debug", "lnk", ""]) expect(await namesFor(first)).toEqual(all);
  for (const first of ["--version", "-V"]) expect(await namesFor(first)).toEqual([]);
});

test("a command that serves nothing does not load a server, which takes longer than the rest of the library", () => {
  const entry = new URL("../../build/src/node/index.js", import.meta.url).href;
  const script = `await import(${JSON.stringify(entry)}); console.log(process.moduleLoadList.join())`;
  const loaded = execFileSync(process.execPath, ["--input-type=module", "--eval", script], {
    encoding: "utf8",
  }).split(",");
  expect(loaded).toContain("NativeModule worker_threads");
  expect(loaded).not.toContain("NativeModule http");
});

test("the help lists every command under the heading of its group", async () => {
  const { code, out } = await runCli(["--help"]);
  expect(code).toBe(0);
  const headings = out.match(/^\S.*(?=:\n {2}\w)/gm);
  expect(headings?.at(0)).toBe("Look at archives");
  expect(headings).not.toContain("Commands");
  for (const name of [...COMMAND_NAMES, "help"]) expect(out).toMatch(new RegExp(`^  ${name}(,| {2})`, "m"));
});

describe.each(["bash", "zsh", "fish"])("completion %s", (shell) => {
  test("names every command and every option", async () => {
    const { code, out } = await runCli(["completion", shell]);
    expect(code).toBe(0);
    for (const name of COMMAND_NAMES) expect(out).toContain(name);
    for (const option of ["superchunklen", "only-damaged", "chunks-per-shard"]) expect(out).toContain(option);
  });
});

test("bash completes commands, options and values with the script", async () => {
  const { out } = await runCli(["completion", "bash"]);
  const complete = (...words: readonly string[]): string => {
    const set = `COMP_WORDS=(superchunk ${words.join(" ")}); COMP_CWORD=${words.length}; _superchunk`;
    const command = `${out}\n${set}; printf '%s ' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["-c", command], { encoding: "utf8" }).trim();
  };
  expect(complete("ver")).toBe("verify");
  expect(complete("ls", "--to")).toBe("--totals");
  expect(complete("convert", "--to", "par")).toBe("parquet");
  expect(complete("help", "ver")).toBe("verify");
  expect(complete("completion", "z")).toBe("zsh");
  const folder = temporaryFolder();
  writeFileSync(join(folder, "two words.blp"), "");
  expect(complete("info", `${folder}/two`)).toBe(join(folder, "two words.blp"));
});
