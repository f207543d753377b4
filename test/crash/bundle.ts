/** The library as one file that a child process can import. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** Bundles the library into `outfile`: `core` and `node` are what the entries of the package export. */
export async function bundleLibrary(outfile: string): Promise<void> {
  await build({
    stdin: {
      contents: 'export * as core from "./index.ts"; export * as node from "./node/index.ts";',
      resolveDir: fileURLToPath(new URL("../../src", import.meta.url)),
      loader: "ts",
    },
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["koffi", "@earthmover/icechunk"],
    logLevel: "error",
  });
}
