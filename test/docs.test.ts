import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { COMMAND_NAMES } from "../cli/command-list.ts";
import { runCli } from "./cli/harness.ts";
import { commandsIn, readExamples, runCommand, runModule } from "./examples.ts";
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
    guides(),
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

test.each(["docs/parquet.md", "docs/questions.md"])("the commands of %s run in order", async (document) => {
  const folder = makeFolder();
  cpSync(join(folder, "daily_equities.bcolz"), join(folder, "ticks.bcolz"), { recursive: true });
  for (const words of [
    "convert daily_equities.bcolz bars.parquet",
    "convert daily_equities.bcolz bars.feather",
  ])
    expect((await runCommand(words, folder)).code).toBe(0);
  const { out } = await runCommand("cat ticks.bcolz --format csv --head 3", folder);
  writeFileSync(join(folder, "today.csv"), out);
  const all = readExamples(document, "sh").flatMap(commandsIn);
  // `serve` ends only on Ctrl-C.
  const commands = all.filter((words) => !words.startsWith("serve "));
  expect(commands.length).toBeGreaterThan(3);
  for (const words of commands) {
    // The page shows several ways to make it.
    rmSync(join(folder, "bars"), { recursive: true, force: true });
    const { code, err } = await runCommand(words, folder);
    expect([words, code, code === 0 ? "" : err]).toEqual([words, 0, ""]);
  }
});

test("documents name only commands and options that exist", async () => {
  const options = new Map<string, ReadonlySet<string>>();
  for (const name of COMMAND_NAMES) {
    const [help = ""] = (await runCli([name, "--help"])).out.split(/^Examples?:/m);
    options.set(name, new Set(help.match(/(?<![\w-])--[a-z][a-z-]*/g)));
  }
  const wrong: string[] = [];
  let count = 0;
  for (const document of ["README.md", "FORMAT.md", "CHANGELOG.md", ...guides()])
    for (const [line, name = "", rest = ""] of readFileSync(join(repositoryRoot, document), "utf8").matchAll(
      /\bsuperchunk ([a-z]+)((?: [^`\n|]*)? --[^`\n|]*)/g,
    ))
      for (const option of rest.match(/(?<![\w-])--[a-z][a-z-]*/g) ?? []) {
        count++;
        if (options.get(name)?.has(option) !== true) wrong.push(`${document}: ${line}`);
      }
  expect(count).toBeGreaterThan(100);
  expect(wrong).toEqual([]);
});

test("docs/command.md describes every command, and every format of cat", async () => {
  const page = readFileSync(join(repositoryRoot, "docs", "command.md"), "utf8");
  const [, commands = ""] = /\| command \| does \|\n((?:\|.*\n)+)/.exec(page) ?? [];
  expect(COMMAND_NAMES.filter((name) => !commands.includes(`\`${name} `))).toEqual([]);
  const [, table = ""] = /\| format \| what it is \|\n((?:\|.*\n)+)/.exec(page) ?? [];
  const described = Array.from(table.matchAll(/^\| `(\w+)`/gm), ([, format]) => format);
  const { out } = await runCli(["cat", "--help"]);
  const [, choices = ""] = /--format <format>.*?\(choices:([^)]*)\)/s.exec(out) ?? [];
  expect(described.length).toBeGreaterThan(5);
  expect(described.sort()).toEqual(Array.from(choices.matchAll(/"(\w+)"/g), ([, format]) => format).sort());
});

/** The pages in `docs`. */
function guides(): string[] {
  return readdirSync(join(repositoryRoot, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && !name.startsWith("api"))
    .map((name) => `docs/${name.replaceAll("\\", "/")}`);
}

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

test("the JSON of commands has no members that docs/command.md does not list", async () => {
  const page = readFileSync(join(repositoryRoot, "docs", "command.md"), "utf8");
  const rows = [...page.slice(page.indexOf("## JSON")).matchAll(/^\| `(\w+)` \| (.*) \|$/gm)];
  const listed = new Map(
    rows.map(([, command = "", members = ""]) => [
      command,
      new Set(Array.from(members.matchAll(/`(\w+)`/g), ([, name]) => name)),
    ]),
  );
  const folder = makeFolder();
  writeFileSync(join(folder, "rows.raw"), new Uint8Array(Float64Array.of(1, 2, 3).buffer));
  writeFileSync(join(folder, "closes.csv"), "close\n1\n2\n");
  const commands = [
    "create array --dtype <f8 --shape 4000 --zarr",
    "create table --as ctable --from closes.csv",
    ...["append array rows.raw", "resize array 3000", "resize array 2000 --dry-run", "attrs array --set x=1"],
    ...[
      "set array --slice 0:2 --value 5",
      "delete array --rows 0:2",
      "compact array",
      "compact array --dry-run",
    ],
    ...[
      "info array",
      "info daily_equities.bcolz",
      "ls .",
      "ls . --missing",
      "columns table --rename close=last",
    ],
    ...["chunks daily_equities.bcolz", "chunks array", "verify array", "repair daily_equities.bcolz copy"],
    ...["convert daily_equities.bcolz daily.zarr", "convert daily.zarr back --to bcolz"],
    ...[
      "convert daily_equities.bcolz daily.parquet",
      "convert daily_equities.bcolz old --to zarr3-transformer",
    ],
    ...["info daily.zarr", "chunks daily.zarr/close", "place array"],
  ];
  const seen = new Set<string>();
  const wrong: string[] = [];
  for (const words of commands) {
    const { code, out } = await runCommand(`${words} --json`, folder);
    expect([words, code]).toEqual([words, 0]);
    const [command = ""] = words.split(" ");
    seen.add(command);
    for (const name of membersOf(JSON.parse(out)))
      if (listed.get(command)?.has(name) !== true) wrong.push(`${command}: ${name}`);
  }
  expect([...listed.keys()].filter((command) => !seen.has(command))).toEqual([]);
  expect([...new Set(wrong)]).toEqual([]);
});

/** Names of the members of JSON, in lists and objects too, except of objects with names of the user or counts. */
function membersOf(json: unknown): readonly string[] {
  if (Array.isArray(json)) return json.flatMap(membersOf);
  if (typeof json !== "object" || json === null) return [];
  return Object.entries(json).flatMap(([name, value]) =>
    ["attrs", "set", "totals"].includes(name) ? [name] : [name, ...membersOf(value)],
  );
}
