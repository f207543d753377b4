/** How the programs of this folder start Chromium, and build the scripts of its pages. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { build } from "esbuild";
import { repositoryRoot } from "../fixtures/manifest.ts";

/** No network access except on request. */
export const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Measures memory at once, not minutes later.
  "--enable-blink-features=ForceEagerMeasureMemory",
];

/** Settings of scripts for pages. */
export const BROWSER = {
  bundle: true,
  minify: true,
  format: "esm",
  platform: "browser",
  target: "es2022",
  write: false,
} as const;

/** The script of a file of this folder. */
export async function bundlePage(entry: string): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [join(repositoryRoot, "test", "browser", entry)],
    ...BROWSER,
  });
  return outputFiles[0]?.contents ?? new Uint8Array(0);
}

/** Chromium's program: the one named in CHROMIUM, or the first in the search path. */
export function findChromium(): string | undefined {
  const named = process.env["CHROMIUM"];
  if (named !== undefined) return named;
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => existsSync(path));
}
