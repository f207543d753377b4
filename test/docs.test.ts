import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { compileModules, readExamples, runModule } from "./examples.ts";
import { findFixture, repositoryRoot } from "./fixtures/manifest.ts";
import { temporaryFolder } from "./folder.ts";

const DOCUMENTS = ["README.md", "docs/blosc.md", "docs/zarrita.md", "docs/library.md", "docs/parquet.md"];

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

test("every link in a document leads to a file, and to a heading in it", () => {
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
  const modules = examples.map(
    ({ code }, index) => [`example-${index}.ts`, `${code}\nexport {};\n`] as const,
  );
  const bundled = { module: "esnext", moduleResolution: "bundler", noUncheckedIndexedAccess: true };
  expect(compileModules(Object.fromEntries(modules), bundled)).toBe("");
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

test("the code about arrays in several places runs, and reads back what it wrote", async () => {
  const folder = temporaryFolder();
  const blocks = readExamples("docs/many-machines.md", "js").filter((code) => code.includes("placeBy"));
  const [code = ""] = blocks;
  expect(blocks).toHaveLength(1);
  const before = process.cwd();
  process.chdir(folder);
  try {
    const here = code.replaceAll("/disk2/", `${folder}/disk2/`);
    const { places, prices } = await runModule(`${here}\nexport { places, prices };`);
    expect(places).toMatchObject([
      { name: "data", superchunks: 1 },
      { name: "cold", superchunks: 0 },
    ]);
    const { data } = await (prices as { get(): Promise<{ data: Float64Array }> }).get();
    expect([...data]).toEqual([1.25, 1.5, 1.75]);
  } finally {
    process.chdir(before);
  }
});
