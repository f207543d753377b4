/** What `verify` says after a damaged archive: what of it can be saved, and by which command. */
import { isSuperchunkError } from "../../src/index.ts";
import { repairArray } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { inCommandWords } from "../failure.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import type { Io } from "./output.ts";
import { startProgress } from "./progress.ts";

/** What can be saved of an archive. */
export interface SalvageAdvice {
  /** Chunks that are whole; null if too little is known of the archive to look for them. */
  readonly whole: number | null;
  /** Chunks that are missing or damaged. */
  readonly gone: number;
  /** What to run; absent where no chunk is whole. */
  readonly command?: string;
  /** One sentence, without the command. */
  readonly text: string;
}

/**
 * Looks through a damaged archive, which reads all of it again; undefined if nothing of it has to be repaired, or nothing
 * can be. `io`: where a bar is drawn; undefined if another one is.
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
    const text = lost.length > 0 ? `, but gone are: ${lost.join("; ")}` : "";
    return { whole, gone, command, text: `every chunk is intact and can be saved${text}` };
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    if (error.code !== "INCOMPLETE") return undefined;
    return {
      whole: null,
      gone: 0,
      command,
      text: `repair needs to know more: ${inCommandWords(error.summary)}`,
    };
  } finally {
    bar?.finish();
  }
}

/** A path as a shell takes it. */
function quoted(path: string): string {
  return /^[\w./:+@%=,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
