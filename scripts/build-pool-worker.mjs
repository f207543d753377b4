/**
 * Builds the file from which a pool's workers are started: one file without imports, so that every bundler accepts it. It contains no
 * kernels, because the pool sends them.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = fileURLToPath(new URL("../src/pool/blosc-worker.ts", import.meta.url));

/** Generated modules without their long texts. */
const withoutTexts = {
  name: "without-texts",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]kernels[\\/]generated[\\/]/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replaceAll(/"[\w+/=]{1000,}"/g, '""'),
      loader: "ts",
    }));
  },
};

/** Builds the file, and writes it if a name is given. */
export async function buildPoolWorker(outfile) {
  const { outputFiles } = await build({
    entryPoints: [source],
    outfile: outfile ?? "blosc-worker.js",
    write: false,
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    legalComments: "none",
    logLevel: "warning",
    plugins: [withoutTexts],
  });
  const [{ contents }] = outputFiles;
  if (outfile !== undefined) writeFileSync(outfile, contents);
  return contents;
}
