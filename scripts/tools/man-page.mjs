/** Makes the manual page `superchunk.1` from the help of the command built in `build`. */

import { COMMAND_NAMES, loadCommands } from "../../build/cli/command-list.js";
import { Command } from "../../build/cli/context.js";

/** Escapes text for troff: backslashes, literal hyphens, and lines that would be requests. */
const escaped = (text) =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll(/^([.'])/gm, "\\&$1");

/** The page: a section for each command. */
export async function manPage(version) {
  const program = new Command("superchunk");
  for (const add of await loadCommands(undefined)) add(program, {});
  const commands = COMMAND_NAMES.map((name) => program.commands.find((each) => each.name() === name));
  const parts = commands.map((command) => {
    const help = program.createHelp();
    const options = help
      .visibleOptions(command)
      .map((each) => `.TP\n.B ${escaped(each.flags)}\n${escaped(help.optionDescription(each))}`);
    // The text after the options, such as examples, is set unchanged.
    let after = "";
    command.configureOutput({ writeOut: (text) => (after += text) });
    command.outputHelp();
    const rest = after.slice(
      after.lastIndexOf("display help for command") + "display help for command".length,
    );
    return [
      `.SS ${escaped(`superchunk ${command.name()} ${command.usage()}`)}`,
      escaped(command.description()),
      ...options,
      `.PP\n.nf\n${escaped(rest.trim())}\n.fi`,
    ].join("\n");
  });
  return `.TH SUPERCHUNK 1 "" "superchunk ${version}"
.SH NAME
superchunk \\- read, verify, change and convert Bloscpack, BLZ, bcolz, Blosc2 and Zarr archives
.SH SYNOPSIS
.B superchunk
.I command
[options] [paths]
.SH COMMANDS
${parts.join("\n")}
.SH EXIT STATUS
0 done, 1 failed, 2 wrong use, 3 stored bytes contradict themselves or their checksums, 130 interrupted.
`;
}
