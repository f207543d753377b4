/** One run of the command: from arguments and streams to an exit code. Never throws, never exits the process. */
import { existsSync } from "node:fs";
import { CommanderError } from "commander";
import { isSuperchunkError, SuperchunkError } from "../src/index.ts";
import { isCommand, loadCommands } from "./command-list.ts";
import { Command, Context } from "./context.ts";
import { EXIT, errorAsTyped, exitCodeOf, Interruption, toJsonFailure } from "./failure.ts";
import { ClosedPipe, type Io } from "./output/output.ts";
import { printable } from "./values/cell-text.ts";
import { readVersion } from "./version.ts";

const EXIT_CODES = `
Exit codes: 0 done, 1 failed, 2 wrong use, 3 stored bytes contradict themselves
or their checksums, 130 or 143 interrupted.

PATH is a file, a folder, or an address: http(s)://, s3://, gs://, az://.
Results go to stdout, messages and progress to stderr. With --json an error is
also printed to stdout, as {"error": {code, message, path, offset, chunk, field,
expected, found}}, if no result has been printed yet.

Example:
  superchunk info prices.blp`;

/** Runs `superchunk` with the arguments after its name. Resolves with the exit code. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const context = new Context(io, argv);
  try {
    const asked = misspelt(argv) ?? argv;
    const program = await buildProgram(context, asked);
    await program.parseAsync([...asked], { from: "user" });
    await context.out.flush();
    return context.exitCode;
  } catch (caught) {
    const error = io.signal.aborted ? io.signal.reason : placed(caught, context);
    if (error instanceof ClosedPipe) return EXIT.done;
    if (error instanceof CommanderError && error.exitCode === 0) return finishHelp(argv, context);
    if (!(error instanceof CommanderError)) await reportFailure(error, argv, context);
    else if (argv.includes("--json")) await reportJson(error, context);
    await context.out.flush().catch(() => {});
    return exitCodeOf(error);
  }
}

/** The error, which names the command's path if it names no other. */
function placed(error: unknown, { subject }: Context): unknown {
  if (!(error instanceof SuperchunkError) || error.code === "BAD_ARGUMENT" || subject === undefined)
    return error;
  return error.details.path === undefined ? error.at({ path: subject }) : errorAsTyped(subject, error);
}

/** For `help` with an unknown command: the word alone, so that the answer suggests the command that was meant. */
function misspelt([first, word = "", ...others]: readonly string[]): readonly string[] | undefined {
  const isWord = first === "help" && others.length === 0 && /^\w{2,}$/.test(word);
  return isWord && word !== "help" && !isCommand(word) ? [word] : undefined;
}

/** After help or version, which commander reports as an exception, the output must still be flushed. */
async function finishHelp(argv: readonly string[], context: Context): Promise<number> {
  try {
    await context.out.flush();
    return EXIT.done;
  } catch (error) {
    if (error instanceof ClosedPipe) return EXIT.done;
    await reportFailure(error, argv, context);
    return exitCodeOf(error);
  }
}

async function reportFailure(error: unknown, argv: readonly string[], context: Context): Promise<void> {
  const next = howToContinue(argv);
  if (error instanceof Interruption) context.message(next === "" ? "interrupted" : `interrupted; ${next}`);
  else context.failure(error);
  if (isSuperchunkError(error, "NO_SPACE") && next !== "") context.message(next);
  if (argv.includes("--debug") && error instanceof Error)
    context.io.stderr.write(`${context.hide(debugText(error)).split("\n").map(printable).join("\n")}\n`);
  if (argv.includes("--json")) await reportJson(error, context);
}

/** How to continue a command that was interrupted; empty if it begins again. */
function howToContinue([name = "", ...argv]: readonly string[]): string {
  const isResumable = name === "convert" || (name === "verify" && argv.includes("--report"));
  const instead = argv.includes("--overwrite") ? " instead of --overwrite" : "";
  const how = isResumable ? `with --resume${instead}` : name === "run" || name === "finish" ? "again" : "";
  return how === "" ? "" : `run the same command ${how} to continue`;
}

async function reportJson(error: unknown, context: Context): Promise<void> {
  if (context.out.started) return;
  try {
    await context.json({ error: toJsonFailure(error) });
  } catch (closed) {
    if (!(closed instanceof ClosedPipe)) throw closed;
  }
}

/** The parser's message as one line, and the command that shows the help. */
function usageLine(text: string, { commands }: Command, argv: readonly string[]): string {
  const line = text
    .trim()
    .replace(/^error: (?:command-argument )?/, "")
    .replace(/\s*\n\s*/g, " ");
  const named = commands.find((each) => [each.name(), ...each.aliases()].includes(argv[0] ?? ""));
  const help = named === undefined ? "superchunk --help" : `superchunk ${named.name()} --help`;
  const [, path] = /^unknown command '(.*[./\\].*)'$/.exec(line) ?? [];
  if (path !== undefined)
    return `superchunk: "${path}" is not a command. To see what is there: superchunk info ${path}`;
  const [, dashed] = /^unknown option '(.*?)'/s.exec(line) ?? [];
  if (dashed !== undefined && existsSync(dashed))
    return `superchunk: unknown option "${dashed}". For the path of that name, write ./${dashed}`;
  const greedy = named?.options.find(({ variadic, long = "" }) => variadic && argv.includes(long));
  if (greedy !== undefined && line.startsWith("missing required argument"))
    return `superchunk: ${line}; ${greedy.long} takes all words that follow it, so give it last. See "${help}".`;
  return `superchunk: ${line.endsWith(".") || line.endsWith(")") ? line : `${line}.`} See "${help}".`;
}

function debugText(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${debugText(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

async function buildProgram(context: Context, argv: readonly string[]): Promise<Command> {
  const program = new Command("superchunk")
    .description(
      "Read Bloscpack, BLZ, bcolz and superchunk archives, and convert them to Zarr v3 without recompressing.",
    )
    .option("--debug", "print the stack trace of an error")
    .version(readVersion(), "-V, --version", "print the version")
    .notes(EXIT_CODES)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.out.text(text),
      writeErr: (text) => void context.io.stderr.write(context.hide(text)),
      outputError: (text, write) => write(`${printable(context.hide(usageLine(text, program, argv)))}\n`),
    })
    .hook("preAction", (_, command) => {
      context.allow = command.opts<{ readonly allow?: readonly string[] }>().allow;
      context.subject = command.args[0];
    })
    .configureHelp({ subcommandTerm: (command) => [command.name(), ...command.aliases()].join(", ") });
  for (const add of await loadCommands(argv[0])) add(program, context);
  // Last, so that the help lists it in the last group.
  return program.helpCommand("help [command]", "print the help of a command");
}
