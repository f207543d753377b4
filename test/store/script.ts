/** Programs for tests that need a separate process. */
import * as fs from "node:fs";
import { build } from "esbuild";

/** Writes a program, which may import the sources by absolute path, as one file that Node runs. */
export async function bundleScript(source: string, path: string): Promise<void> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: process.cwd(), loader: "js" },
    bundle: true,
    platform: "node",
    format: "esm",
    write: false,
  });
  fs.writeFileSync(path, outputFiles[0]?.contents ?? "");
}
