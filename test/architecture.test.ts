/** Layers import only lower layers, and the core knows neither Node.js nor the layers next to it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/**
 * The layers, lowest first: each may import those before it. The files directly in src are the entries of the package.
 */
const LAYERS = [
  ["errors", "kernels"],
  ["bytes"],
  ["format", "codec", "store"],
  ["places"],
  ["codec2"],
  ["pool"],
  ["values"],
  ["parquet"],
  ["arrow"],
  ["tables"],
  ["scan"],
  ["archive"],
  ["write", "zarr"],
  ["edit", "open", "convert", "view", "dual", "references", "hdf5", "blosc2"],
  ["plan"],
  ["buckets"],
  ["entry", "node", "page"],
  ["queue"],
  ["cli"],
];

/** Layers of one level that know one another; no others do. */
const NEIGHBOURS = ["edit", "open", "convert", "view", "dual", "references", "hdf5", "blosc2"];

const LEVEL = new Map(LAYERS.flatMap((names, level) => names.map((name) => [name, level] as const)));

/** What `from` may import besides itself. The codec stands alone: it can be read, and shipped, without the rest. */
function mayImport(from: string, to: string): boolean {
  if (from === to) return true;
  if (from === "codec") return ["kernels", "bytes", "errors"].includes(to);
  if (to === "entry") return from === "cli";
  if (NEIGHBOURS.includes(from) && NEIGHBOURS.includes(to)) return true;
  return (LEVEL.get(to) ?? Number.POSITIVE_INFINITY) < (LEVEL.get(from) ?? -1);
}

interface Import {
  readonly file: string;
  readonly from: string;
  readonly target: string;
}

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((name) => posix.join(folder, name.replaceAll("\\", "/")))
    .filter((name) => name.endsWith(".ts") && !/\/(assembly|generated|node_modules)\//.test(name));
}

function layerOf(file: string): string {
  const [top = "", second = "", ...rest] = file.split("/");
  if (top === "cli") return "cli";
  if (second === "errors.ts") return "errors";
  if (rest[0] === "buckets") return "buckets";
  return rest.length === 0 ? "entry" : second;
}

const files = [...sources("src"), ...sources("cli")];

const imports: Import[] = files.flatMap((file) => {
  // Examples in doc comments import nothing.
  const text = readFileSync(join(root, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  const found = text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g);
  return [...found].map(([, target = ""]) => ({ file, from: layerOf(file), target }));
});

test("the architecture test sees the code", () => {
  expect(files.length).toBeGreaterThan(80);
  expect(imports.length).toBeGreaterThan(300);
  const layers = new Set(files.map(layerOf));
  expect([...layers].filter((layer) => !LEVEL.has(layer))).toEqual([]);
  expect([...LEVEL.keys()].filter((layer) => layer !== "kernels" && !layers.has(layer))).toEqual([]);
});

test("imports go down only", () => {
  const wrong = imports
    .filter(({ target }) => target.startsWith("."))
    .map(({ file, from, target }) => ({ file, from, to: layerOf(posix.join(posix.dirname(file), target)) }))
    .filter(({ from, to }) => !mayImport(from, to));
  expect(wrong).toEqual([]);
});

test("only src/node and cli import Node.js", () => {
  const wrong = imports.filter(
    ({ from, target }) => target.startsWith("node:") && !["node", "buckets", "cli"].includes(from),
  );
  expect(wrong).toEqual([]);
});

/** The package of a module: "hash-wasm/dist/md5.js" is of hash-wasm. */
function packageOf(target: string): string {
  return target.split("/", target.startsWith("@") ? 2 : 1).join("/");
}

test("packages that the core uses are part of the published files, and need no install", () => {
  const packages = imports.filter(({ target }) => !target.startsWith(".") && !target.startsWith("node:"));
  const ofCore = new Set(
    packages
      .filter(({ from }) => !["cli", "node", "buckets", "queue"].includes(from))
      .map(({ target }) => packageOf(target)),
  );
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    devDependencies: Record<string, string>;
  };
  // They are published inside the package's own files, so users do not install them.
  expect([...ofCore].filter((name) => !(name in manifest.devDependencies))).toEqual([]);
  expect(ofCore.has("commander")).toBe(false);
});

