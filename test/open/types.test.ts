/** What a user compiles with the strictest settings: the types of reads, and every example in the documents. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compileModules, readExamples } from "../examples.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

/** What examples use from earlier ones. */
const CONTEXT = `import type { MemoryStore } from "superchunk";
import type { openReferences as open } from "superchunk/node";
import type { WritableZarrArray } from "superchunk/zarr";
declare global {
  const store: MemoryStore;
  const array: WritableZarrArray;
  const values: Float64Array;
  const target: MemoryStore;
  const openReferences: typeof open;
  const accessKeyId: string;
  const secretAccessKey: string;
}`;

/** Declarations for bundlers and packages that are not installed here. */
const DECLARED = `declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}
declare module "hyparquet-compressors";`;

test("reads have the types that their selections and data types imply, and all examples in the documents compile", () => {
  const documents = ["README.md", ...readdirSync(join(repositoryRoot, "docs")).map((name) => `docs/${name}`)];
  const examples = documents
    .filter((name) => name.endsWith(".md"))
    .flatMap((name) =>
      readExamples(name, "js").map((code, i) => [`${name.replace(/\W/g, "-")}-${i}.ts`, code]),
    );
  expect(examples.length).toBeGreaterThan(10);
  const types = readFileSync(join(repositoryRoot, "test/open/types-of-reads.ts"), "utf8");
  // The check detects errors.
  const wrong = types.replace("same<typeof price, number>(true)", "same<typeof price, bigint>(true)");
  const said = compileModules({
    ...Object.fromEntries(examples),
    "context.d.ts": CONTEXT,
    "declared.d.ts": DECLARED,
    "types-of-reads.ts": types,
    "wrong.ts": wrong,
  });
  expect(said).toMatch(/^\S*wrong\.ts\(\d+,\d+\): error TS\d+: [^\n]*(?:\n +[^\n]*)*\n$/);
});
