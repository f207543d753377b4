/** One run of the command: from arguments and streams to an exit code. Never throws, never exits the process. */
import { Command, CommanderError } from "commander";
import { addAppend } from "./commands/append.ts";
import { addAttrs } from "./commands/attrs.ts";
import { addCat } from "./commands/cat.ts";
import { addChunks } from "./commands/chunks.ts";
import { addColumns } from "./commands/columns.ts";
import { addCompact } from "./commands/compact.ts";
import { addCompress } from "./commands/compress.ts";
import { addConvert } from "./commands/convert.ts";
import { addCreate } from "./commands/create.ts";
import { addDecompress } from "./commands/decompress.ts";
import { addDelete } from "./commands/delete.ts";
import { addInfo } from "./commands/info.ts";
import { addLink } from "./commands/link.ts";
import { addLs } from "./commands/ls.ts";
import { addRepair } from "./commands/repair.ts";
import { addResize } from "./commands/resize.ts";
import { addServe } from "./commands/serve.ts";
import { addSet } from "./commands/set.ts";
import { addUnlink } from "./commands/unlink.ts";
import { addVerify } from "./commands/verify.ts";
import { addVirtualize } from "./commands/virtualize.ts";
import { Context } from "./context.ts";
import { EXIT, exitCodeOf, Interruption, toJsonFailure } from "./failure.ts";
import { ClosedPipe, type Io } from "./output.ts";
import { readVersion } from "./version.ts";

const EXIT_CODES = `
Exit codes: 0 done, 1 failed, 2 wrong use, 3 stored bytes contradict themselves
or their checksums, 130 interrupted.

PATH is a file, a folder, or an http(s):// or s3:// address. Results go to stdout, messages and
progress to stderr. With --json an error is also printed to stdout, as
{"error": {code, message, path, offset, chunk, field, expected, found}}, where
no result has been printed yet.

Example:
  superchunk info prices.blp`;

/** Runs `superchunk` with the arguments behind its name. Resolves with the exit code. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const context = new Context(io);
  try {
    await buildProgram(context).parseAsync([...argv], { from: "user" });
    await context.out.flush();
    return context.exitCode;
  } catch (caught) {
    const error = io.signal.aborted ? io.signal.reason : caught;
    if (error instanceof ClosedPipe) return EXIT.done;
    if (!(error instanceof CommanderError)) await reportFailure(error, argv, context);
    else if (error.exitCode !== 0 && argv.includes("--json")) await reportJson(error, context);
    await context.out.flush().catch(() => {});
    return exitCodeOf(error);
  }
}

async function reportFailure(error: unknown, argv: readonly string[], context: Context): Promise<void> {
  if (error instanceof Interruption) context.message("interrupted");
  else context.failure(error);
  if (argv.includes("--debug") && error instanceof Error) context.io.stderr.write(`${debugText(error)}\n`);
  if (argv.includes("--json")) await reportJson(error, context);
}

async function reportJson(error: unknown, context: Context): Promise<void> {
  if (context.out.started) return;
  try {
    await context.json({ error: toJsonFailure(error) });
  } catch (closed) {
    if (!(closed instanceof ClosedPipe)) throw closed;
  }
}

/** The parser's complaint, which may have several lines, as one. */
function usageLine(text: string): string {
  const line = text
    .trim()
    .replace(/^error: /, "")
    .replace(/\s*\n\s*/g, " ");
  return `superchunk: ${line.endsWith(".") || line.endsWith(")") ? line : `${line}.`} See "superchunk --help".`;
}

function debugText(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${debugText(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

function buildProgram(context: Context): Command {
  const program = new Command("superchunk")
    .description(
      "Read Bloscpack, BLZ, bcolz and superchunk archives, and carry them into Zarr v3 without recompressing.",
    )
    .option("--debug", "print the stack of an error")
    .version(readVersion(), "-V, --version", "print the version")
    .addHelpText("after", EXIT_CODES)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.out.text(text),
      writeErr: (text) => void context.io.stderr.write(text),
      outputError: (text, write) => write(`${usageLine(text)}\n`),
    })
    .helpCommand("help [command]", "print the help of a command");
  for (const add of [
    addInfo,
    addLs,
    addChunks,
    addCat,
    addVerify,
    addCompress,
    addDecompress,
    addCreate,
    addAppend,
    addResize,
    addSet,
    addDelete,
    addAttrs,
    addColumns,
    addCompact,
    addRepair,
    addConvert,
    addServe,
    addLink,
    addUnlink,
    addVirtualize,
  ])
    add(program, context);
  return program;
}