test("tests draw the same numbers each time", () => {
  const tests = sources("test").filter((file) => !/architecture|\/property\.ts/.test(file));
  expect(tests.length).toBeGreaterThan(200);
  const drawing = tests.filter((file) =>
    /from "fast-check"|Math\.random\(|randomBytes\(/.test(readFileSync(join(root, file), "utf8")),
  );
  expect(drawing).toEqual([]);
});

test("programs that are not compiled import modules and names that exist", () => {
  const programs = ["test", "bench", "scripts"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .map((name) => posix.join(folder, name.replaceAll("\\", "/")))
      .filter((name) => name.endsWith(".mjs") && !name.includes("node_modules")),
  );
  const wrong = programs.flatMap((program) => {
    const text = readFileSync(join(root, program), "utf8");
    return [...text.matchAll(/import \{([^}]*)\} from "(\.[^"]+)"/g)].flatMap(
      ([, names = "", target = ""]) => {
        const built = posix.join(posix.dirname(program), target);
        const source = built.replace(/^(?:build|dist)\/(.*)\.js$/, "$1.ts");
        if (!existsSync(join(root, source))) return [`${program}: ${target}`];
        const exported = readFileSync(join(root, source), "utf8");
        const asked = names.split(",").map((name) => name.trim().split(" ")[0] ?? "");
        const missing = asked.filter(
          (name) => name !== "" && !new RegExp(`export[^;]*?\\b${name}\\b`, "s").test(exported),
        );
        return missing.map((name) => `${program}: ${target} has no ${name}`);
      },
    );
  });
  expect(programs.length).toBeGreaterThan(30);
  expect(wrong).toEqual([]);
});

test("no file is longer than 500 lines", () => {
  const long = files.filter((file) => readFileSync(join(root, file), "utf8").split("\n").length > 500);
  expect(long).toEqual([]);
});

/**
 * Folders of formats that came after these limits, and the stores of buckets, which became three: they are counted separately, in lines, and their contents are not
 * part of them.
 */
const LATER: Readonly<Record<string, number>> = {
  parquet: 2_172,
  arrow: 953,
  hdf5: 3_559,
  blosc2: 3_516,
  tables: 1_909,
  codec2: 1_604,
  pool: 532,
  scan: 2_119,
  plan: 2_790,
  queue: 600,
  page: 5_721,
  places: 875,
  buckets: 1_493,
};

/** Limits that only go down: a change that lowers a figure also lowers its limit here. `bar` is the goal. */
const LIMITS = {
  lines: { limit: 90_142, bar: 58_000 },
  files: { limit: 368, bar: 380 },
  "largest folder": { limit: 22, bar: 22 },
  "functions with six parameters and more": { limit: 3, bar: 5 },
  "defaults after an index": { limit: 18, bar: 20 },
  "imports of the command past the public entries": { limit: 0, bar: 0 },
  "cycles of imports, types counted": { limit: 0, bar: 0 },
  "words that read like a translation": { limit: 0, bar: 0 },
} as const;

const kernels = readdirSync(join(root, "src/kernels/assembly")).map((name) => `src/kernels/assembly/${name}`);
const texts = new Map([...files, ...kernels].map((file) => [file, readFileSync(join(root, file), "utf8")]));

/** The parameters of a function whose list opens at `open`. */
function countParameters(text: string, open: number): number {
  let [depth, commas, isEmpty] = [0, 0, true];
  for (let i = open; i < text.length; i++) {
    const letter = text[i] ?? "";
    const isClosing = ")]}".includes(letter) || (letter === ">" && text[i - 1] !== "=");
    if ("([{<".includes(letter)) depth++;
    else if (isClosing && --depth === 0) return isEmpty ? 0 : commas + 1;
    else if (letter === "," && depth === 1 && !/^\s*\)/.test(text.slice(i + 1, i + 80))) commas++;
    else if (/\S/.test(letter)) isEmpty = false;
  }
  return 0;
}

