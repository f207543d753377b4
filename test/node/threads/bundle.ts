/** Bundles files of the sources for threads and processes that cannot load TypeScript. */
import { rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { BUNDLED } from "../../cli/built.ts";
import { temporaryFolder } from "../../folder.ts";

const sources = fileURLToPath(new URL("../../../src/node/", import.meta.url));

/** A folder with bundles, and how to remove it. */
export interface Bundles {
  readonly folder: string;
  /** The worker's file. */
  readonly worker: URL;
  remove(): Promise<void>;
}

/** Bundles the workers, and each of the given texts as a program that imports from `superchunk/node`. */
export async function bundle(programs: Readonly<Record<string, string>> = {}): Promise<Bundles> {
  const folder = temporaryFolder();
  await writeFile(join(folder, "package.json"), '{ "type": "module" }'); // Node 20.15 does not guess it
  await build({
    ...BUNDLED,
    entryPoints: ["threads/chunk-worker", "fs/head-worker"].map((worker) => ({
      in: join(sources, `${worker}.ts`),
      out: basename(worker),
    })),
    outdir: folder,
  });
  for (const [name, contents] of Object.entries(programs)) {
    await build({
      ...BUNDLED,
      stdin: { contents, resolveDir: sources, loader: "ts" },
      outfile: join(folder, name),
    });
  }
  return {
    folder,
    worker: pathToFileURL(join(folder, "chunk-worker.js")),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
