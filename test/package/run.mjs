/**
 * Tests the package as its users use it: `npm run test:package`.
 *
 * Packs what `npm run package` made, inspects it, installs it in an empty folder, and uses it there with each
 * runtime, bundler and TypeScript that it claims to support. Values are compared with the hashes of the fixtures.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { build } from "esbuild";
import { installTools, toolsFolder } from "../../scripts/tools/install.mjs";
import { findNode } from "../../scripts/tools/node-binary.mjs";
import { load as loadProgram } from "../browser/bundle.mjs";
import { weighPages } from "./weigh.mjs";

/** Maximum published size. */
const MOST_FILES = 155;
const MOST_BYTES = 3_080_000;

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..", "..");
const archives = join(root, "fixtures", "corpus");
const { archives: listed } = JSON.parse(readFileSync(join(archives, "manifest.json"), "utf8"));
const fixture = (path) => listed.find((entry) => entry.path === path);
const table = fixture("ctable/bcolz-daily-equities");
const truth = Object.fromEntries(Object.entries(table.columns).map(([name, { sha256 }]) => [name, sha256]));
const floats = fixture("bloscpack-3/array-f8.blp").sha256;

const folder = mkdtempSync(join(tmpdir(), "superchunk-package-"));
const failures = [];
let passed = 0;

async function check(name, work) {
  try {
    await work();
    passed++;
    console.log(`  passed  ${name}`);
  } catch (error) {
    failures.push(name);
    console.log(`  FAILED  ${name}\n${error instanceof Error ? error.message : error}`);
  }
}