function wideFunctions(text: string): number {
  const heads = text.matchAll(
    /(?:function\*?\s+[\w$]+|\n {2}(?:static |async |private |\*)*#?[\w$]+)(?:<[^(]{0,80}>)?\(/g,
  );
  return [...heads].filter(({ 0: head, index }) => {
    const open = index + head.length - 1;
    const end = text.slice(open).search(/\)\s*(?::[^{;]{1,120})?\{/);
    return end >= 0 && end < 900 && countParameters(text, open) >= 6;
  }).length;
}

/** The groups of files that import one another, also for types only (Tarjan's algorithm). */
function findCycles(): readonly (readonly string[])[] {
  const next = new Map<string, string[]>(files.map((file) => [file, []]));
  for (const { file, target } of imports)
    if (target.startsWith(".")) next.get(file)?.push(posix.join(posix.dirname(file), target));
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (file: string): number => {
    const own = order.size;
    order.set(file, own);
    stack.push(file);
    let low = own;
    for (const other of next.get(file) ?? []) {
      if (!next.has(other)) continue;
      if (!order.has(other)) low = Math.min(low, visit(other));
      else if (stack.includes(other)) low = Math.min(low, order.get(other) ?? low);
    }
    lowest.set(file, low);
    if (low === own) {
      const group = stack.splice(stack.indexOf(file));
      if (group.length > 1) cycles.push(group.sort());
    }
    return low;
  };
  for (const file of files) if (!order.has(file)) visit(file);
  return cycles;
}

test("the code base does not grow: no figure is above its limit", () => {
  const perFolder = new Map<string, number>();
  for (const file of texts.keys())
    perFolder.set(posix.dirname(file), (perFolder.get(posix.dirname(file)) ?? 0) + 1);
  const linesOf = (names: readonly string[]): number =>
    names.reduce((sum, name) => sum + (texts.get(name) ?? "").split("\n").length - 1, 0);
  const house = [...texts.keys()].filter((file) => LATER[layerOf(file)] === undefined);
  const ofSource = files.map((file) => texts.get(file) ?? "");
  const entries = new Set(Object.values(entryFiles()));
  const found: Record<keyof typeof LIMITS, number> = {
    lines: linesOf(house),
    files: house.length,
    "largest folder": Math.max(...perFolder.values()),
    "functions with six parameters and more": ofSource.reduce((sum, text) => sum + wideFunctions(text), 0),
    "defaults after an index": ofSource.reduce(
      (sum, text) => sum + (text.match(/\]\s*\?\?\s*[01]\b/g)?.length ?? 0),
      0,
    ),
    "imports of the command past the public entries": imports.filter(
      ({ file, from, target }) =>
        from === "cli" &&
        target.startsWith(".") &&
        posix.join(posix.dirname(file), target).startsWith("src/") &&
        !entries.has(posix.join(posix.dirname(file), target)),
    ).length,
    "cycles of imports, types counted": findCycles().length,
    "words that read like a translation": [...texts.values()].reduce(
      (sum, text) =>
        sum + (text.match(/\b(?:anew|is no [a-z]+|nobody|of before|brought right)\b/g)?.length ?? 0),
      0,
    ),
  };
  for (const [room, limit] of Object.entries(LATER))
    expect(linesOf([...texts.keys()].filter((file) => layerOf(file) === room)), room).toBeLessThanOrEqual(
      limit,
    );
  const above = Object.entries(LIMITS).filter(
    ([name, { limit, bar }]) => found[name as keyof typeof LIMITS] > Math.max(limit, bar),
  );
  expect(
    above.map(([name, { limit }]) => ({ name, limit, found: found[name as keyof typeof LIMITS] })),
  ).toEqual([]);
});

/** The source files of the package's entries, by name. */
function entryFiles(): Record<string, string> {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    exports: Record<string, string | { default: string }>;
  };
  return Object.fromEntries(
    Object.entries(exports).flatMap(([name, value]) =>
      typeof value === "string"
        ? []
        : [[name, value.default.replace(/^\.\/dist\//, "").replace(/\.js$/, ".ts")]],
    ),
  );
}

/** Values that the four entries export, by name. Lower it whenever one is removed; the goal is 65. */
const EXPORTED_VALUES = 65;

/** Added after that limit: plans that many processes share, and chunks of Blosc2. */
const LATER_NAMES: readonly string[] = [
  "changedSources",
  "plan",
  "runTasks",
  "finish",
  "planStatus",
  "isTableFile",
  "openTableFile",
  "toBlosc1",
  "toBlosc2",
  "toParquet",
  "createPool",
  "verifyInThread",
  "placeOpener",
];

test("the entry points export no more values than before", async () => {
  const entries = await Promise.all([
    import("../src/index.ts"),
    import("../src/node/index.ts"),
    import("../src/zarr.ts"),
    import("../src/blosc.ts"),
  ]);
  const names = [...new Set(entries.flatMap((entry) => Object.keys(entry)))];
  expect(names.filter((name) => !LATER_NAMES.includes(name)).length).toBeLessThanOrEqual(EXPORTED_VALUES);
});
