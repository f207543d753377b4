/** What a user compiles with the strictest settings: the types of reads, and every example of the documents. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readExamples } from "../examples.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

/** Inside of the repository, so that packages are found. */
function makeProject(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(repositoryRoot, "node_modules", ".types-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const up = relative(folder, repositoryRoot);
  const compilerOptions = {
    target: "es2022",
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
    module: "nodenext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    paths: {
      superchunk: [`${up}/src/index.ts`],
      "superchunk/node": [`${up}/src/node/index.ts`],
      "superchunk/zarr": [`${up}/src/zarr.ts`],
      "superchunk/blosc": [`${up}/src/blosc.ts`],
    },
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  return folder;
}

/** What examples take from those before them. */
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

/** What the compiler says; nothing where all is well. */
function compile(folder: string): string {
  try {
    execFileSync(process.execPath, [join(repositoryRoot, "node_modules/typescript/bin/tsc"), "-p", folder], {
      encoding: "utf8",
      stdio: "pipe",
    });
    return "";
  } catch (error) {
    return (error as { readonly stdout: string }).stdout;
  }
}

test("reads have the types that their selections and data types say, and all examples of the documents compile", () => {
  const documents = ["README.md", ...readdirSync(join(repositoryRoot, "docs")).map((name) => `docs/${name}`)];
  const examples = documents
    .filter((name) => name.endsWith(".md"))
    .flatMap((name) =>
      readExamples(name, "js").map((code, i) => [`${name.replace(/\W/g, "-")}-${i}.ts`, code]),
    );
  expect(examples.length).toBeGreaterThan(10);
  const types = readFileSync(join(repositoryRoot, "test/open/types-of-reads.ts"), "utf8");
  expect(
    compile(
      makeProject({ ...Object.fromEntries(examples), "context.d.ts": CONTEXT, "types-of-reads.ts": types }),
    ),
  ).toBe("");
  // The gate sees what is wrong.
  const wrong = types.replace("same<typeof price, number>(true)", "same<typeof price, bigint>(true)");
  expect(compile(makeProject({ "wrong.ts": wrong }))).toContain("wrong.ts");
});
