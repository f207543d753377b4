/** Which commands are loaded for which first argument. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { COMMAND_NAMES, loadCommands } from "../../cli/command-list.ts";
import { Context } from "../../cli/context.ts";

const { stdin, stdout, stderr } = process;
const context = new Context({ stdin, stdout, stderr, signal: new AbortController().signal });

async function namesFor(first: string | undefined): Promise<readonly string[]> {
  const program = new Command();
  for (const add of await loadCommands(first)) add(program, context);
  return program.commands.map((command) => command.name());
}

test("a first argument that names a command loads that one alone, each under its own name", async () => {
  const all = await namesFor(undefined);
  expect(all.length).toBeGreaterThan(20);
  expect([...all].sort()).toEqual([...COMMAND_NAMES].sort());
  for (const name of all) expect(await namesFor(name)).toEqual([name]);
});

test("what names no command loads them all, so that the help and the nearest name are found; the version needs none", async () => {
  const all = await namesFor(undefined);
  for (const first of ["help", "--help", "--debug", "lnk", ""]) expect(await namesFor(first)).toEqual(all);
  for (const first of ["--version", "-V"]) expect(await namesFor(first)).toEqual([]);
});
