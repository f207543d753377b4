/** The examples of the README run as they stand there, on real archives. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { expect, onTestFinished, test } from "vitest";
import { findFixture, repositoryRoot } from "./fixtures/manifest.ts";

const text = readFileSync(join(repositoryRoot, "README.md"), "utf8");
const examples = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = ""]) => code);
const source = (path: string) => join(repositoryRoot, "src", path);

/** Runs one example as a module; gives back what it exports. */
async function run(code: string): Promise<Record<string, unknown>> {
  const folder = mkdtempSync(join(tmpdir(), "readme-"));
  try {
    const { outputFiles } = await build({
      stdin: { contents: code, resolveDir: repositoryRoot, loader: "ts" },
      bundle: true,
      write: false,
      platform: "node",
      format: "esm",
      external: ["koffi", "@aws-sdk/client-s3", "@earthmover/icechunk"],
      alias: {
        "superchunk/node": source("node/index.ts"),
        "superchunk/zarr": source("bridge/index.ts"),
        "superchunk/blosc": source("codec/index.ts"),
        superchunk: source("index.ts"),
      },
    });
    const file = join(folder, "example.mjs");
    writeFileSync(file, outputFiles[0]?.contents ?? "");
    return await import(pathToFileURL(file).href);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("there are examples", () => {
  expect(examples.length).toBeGreaterThan(3);
});

test.each(examples.map((code, i) => ({ name: code.split("\n")[0] ?? String(i), code })))(
  "$name …",
  async ({ code }) => {
    const archive = findFixture("ctable/bcolz-daily-equities").file;
    const folder = mkdtempSync(join(tmpdir(), "readme-data-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const prepared = code
      .replaceAll('"daily_equities.bcolz"', JSON.stringify(archive))
      .replaceAll('"eurofx"', JSON.stringify(join(folder, "eurofx")));
    // What an example calls its own data.
    const before = prepared.includes("encode(bytes") ? "const bytes = new Uint8Array(8000);\n" : "";
    const exported = await run(`${before}${prepared}\nexport const done = true;`);
    expect(exported["done"]).toBe(true);
  },
);