function equal(found, expected, what) {
  if (!isDeepStrictEqual(found, expected))
    throw new Error(`${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
}

/** Without the long lines of code that runtimes print next to an error. */
function shorten(text) {
  const lines = text.split("\n").map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line));
  return lines.slice(0, 40).join("\n");
}

/** Runs a program in the user's folder; returns its output. */
function run(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    shell: process.platform === "win32",
    ...options,
  });
  if (error !== undefined) throw error;
  if (status !== 0)
    throw new Error(`${program} ${args.join(" ")}: ended with ${status}\n${shorten(stdout + stderr)}`);
  return stdout;
}

const npm = (args, options) => run("npm", [...args, "--loglevel=error", "--no-audit", "--no-fund"], options);
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

const [packed] = JSON.parse(npm(["pack", root, "--ignore-scripts", "--json", "--pack-destination", folder]));
const names = packed.files.map(({ path }) => path);

await check(`at most ${MOST_FILES} files and ${MOST_BYTES / 1e6} MB`, () => {
  console.log(`          ${names.length} files, ${(packed.unpackedSize / 1e6).toFixed(2)} MB unpacked`);
  if (names.length > MOST_FILES) throw new Error(`${names.length} files`);
  if (packed.unpackedSize > MOST_BYTES) throw new Error(`${packed.unpackedSize} bytes`);
});

await check("no tests, sources of tests, build information or maps", () => {
  equal(
    names.filter((name) => /test|tsbuildinfo|\.map$|fixtures|bench|build/.test(name)),
    [],
    "files",
  );
});

await check("every file that a document links to is there", () => {
  // The first page of the API reference says that the others are in the repository.
  const documents = names.filter((name) => name.endsWith(".md") && name !== "docs/api/README.md");
  const missing = documents.flatMap((name) => {
    const text = readFileSync(join(root, name), "utf8").replaceAll(/```.*?```/gs, "");
    return [...text.matchAll(/\]\(([^)#\s]+)/g)]
      .filter(([, target]) => !/^[a-z]+:/.test(target))
      .map(([, target]) => posix.join(posix.dirname(name), target))
      .filter((target) => !names.includes(target) && !names.some((each) => each.startsWith(`${target}/`)))
      .map((target) => `${name}: ${target}`);
  });
  equal(missing, [], "links");
});

writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
npm(["install", join(folder, packed.filename)]);
if (!existsSync(join(here, "node_modules", ".package-lock.json")))
  npm(["install", "--ignore-scripts", "--no-package-lock"], { cwd: here, stdio: "inherit" });
installTools();
for (const name of ["use.mjs", "page.mjs", "strict.mts", "workers.mjs"])
  cpSync(join(here, name), join(folder, name));

const checkUse = (text) => {
  const found = JSON.parse(text);
  equal(found.columns, truth, "columns");
  equal(
    [found.floats, found.carried, found.chunk, found.pooled],
    [floats, floats, floats, floats],
    "array, its conversion, its chunk, by a pool",
  );
  equal(found.isMissing, true, "a package that is not installed is looked for by its name");
};

await check("the command says its version, and reads a table", () => {
  const bin = join(folder, "node_modules", ".bin", "superchunk");
  equal(run(bin, ["--version"]).trim(), packed.version, "version");
  const cat = ["cat", join(archives, table.path), "--column", "close", "--slice", "0:4", "--format", "json"];
  const text = run(bin, cat);
  for (const value of table.columns.close.head)
    if (!text.includes(String(value))) throw new Error(`no ${value} in ${text}`);
});

for (const version of ["20.15.0", "22", "24"])
  await check(`Node.js ${version}`, () => checkUse(run(findNode(version), ["use.mjs", archives])));

const platform = `${process.platform}-${process.arch}`;
const deno = join(
  here,
  "node_modules",
  "@deno",
  platform === "linux-x64" ? "linux-x64-glibc" : platform,
  "deno",
);
const bun = join(here, "node_modules", "@oven", `bun-${platform}`, "bin", "bun");
await check("Deno", () => checkUse(run(deno, ["run", "--allow-all", "use.mjs", archives])));
await check("Bun", () => checkUse(run(bun, ["use.mjs", archives])));

/** The files of the table, as a page has them. */
const files = Object.fromEntries(
  readdirSync(join(archives, table.path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => [
      `table${path.slice(join(archives, table.path).length)}`.replaceAll("\\", "/"),
      readFileSync(path),
    ]),
);

/** The hashes that a bundle of `page.mjs` computes for the table. */
async function checkPage(bundle) {
  const { readTable } = await import(pathToFileURL(bundle).href);
  const { columns, view } = await readTable(files);
  const found = Object.fromEntries(Object.entries(columns).map(([name, bytes]) => [name, sha256(bytes)]));
  equal(found, truth, "columns");
  equal(view, "function", "zarrView");
}

/** A bundler writes a separate file for the workers of a pool. */
function checkWorker(outDir) {
  const texts = readdirSync(outDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
  equal(texts.filter((text) => text.includes("blosc-worker is started as a worker")).length, 1, "workers");
}

const tool = createRequire(join(here, "package.json"));
const page = join(folder, "page.mjs");

await check("esbuild", async () => {
  const outfile = join(folder, "esbuild", "page.mjs");
  const { warnings } = await build({
    entryPoints: [page],
    outfile,
    bundle: true,
    format: "esm",
    platform: "browser",
    logLevel: "error",
  });
  equal(warnings.map(({ text }) => text).join("\n"), "", "warnings");
  await checkPage(outfile);
});

await check("Vite", async () => {
  const vite = await import(pathToFileURL(tool.resolve("vite")).href);
  const outDir = join(folder, "vite");
  await vite.build({
    root: folder,
    configFile: false,
    logLevel: "error",
    build: { outDir, lib: { entry: page, formats: ["es"], fileName: () => "page.mjs" } },
  });
  await checkPage(join(outDir, "page.mjs"));
  checkWorker(outDir);
});

/**
 * The most that a page loads, compressed, in kB: as Vite builds it, and with the files of the package as they are.
 * README has the former.
 */
const MOST = {
  decode: { built: 20.5, plain: 42.9 },
  "a .blp": { built: 61.0, plain: 65.5 },
  "a table": { built: 70.0, plain: 74.3 },
  zarrView: { built: 50.0, plain: 106.2 },
};

await check("what pages load", async () => {
  const vite = await import(pathToFileURL(tool.resolve("vite")).href);
  const work = join(folder, "weights");
  const dist = join(folder, "node_modules", "superchunk", "dist");
  const weights = await weighPages({ vite, work, dist, archives });
  const shown = Object.entries(weights).map(
    ([name, { built, plain }]) => `${name} ${built.toFixed(1)} (${plain.toFixed(1)})`,
  );
  console.log(`          ${shown.join(", ")} kB`);
  for (const [name, most] of Object.entries(MOST))
    for (const [way, limit] of Object.entries(most))
      if (weights[name][way] > limit)
        throw new Error(`${name}, ${way}: ${weights[name][way]} kB, not ${limit}`);
});

await check(
  "what Chromium loads of the page, of archives alone and of a folder of several formats",
  async () => {
    const { checkPacked } = await loadProgram("packed");
    const wrong = await checkPacked(
      await import(pathToFileURL(join(folder, "node_modules/superchunk/dist/src/node/index.js")).href),
    );
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  },
);

await check("server rendering, as Vite builds it: the same module in Node.js as in the page", async () => {
  const vite = await import(pathToFileURL(tool.resolve("vite")).href);
  const outDir = join(folder, "vite-ssr");
  await vite.build({
    root: folder,
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true },
    build: { outDir, ssr: page, rollupOptions: { output: { entryFileNames: "page.mjs" } } },
  });
  await checkPage(join(outDir, "page.mjs"));
});

await check("webpack", async () => {
  const webpack = tool("webpack");
  const path = join(folder, "webpack");
  await new Promise((resolve, reject) => {
    const compiler = webpack({
      mode: "production",
      target: ["web", "es2022"],
      context: folder,
      entry: page,
      experiments: { outputModule: true },
      output: { path, filename: "page.mjs", chunkFilename: "[id].mjs", library: { type: "module" } },
    });
    compiler.run((error, stats) => {
      if (error) reject(error);
      else if (stats.hasErrors()) reject(new Error(stats.toString({ all: false, errors: true })));
      else resolve();
    });
  });
  await checkPage(join(path, "page.mjs"));
  checkWorker(path);
});

await check("esbuild, for Node.js, where no optional package is installed", async () => {
  const outfile = join(folder, "esbuild", "node.mjs");
  const contents = `
    import { createHash } from "node:crypto";
    import { openTable } from "superchunk/node";
    const table = await openTable(process.argv[2], { threads: 0 });
    const columns = {};
    for (const name of table.names) {
      const { buffer, byteOffset, byteLength } = (await table.column(name).get()).data;
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      columns[name] = createHash("sha256").update(bytes).digest("hex");
    }
    await table.close();
    console.log(JSON.stringify(columns));`;
  const banner =
    'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
  await build({
    stdin: { contents, resolveDir: folder },
    banner: { js: banner },
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  equal(JSON.parse(run(process.execPath, [outfile, join(archives, table.path)])), truth, "columns");
});

await check("Cloudflare's Workers, which compile no WebAssembly", async () => {
  const outdir = join(folder, "workers");
  await build({
    entryPoints: [join(folder, "workers.mjs")],
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    // As wrangler has them.
    conditions: ["workerd", "worker", "browser"],
    loader: { ".wasm": "copy" },
    assetNames: "[name]",
    logLevel: "error",
  });
  const { Miniflare } = tool("miniflare");
  const modules = readdirSync(outdir).map((name) => ({
    type: name.endsWith(".wasm") ? "CompiledWasm" : "ESModule",
    path: join(outdir, name),
  }));
  const server = new Miniflare({
    modulesRoot: outdir,
    modules: modules.sort((a, b) => (a.type < b.type ? 1 : -1)), // the program first
    compatibilityDate: "2026-01-01",
    compatibilityFlags: ["nodejs_compat"],
  });
  try {
    const data = Uint8Array.from({ length: 300_001 }, (_, i) => Math.imul(i, i) >>> 9);
    const { encode } = await import(
      pathToFileURL(join(folder, "node_modules/superchunk/dist/src/blosc.js")).href
    );
    const zstd = await encode(data, { cname: "zstd", typesize: 4 });
    const { FormData } = tool("miniflare");
    const body = new FormData();
    body.set("data", new Blob([data]));
    body.set("zstd", new Blob([zstd]));
    const answer = await server.dispatchFetch("http://workers/", { method: "POST", body });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    const chunks = {};
    for (const cname of ["blosclz", "lz4", "lz4hc", "snappy", "zlib"])
      chunks[cname] = sha256(await encode(data, { cname, typesize: 4 }));
    const refused = ["UNSUPPORTED", "zstd"];
    equal(JSON.parse(text), { compiles: false, chunks, zstd: true, refused }, "chunks");
  } finally {
    await server.dispose();
  }
});

const compilers = {
  5.4: join(toolsFolder, "node_modules", "typescript-5.4", "bin", "tsc"),
  6: join(toolsFolder, "node_modules", "typescript", "bin", "tsc"),
  7: join(root, "node_modules", "typescript", "bin", "tsc"),
};
mkdirSync(join(folder, "node_modules", "@types"), { recursive: true });
cpSync(join(here, "node_modules", "@types", "node"), join(folder, "node_modules", "@types", "node"), {
  recursive: true,
});
cpSync(join(here, "node_modules", "undici-types"), join(folder, "node_modules", "undici-types"), {
  recursive: true,
});
const forPage = ["superchunk", "superchunk/blosc", "superchunk/blosc/wasm", "superchunk/zarr"];
writeFileSync(join(folder, "page.mts"), forPage.map((entry) => `import "${entry}";\n`).join(""));
for (const [version, compiler] of Object.entries(compilers))
  for (const module of ["nodenext", "esnext"])
    await check(`TypeScript ${version}, strict, module ${module}, types of packages checked`, () => {
      const resolution = module === "nodenext" ? "nodenext" : "bundler";
      const options = {
        ...{ strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true },
        ...{ target: "es2022", module, moduleResolution: resolution },
        lib: ["es2022", "dom"],
      };
      // The types of Node.js are installed, but a page does not include them.
      for (const [file, types] of [
        ["strict.mts", ["node"]],
        ["page.mts", []],
      ]) {
        const project = JSON.stringify({ compilerOptions: { ...options, types }, files: [file] });
        writeFileSync(join(folder, "tsconfig.json"), project);
        run(process.execPath, [compiler, "-p", "."]);
      }
    });

rmSync(folder, { recursive: true, force: true });
console.log(`\npackage: ${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
