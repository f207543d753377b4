/** The layers import downwards only, and the core knows neither Node.js nor the layers beside it. */
import { readdirSync, readFileSync } from "node:fs";
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
  ["values"],
  ["archive"],
  ["write", "zarr"],
  ["edit", "open", "convert", "view", "dual", "references"],
  ["entry", "node"],
  ["cli"],
];

/** Layers of one level that know one another; all others do not. */
const NEIGHBOURS = ["edit", "open", "convert", "view", "dual", "references"];

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
    .filter((name) => name.endsWith(".ts") && !name.includes("/assembly/") && !name.includes("/generated/"));
}

function layerOf(file: string): string {
  const [top = "", second = "", ...rest] = file.split("/");
  if (top === "cli") return "cli";
  if (second === "errors.ts") return "errors";
  return rest.length === 0 ? "entry" : second;
}

const files = [...sources("src"), ...sources("cli")];

const imports: Import[] = files.flatMap((file) => {
  // Examples in doc comments import nothing.
  const text = readFileSync(join(root, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  const found = text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g);
  return [...found].map(([, target = ""]) => ({ file, from: layerOf(file), target }));
});

test("the gate sees the code", () => {
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
    ({ from, target }) => target.startsWith("node:") && from !== "node" && from !== "cli",
  );
  expect(wrong).toEqual([]);
});

test("only the command imports what only the command needs", () => {
  const packages = imports.filter(({ target }) => !target.startsWith(".") && !target.startsWith("node:"));
  const ofCore = new Set(
    packages.filter(({ from }) => from !== "cli" && from !== "node").map(({ target }) => target),
  );
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  expect([...ofCore].every((name) => name in manifest.dependencies)).toBe(true);
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

test("no file is longer than 500 lines", () => {
  const long = files.filter((file) => readFileSync(join(root, file), "utf8").split("\n").length > 500);
  expect(long).toEqual([]);
});
