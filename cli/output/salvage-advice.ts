/** The advice of `verify` after a damaged archive: what can be saved, and by which command. */
import { isSuperchunkError } from "../../src/index.ts";
import { repairArray } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { inCommandWords } from "../failure.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { quoted } from "../values/cell-text.ts";
import type { Io } from "./output.ts";
import { startProgress } from "./progress.ts";

export interface SalvageAdvice {
  /** Number of undamaged chunks; null if too little of the archive is known to look for them. */
  readonly whole: number | null;
  /** Number of missing or damaged chunks. */
  readonly gone: number;
  /** Command to run; absent if all chunks are damaged. */
  readonly command?: string;
  /** One sentence, without the command. */
  readonly text: string;
}

/**
 * Reads a damaged archive again to find what can be saved; undefined if nothing needs repair, or nothing can be saved. `io`:
 * where to draw a progress bar; undefined if another one is shown.
 */
export async function adviseOnSalvage(
  path: string,
  { signal, allow = [] }: Pick<Context, "signal" | "allow">,
  io: Io | undefined,
): Promise<SalvageAdvice | undefined> {
  const bar = io && startProgress(io, "what can be saved", { unit: "chunks" });
  const allowed = allow.length === 0 ? "" : ` --allow ${allow.map(quoted).join(" ")}`;
  const command = `superchunk repair ${quoted(path)} DST${allowed}`;
  try {
    const { whole, holes, lost, problems } = await repairArray(path, {
      dryRun: true,
      ...{ signal, allow },
      onProgress: bar?.onProgress,
    });
    const gone = holes.length;
    if (gone > 0 && whole === 0) return { whole, gone, text: "no chunk is intact: nothing can be saved" };
    if (gone > 0) {
      const text = `${formatCount(whole)} of ${formatPlural(whole + gone, "chunk")} ${whole === 1 ? "is" : "are"} intact and can be saved`;
      return { whole, gone, command: `${command} --holes fill`, text };
    }
    if (lost.length + problems.length === 0) return undefined;
    const text = lost.length > 0 ? `, but lost: ${lost.join("; ")}` : "";
    return { whole, gone, command, text: `every chunk is intact and can be saved${text}` };
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    if (error.code !== "INCOMPLETE") return undefined;
    return {
      whole: null,
      gone: 0,
      command: error.summary.includes("{scan: true}") ? `${command} --scan` : command,
      text: `repair needs more information: ${inCommandWords(error.summary)}`,
    };
  } finally {
    bar?.finish();
  }
}
