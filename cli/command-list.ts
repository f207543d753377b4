/** The commands. Each is loaded only when it is called, because starting up takes most of the time of a short command. */
import type { Command } from "commander";
import type { Context } from "./context.ts";

type AddCommand = (program: Command, context: Context) => void;

/** By name, in the order of the help. */
const COMMANDS: ReadonlyMap<string, () => Promise<AddCommand>> = new Map([
  ["info", async () => (await import("./commands/info.ts")).addInfo],
  ["ls", async () => (await import("./commands/ls.ts")).addLs],
  ["chunks", async () => (await import("./commands/chunks.ts")).addChunks],
  ["cat", async () => (await import("./commands/cat.ts")).addCat],
  ["verify", async () => (await import("./commands/verify.ts")).addVerify],
  ["compress", async () => (await import("./commands/compress.ts")).addCompress],
  ["decompress", async () => (await import("./commands/decompress.ts")).addDecompress],
  ["create", async () => (await import("./commands/create.ts")).addCreate],
  ["append", async () => (await import("./commands/append.ts")).addAppend],
  ["resize", async () => (await import("./commands/rows.ts")).addResize],
  ["set", async () => (await import("./commands/set.ts")).addSet],
  ["delete", async () => (await import("./commands/rows.ts")).addDelete],
  ["attrs", async () => (await import("./commands/attrs.ts")).addAttrs],
  ["columns", async () => (await import("./commands/columns.ts")).addColumns],
  ["compact", async () => (await import("./commands/compact.ts")).addCompact],
  ["place", async () => (await import("./commands/place.ts")).addPlace],
  ["repair", async () => (await import("./commands/repair.ts")).addRepair],
  ["index", async () => (await import("./commands/beside.ts")).addIndex],
  ["convert", async () => (await import("./commands/convert.ts")).addConvert],
  ["plan", async () => (await import("./commands/plan.ts")).addPlan],
  ["run", async () => (await import("./commands/plan.ts")).addRun],
  ["work", async () => (await import("./commands/plan.ts")).addWork],
  ["finish", async () => (await import("./commands/plan.ts")).addFinish],
  ["status", async () => (await import("./commands/plan.ts")).addStatus],
  ["consolidate", async () => (await import("./commands/beside.ts")).addConsolidate],
  ["serve", async () => (await import("./commands/serve.ts")).addServe],
  ["view", async () => (await import("./commands/serve.ts")).addView],
  ["link", async () => (await import("./commands/link.ts")).addLink],
  ["unlink", async () => (await import("./commands/link.ts")).addUnlink],
  ["containers", async () => (await import("./commands/references.ts")).addContainers],
  ["virtualize", async () => (await import("./commands/references.ts")).addVirtualize],
  ["completion", async () => (await import("./completion.ts")).addCompletion],
]);

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
  const loads = named === undefined || first === TELLS_ALL ? [...COMMANDS.values()] : [named];
  return Promise.all(loads.map((load) => load()));
}
