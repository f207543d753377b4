/** The library as one file that a child process can import. */
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";

const sources = fileURLToPath(new URL("../../src", import.meta.url));
const common: BuildOptions = {
  bundle: true,
  platform: "node",
  format: "esm",
  external: ["koffi", "@earthmover/icechunk"],
  logLevel: "error",
};

/** Bundles the library into `outfile`: `core` and `node` are what the entries of the package export. */
export async function bundleLibrary(outfile: string): Promise<void> {
  const contents = 'export * as core from "./index.ts"; export * as node from "./node/index.ts";';
  await build({ ...common, stdin: { contents, resolveDir: sources, loader: "ts" }, outfile });
}

/** Bundles the part that edits, which starts faster than the whole library. */
export async function bundleWriting(outfile: string): Promise<void> {
  await build({ ...common, entryPoints: [`${sources}/node/edit.ts`], outfile });
}
