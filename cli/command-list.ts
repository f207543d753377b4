/** The commands. Each is loaded only when it is called, because starting up takes most of the time of a short command. */
import type { Command, Context } from "./context.ts";

type AddCommand = (program: Command, context: Context) => void;

/** By name, in the order of the help. */
const COMMANDS: ReadonlyMap<string, () => Promise<AddCommand>> = new Map([
  ["info", async () => (await import("./commands/info.ts")).addInfo],
  ["ls", async () => (await import("./commands/ls.ts")).addLs],
  ["chunks", async () => (await import("./commands/chunks.ts")).addChunks],
  ["cat", async () => (await import("./commands/cat.ts")).addCat],
  ["view", async () => (await import("./commands/serve.ts")).addView],
  ["verify", async () => (await import("./commands/verify.ts")).addVerify],
  ["repair", async () => (await import("./commands/repair.ts")).addRepair],
  ["convert", async () => (await import("./commands/convert.ts")).addConvert],
  ["link", async () => (await import("./commands/link.ts")).addLink],
  ["unlink", async () => (await import("./commands/link.ts")).addUnlink],
  ["serve", async () => (await import("./commands/serve.ts")).addServe],
  ["virtualize", async () => (await import("./commands/references.ts")).addVirtualize],
  ["containers", async () => (await import("./commands/references.ts")).addContainers],
  ["consolidate", async () => (await import("./commands/beside.ts")).addConsolidate],
  ["create", async () => (await import("./commands/create.ts")).addCreate],
  ["append", async () => (await import("./commands/append.ts")).addAppend],
  ["set", async () => (await import("./commands/set.ts")).addSet],
  ["resize", async () => (await import("./commands/rows.ts")).addResize],
  ["delete", async () => (await import("./commands/rows.ts")).addDelete],
  ["attrs", async () => (await import("./commands/attrs.ts")).addAttrs],
  ["columns", async () => (await import("./commands/columns.ts")).addColumns],
  ["index", async () => (await import("./commands/beside.ts")).addIndex],
  ["compact", async () => (await import("./commands/compact.ts")).addCompact],
  ["place", async () => (await import("./commands/place.ts")).addPlace],
  ["compress", async () => (await import("./commands/compress.ts")).addCompress],
  ["decompress", async () => (await import("./commands/decompress.ts")).addDecompress],
  ["plan", async () => (await import("./commands/plan.ts")).addPlan],
  ["run", async () => (await import("./commands/plan.ts")).addRun],
  ["work", async () => (await import("./commands/plan.ts")).addWork],
  ["finish", async () => (await import("./commands/plan.ts")).addFinish],
  ["status", async () => (await import("./commands/plan.ts")).addStatus],
  ["completion", async () => (await import("./completion.ts")).addCompletion],
]);

/** The headings of the help, by the first command below each. */
const HEADINGS: Readonly<Record<string, string>> = {
  info: "Look at archives:",
  verify: "Check and save:",
  convert: "Convert, or show as Zarr:",
  create: "Create and edit arrays and tables:",
  compress: "Bloscpack files, as blpk does:",
  plan: "Share a job between machines:",
  completion: "Other:",
};

export const COMMAND_NAMES: readonly string[] = [...COMMANDS.keys()];

export function isCommand(name: string): boolean {
  return COMMANDS.has(name);
}

/** The command that needs all others. */
const TELLS_ALL = "completion";

/**
 * Loads the command that the first argument names, and none for the version. Loads all commands if it names none, or the one
 * that needs all: for the help, or to suggest a name.
 */
export async function loadCommands(first: string | undefined): Promise<readonly AddCommand[]> {
  if (first === "--version" || first === "-V") return [];
  const named = first === undefined ? undefined : COMMANDS.get(first);
  if (named !== undefined && first !== TELLS_ALL) return [await named()];
  return Promise.all(
    [...COMMANDS].map(async ([name, load]): Promise<AddCommand> => {
      const [add, heading] = [await load(), HEADINGS[name]];
      return heading === undefined ? add : (program, context) => add(program.commandsGroup(heading), context);
    }),
  );
}
