/** The examples of the documents: each block of TypeScript compiles in strict mode as its reader would compile it, and runs. */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { readExamples, runModule } from "./examples.ts";
import { findFixture, repositoryRoot } from "./fixtures/manifest.ts";
import { temporaryFolder } from "./folder.ts";

const DOCUMENTS = ["README.md", "docs/blosc.md", "docs/library.md"];

const examples = DOCUMENTS.flatMap((document) =>
  readExamples(document, "ts").map((code, index) => ({ name: `${document}, block ${index + 1}`, code })),
);

/** A folder with the archives that the documents name. */
function makeFolder(): string {
  const folder = temporaryFolder();
  cpSync(findFixture("ctable/bcolz-daily-equities").file, join(folder, "daily_equities.bcolz"), {
    recursive: true,
  });
  return folder;
}

test("every link of a document leads to a file, and to a heading of it", () => {
  const documents = ["README.md", "FORMAT.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CORRECTNESS.md"].concat(
    readdirSync(join(repositoryRoot, "docs"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md") && !name.startsWith("api"))
      .map((name) => `docs/${name.replaceAll("\\", "/")}`),
  );
  const read = (document: string): string =>
    readFileSync(join(repositoryRoot, document), "utf8").replaceAll(/```.*?```/gs, "");
  const anchorsOf = (text: string): string[] =>
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    );
  const broken = documents.flatMap((document) =>
    [...read(document).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? document : posix.join(posix.dirname(document), path);
      if (file.startsWith("docs/api/")) return [];
      if (!existsSync(join(repositoryRoot, file))) return [`${document}: ${target}`];
      return anchor === undefined || anchorsOf(read(file)).includes(anchor) ? [] : [`${document}: ${target}`];
    }),
  );
  expect(documents.length).toBeGreaterThan(10);
  expect(broken).toEqual([]);
});

test("there are examples", () => {
  expect(examples.length).toBeGreaterThan(2);
});

test("every example compiles as strict TypeScript", () => {
  const folder = makeFolder();
  symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"), "junction");
  mkdirSync(join(folder, "examples"));
  const source = (path: string): string[] => [join(repositoryRoot, "src", path)];
  const compilerOptions = {
    target: "es2022",
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
    module: "esnext",
    moduleResolution: "bundler",
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    noEmit: true,
    types: ["node"],
    paths: {
      superchunk: source("index.ts"),
      "superchunk/node": source("node/index.ts"),
      "superchunk/zarr": source("zarr.ts"),
      "superchunk/blosc": source("blosc.ts"),
    },
  };
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files: source("bytes/hash-wasm.d.ts"), include: ["examples"] }),
  );
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  for (const [index, { code }] of examples.entries())
    writeFileSync(join(folder, "examples", `example-${index}.ts`), `${code}\nexport {};\n`);
  const compiler = join(repositoryRoot, "node_modules", "typescript", "bin", "tsc");
  let errors = "";
  try {
    execFileSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" });
  } catch (error) {
    errors = String((error as { stdout?: unknown }).stdout);
  }
  expect(errors).toBe("");
});

test.each(examples)("$name runs", async ({ code }) => {
  const folder = makeFolder();
  const before = process.cwd();
  process.chdir(folder);
  try {
    expect((await runModule(`${code}\nexport const done = true;`))["done"]).toBe(true);
  } finally {
    process.chdir(before);
  }
});
