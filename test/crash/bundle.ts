/** The library as one file that a child process can import, built once for all tests of a process. */
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { BUNDLED } from "../cli/built.ts";

const resolveDir = fileURLToPath(new URL("../../src", import.meta.url));
const built = new Map<string, Promise<Uint8Array>>();

async function bundleModule(contents: string, outfile: string): Promise<void> {
  const bundle = async (): Promise<Uint8Array> => {
    const { outputFiles } = await build({
      ...BUNDLED,
      stdin: { contents, resolveDir, loader: "ts" },
      write: false,
    });
    return outputFiles[0]?.contents ?? new Uint8Array();
  };
  if (!built.has(contents)) built.set(contents, bundle());
  await writeFile(outfile, (await built.get(contents)) ?? "");
}

/** Bundles the library into `outfile`: `core` and `node` are what the entries of the package export. */
export async function bundleLibrary(outfile: string): Promise<void> {
  await bundleModule('export * as core from "./index.ts"; export * as node from "./node/index.ts";', outfile);
}

/** Bundles the part that edits, which starts faster than the whole library. */
export async function bundleWriting(outfile: string): Promise<void> {
  await bundleModule('export * from "./node/edit.ts";', outfile);
}
