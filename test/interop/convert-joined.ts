/** Archives joined where a short chunk is in the middle, read by every reader of Zarr v3 that knows the grid. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { create as createArray } from "../../src/node/edit.ts";
import { runCommand } from "./command.ts";
import { lastLines } from "./program.ts";
import type { SuiteContext } from "./suite.ts";
import { zarrReaders } from "./support.ts";

/** Rows of the archives, in chunks of ten: the second begins off the grid of the first, the third on it again. */
const ROWS = [25, 35, 47];

/** Joins three archives in both grids, and has their values read. */
export async function checkJoined({ checks, folder, peer }: SuiteContext): Promise<void> {
  const sources: string[] = [];
  let count = 0;
  for (const [i, rows] of ROWS.entries()) {
    const source = join(folder, `part-${i}`);
    const array = await createArray(source, { dtype: "<f8", shape: [0], chunkLength: 10 });
    const from = count;
    await array.append(Float64Array.from({ length: rows }, (_, k) => Math.sqrt(from + k)));
    await array.close();
    sources.push(source);
    count += rows;
  }
  const values = Float64Array.from({ length: count }, (_, k) => Math.sqrt(k));
  const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
  for (const [grid, text] of [
    ["regular", "6 chunks copied, 1 padded, 4 recoded"],
    ["rectilinear", "12 chunks copied, 0 recoded"],
  ] as const) {
    const path = join(folder, `joined-${grid}`);
    const result = await runCommand("convert", ...sources, path, "--concat", "--grid", grid);
    if (result.code !== 0) {
      checks.fail(`archives joined in a ${grid} grid`, lastLines(result));
      continue;
    }
    checks.equal(`archives joined in a ${grid} grid`, result.stdout.includes(text) || result.stdout, true);
    for (const name of zarrReaders) {
      if (grid === "rectilinear" && (name === "tensorstore" || name === "zarrita")) continue;
      const [answer] = (await peer(name)?.read([{ path, dtype: "<f8" }])) ?? [];
      if (answer === undefined) continue;
      const found = answer.kind === "values" ? [answer.shape, answer.sha256] : answer;
      checks.equal(`${name} reads archives joined in a ${grid} grid`, found, [[count], sha256]);
    }
  }
}
