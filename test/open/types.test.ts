/** What a user compiles with the strictest settings: the types of reads, and every example in the documents. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ChunksOptions, LongOptions, OpenOptions, ReadOptions } from "../../src/archive/kinds/types.ts";
import type { LATE } from "../../src/bytes/check-options.ts";
import type { LinkPathOptions } from "../../src/node/dual/link.ts";
import type { OpenAnyOptions } from "../../src/open/open-node.ts";
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

/** The types of the options that are checked when a method needs them. */
interface Checked {
  readonly open: OpenOptions;
  readonly openAny: OpenAnyOptions;
  readonly link: LinkPathOptions;
  readonly read: ReadOptions;
  readonly chunks: ChunksOptions;
  readonly long: LongOptions;
}

type NamesIn<List extends string> = List extends `${infer First} ${infer Rest}`
  ? First | NamesIn<Rest>
  : List;

test("no option of a type is refused as unknown", () => {
  type Refused = {
    [Call in keyof Checked]: Exclude<keyof Checked[Call], NamesIn<(typeof LATE)[Call]>>;
  }[keyof Checked];

  // Does not compile otherwise, and names the option.
  const refused: [Refused] extends [never] ? "none" : Refused = "none";
  expect(refused).toBe("none");
});
