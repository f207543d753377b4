/** The layers import downwards only, and the core knows neither Node.js nor the layers beside it. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** What each layer may import besides itself. */
const MAY_IMPORT: { readonly [layer: string]: readonly string[] } = {
  errors: [],
  bytes: ["errors"],
  kernels: [],
  format: ["bytes", "errors"],
  codec: ["kernels", "errors"],
  store: ["bytes", "errors"],
  array: ["format", "codec", "store", "bytes", "errors"],
  zarr: ["array", "format", "codec", "store", "bytes", "errors"],
  bridge: ["zarr", "array", "format", "codec", "store", "bytes", "errors"],
  index: ["array", "format", "store", "errors"],
  // Implements the contracts of stores and codecs, and joins them with arrays and the bridge for paths.
  node: ["bridge", "zarr", "array", "format", "codec", "store", "bytes", "errors"],
  cli: ["node", "index", "bridge", "zarr", "array", "format", "codec", "store", "bytes", "errors"],
};

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
  const [top = "", second = ""] = file.split("/");
  return top === "cli" ? "cli" : second.replace(/\.ts$/, "");
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
  expect(new Set(files.map(layerOf))).toEqual(
    new Set(Object.keys(MAY_IMPORT).filter((layer) => files.some((file) => layerOf(file) === layer))),
  );
});

test("imports go down only", () => {
  const wrong = imports
    .filter(({ target }) => target.startsWith("."))
    .map(({ file, from, target }) => ({ file, from, to: layerOf(posix.join(posix.dirname(file), target)) }))
    .filter(({ from, to }) => from !== to && !(MAY_IMPORT[from] ?? []).includes(to));
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
