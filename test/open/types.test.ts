/** What a user compiles with the strictest settings: the types of reads, and every example in the documents. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkOptions } from "../../src/bytes/check-options.ts";
import { compileModules, readExamples } from "../examples.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { sample } from "../scope.ts";

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

/** How users resolve modules. Each compiles the library again. */
const RESOLUTIONS = [
  { module: "nodenext", noUncheckedIndexedAccess: true },
  { module: "esnext", moduleResolution: "bundler", noUncheckedIndexedAccess: true },
];

test.each(sample(RESOLUTIONS, 1))(
  "reads have the types that their selections and data types imply, and all examples in the documents compile: %o",
  (resolution) => {
    const documents = [
      "README.md",
      ...readdirSync(join(repositoryRoot, "docs")).map((name) => `docs/${name}`),
    ];
    const examples = documents
      .filter((name) => name.endsWith(".md"))
      .flatMap((name) =>
        (["js", "ts"] as const).flatMap((language) =>
          readExamples(name, language).map((code, i) => [
            `${name.replace(/\W/g, "-")}-${language}-${i}.ts`,
            `${code}\nexport {};\n`,
          ]),
        ),
      );
    expect(examples.length).toBeGreaterThan(10);
    const types = readFileSync(join(repositoryRoot, "test/open/types-of-reads.ts"), "utf8");
    // The check detects errors.
    const wrong = types.replace("same<typeof price, number>(true)", "same<typeof price, bigint>(true)");
    const files = {
      ...Object.fromEntries(examples),
      "context.d.ts": CONTEXT,
      "declared.d.ts": DECLARED,
      "types-of-reads.ts": types,
      "wrong.ts": wrong,
    };
    const said = compileModules(files, resolution);
    expect(said).toMatch(/^\S*wrong\.ts\(\d+,\d+\): error TS\d+: [^\n]*(?:\n +[^\n]*)*\n$/);
  },
);

test("a list of options that is not exactly that of its type does not compile", () => {
  const options: { readonly signal?: AbortSignal; readonly keep?: boolean } = {};

  checkOptions(options, "keep signal");
  // @ts-expect-error one is missing, and would be refused
  expect(() => checkOptions(options, "signal")).not.toThrow();
  // @ts-expect-error one is too much, and would be ignored
  expect(() => checkOptions(options, "keep shared signal")).not.toThrow();
});
