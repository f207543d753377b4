/**
 * Makes the published code in `dist` from the compiler's output in `build`: `npm run package`, which `npm pack` and `npm
 * publish` run by themselves. Does nothing if neither its inputs nor `dist` have changed since the last run, unless `--always` is given.
 *
 * One file for each entry and each command, with shared code in chunks, so that the command starts quickly and a page loads
 * few files; one file of types for each entry. An entry has the same path in `dist` as its source in the project.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { minify } from "terser";
import { pageHtml } from "./build-page.mjs";
import { buildPoolWorker } from "./build-pool-worker.mjs";
import { packageDigest } from "./package-digest.mjs";
import { installTools, toolsFolder } from "./tools/install.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = join(root, "dist");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Paths of the public entries in `dist` and `build`, without the extension, from `package.json`. */
const ENTRIES = Object.values(manifest.exports)
  .filter((entry) => typeof entry !== "string")
  .map((entry) => entry.default.replace("./dist/", "").replace(/\.js$/, ""));

/** Packages that are bundled, so that a page may load the files without a bundler. */
const BUNDLED = [
  "@uwdata/flechette",
  "fflate",
  "hash-wasm",
  "hyparquet",
  "hyparquet-writer",
  "pako",
  "papaparse",
  "uplot",
];

function isBundled(module) {
  return BUNDLED.some((name) => module === name || module.startsWith(`${name}/`));
}

/** What a page that shows Zarr arrays loads. */
const ZARR = ["zarr/read/open", "open/find-readables", "zarr/document/zarr-dtype", "zarr/document/make-v3"];

/**
 * The parts that pages load, and after them those for writing: the name of each part, and modules in `src`. A part contains everything
 * that these modules load before they run, unless an earlier part contains it; of several lists, what all of them need. A page that
 * decodes chunks loads the first two parts. One that opens a file also loads `values` and `read`, `archives` unless it holds nodes of
 * Zarr, HDF5 or Blosc2, and `more` if the page loads the package's files unbundled. `nodes` is what views and Zarr arrays share.
 */
const PARTS = [
  ["decode", ["codec/decode/decode"]],
  ["fields", ["codec2/fields"]],
  ["values", ["open/open", "store/http"], ["view/view-tree"]],
  ["read", ["open/open", "store/http"], [...ZARR, "blosc2/open", "hdf5/zarr-view", "page/worker"]],
  ["archives", ["open/open", "store/http"]],
  ["layout", ["format/layout"]],
  ["verify", ["archive/kinds/verify"]],
  ["memory", ["store/memory"]],
  ["more", ["index"]],
  ["folders", ["archive/open/open-array-folder"]],
  ["wrappers", ["store/wrappers/coalescing"]],
  ["inflate", ["format/inflate"]],
  ["stream", ["codec/stream", "codec/made"]],
  ["nodes", ["view/view-tree"], ZARR],
  ["zarr", ZARR],
  // On demand: documents of Zarr v2, and lists of chunks, and then verification.
  ["zarr-v2", ["zarr/document/metadata-v2"]],
  ["stored-chunks", ["zarr/read/stored-chunks"]],
  ["zarr-verify", ["zarr/read/verify"]],
  ["view", ["view/view-tree"]],
  ["encode", ["codec2/index"]],
  ["blosc2-chunks", ["codec2/decode", "codec2/restream"]],
  ["pool", ["blosc"]],
  ["blosc2", ["blosc2/open"]],
  ["hdf5", ["hdf5/zarr-view"]],
  // On demand: the check of options that few calls have.
  ["options", ["bytes/check-options"]],
  // On demand: rows as they are appended, and why nothing opens at a path.
  ["live", ["archive/kinds/live-array", "open/follow", "archive/open/no-archive"]],
  ["zarrita", ["zarr/zarrita", "zarr/transformer"]],
  ["write", ["edit/edit", "scan/write-index"]],
  ["convert", ["convert/run/convert", "convert/run/repair"]],
  ["references", ["references/kerchunk/open-references", "references/plan/plan"]],
];

/** The code that chooses between decoders and encoders is separate, so that bundlers leave out the encoders that a page does not call. */
const CHOOSES = /[\\/]build[\\/]src[\\/]codec2[\\/]index\.js$/;

/**
 * Scripts of the page: what its parts share, its tables and maps, what reads chunks and numbers for them, and three that few visits
 * need, which rollup would join with what all of them load. None imports the worker's start file: its address has the page's query,
 * so that it would run twice.
 */
const OF_PAGE = [
  [
    "page-parts",
    /\/src\/page\/(?:calls|dom|text|colours|state|engine\/protocol|views\/(?:view|statistics))\.js$/,
  ],
  ["page-views", /\/src\/page\/(?:virtual-table|views\/(?:values|picture|chunk[\w-]*))\.js$/],
  ["page-engine", /\/src\/page\/engine\/(?:cells|engine|read-ahead|rows|sources)\.js$/],
  ["page-numbers", /\/src\/page\/engine\/numbers\.js$/],
  ["page-list", /\/src\/page\/engine\/chunk-list\.js$/],
  ["page-address", /\/src\/page\/engine\/address\.js$/],
  ["page-drawing", /\/src\/page\/views\/plot-drawing\.js$/],
  ["page-welcome", /\/src\/page\/views\/welcome\.js$/],
];

/** Types that no user gets an instance of: members of classes have them. */
const INTERNAL = [
  ...[
    "ColumnLayout",
    "EncodedPlace",
    "FetchedChunk",
    "Handle",
    "KnownShard",
    "PlacedArray",
    "Segment",
    "SourceFacts",
  ],
  ...["StoredChunk", "SuperchunkForm"],
  ...["ArrayRoot", "ArrayWriter", "ChunkMaker", "ChunkReading", "ChunkSource", "ColumnChunks", "Durability"],
  ...["FolderReader", "Folders", "Handles", "InPlaceChanges", "OperationLine", "PlacedStore", "RowBuffer"],
  ...["ShardCache", "SuperchunkFiles", "UnequalCells"],
  ...["ArrayJob", "ArrayMirror", "CellGrid", "ChunkEncoder", "JobLayout", "MirrorMaker", "Reservation"],
  ...["ShardGrid", "Stage"],
].join("|");

const HEADING = `# Licences of what is in these files

They hold these packages. THIRD_PARTY_NOTICES.md has the terms of the WebAssembly build of zstd.`;

/** How files become smaller: 2 to 3 % less to load, compressed, than esbuild's, which is what a page of 150 kB needs. */
const SMALLER = { module: true, ecma: 2022, compress: { passes: 2 }, format: { comments: false } };

/** True for modules that are not bundled. */
const isExternal = (id) => !/^[./\0]|^[A-Z]:/.test(id) && !isBundled(id);

/**
 * The entry `superchunk/blosc` for hosts that cannot compile WebAssembly (Cloudflare's Workers): passes in kernel modules that the
 * host has compiled, and has the same exports as the entry.
 */
const WORKERD = `import decode from "../decode.wasm";
import encode from "../encode.wasm";
import * as kernels from "./pool/use-modules.js";
kernels.useModules({ decode, encode });
export * from "./blosc.js";
`;

/** As in "sideEffects" of package.json. Modules that a page cannot load count as effects, so that they stay in separate files. */
const treeshake = { moduleSideEffects: (id) => /^(node:|commander$)/.test(id) };

/** True for a module that only re-exports: its importers load only what they use. */
const isBarrel = (id) => /\/build\/src\/(?:(?:codec|node|queue)\/)?(?:index|zarr|blosc)\.js$/.test(id);

/** True for a module with a single, default export. */
const hasDefault = (id) => id.endsWith(".umd.min.js") || id === "\0papaparse";

/** Published as its authors minified it, which is smaller than what esbuild makes of it. */
const UPLOT = "\0uplot";

/** Digests of hash-wasm that the same code makes: one file for both. */
const PAIRS = [
  ["SHA224", "SHA256"],
  ["SHA384", "SHA512"],
];
const nameOfPair = (pair) => `hash-wasm/${pair.join("-").toLowerCase()}`;

/** Makes one module of the used exports of a dependency. */
const dependencies = {
  name: "dependencies",
  resolveId(module) {
    if (!isBundled(module)) return null;
    const [, digest = ""] = /^hash-wasm\/dist\/(sha\d+)\./.exec(module) ?? [];
    const pair = PAIRS.find((names) => names.includes(digest.toUpperCase()));
    return `\0${pair === undefined ? module : nameOfPair(pair)}`;
  },
  async load(id) {
    if (!id.startsWith("\0") || !isBundled(id.slice(1))) return null;
    if (id === UPLOT) {
      const code = readFileSync(join(root, "node_modules", "uplot", "dist", "uPlot.iife.min.js"), "utf8");
      return { code: `${code}\nexport default uPlot;`, moduleSideEffects: false };
    }
    const module = JSON.stringify(id.slice(1));
    const pair = PAIRS.find((names) => id === `\0${nameOfPair(names)}`);
    const makers = pair?.map((name) => `create${name}`).join(", ");
    const { outputFiles } = await build({
      stdin: {
        contents:
          makers === undefined
            ? `export ${hasDefault(id) ? "{ default }" : "*"} from ${module};`
            : `import { ${makers} } from "hash-wasm"; export default { ${makers} };`,
        resolveDir: root,
      },
      bundle: true,
      format: "esm",
      platform: "browser",
      external: BUNDLED.filter((name) => !module.includes(`"${name}`)),
      write: false,
    });
    return { code: outputFiles[0].text, moduleSideEffects: false };
  },
};

installTools();
/** The digest of the inputs and of `dist`, as the last run left them. */
const record = join(root, ".cache", "package.sha256");
if (
  !process.argv.includes("--always") &&
  existsSync(record) &&
  readFileSync(record, "utf8") === packageDigest(root)
) {
  console.log("package: dist/ is up to date");
  process.exit();
}
rmSync(record, { force: true });
const require = createRequire(join(toolsFolder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const [{ rollup }, { dts }] = await Promise.all([load("rollup"), load("rollup-plugin-dts")]);

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await bundleCode();
writeFileSync(join(out, "page.html"), await pageHtml());
for (const name of ["decode.wasm", "encode.wasm"])
  cpSync(join(root, "src", "kernels", "generated", name), join(out, name));
await buildPoolWorker(join(out, "blosc-worker.js"));
writeFileSync(join(out, "src", "blosc.workerd.js"), WORKERD);
await bundleTypes();
const { manPage } = await import("./tools/man-page.mjs");
writeFileSync(join(out, "superchunk.1.gz"), gzipSync(await manPage(manifest.version), { level: 9 }));
writeFileSync(join(out, "LICENSES.md"), licences());
const files = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
console.log(`package: ${files.length} files in dist/`);
mkdirSync(dirname(record), { recursive: true });
writeFileSync(record, packageDigest(root));

async function bundleCode() {
  const built = (path) => join(root, "build", path);
  const bundle = await rollup({
    input: {
      ...Object.fromEntries([...ENTRIES, "cli/main"].map((path) => [path, built(`${path}.js`)])),
      // Threads are started from these files, which must be beside the chunk that starts them.
      "chunk-worker": built("src/node/threads/chunk-worker.js"),
      "head-worker": built("src/node/fs/head-worker.js"),
      "convert-worker": built("src/node/threads/convert-worker.js"),
      // The page that `serve` shows, and its worker. They use the same chunks as any page that uses the library.
      page: built("src/page/main.js"),
      "page-worker": built("src/page/worker.js"),
    },
    external: isExternal,
    plugins: [dependencies],
    treeshake,
    onwarn: (warning) => {
      // TypeScript's helper for `using` asks for a module's `this`, and works without it.
      if (warning.code !== "THIS_IS_UNDEFINED") console.warn(warning.message);
    },
  });
  const first = await modulesOfFirst(
    ["run", "commands/info", "commands/cat"].map((name) => built(`cli/${name}.js`)),
  );
  const parts = [];
  // Several parts have the same lists.
  const found = new Map();
  for (const [name, ...lists] of PARTS) {
    const needed = await Promise.all(
      lists.map((list) => {
        const key = list.join();
        if (!found.has(key)) found.set(key, modulesOfFirst(list.map((module) => built(`src/${module}.js`))));
        return found.get(key);
      }),
    );
    parts.push({ name, has: (id) => needed.every((modules) => modules.has(id)) });
  }
  const { output } = await bundle.generate({
    format: "es",
    // Short and lower case, because a page loads these names many times and does not compress them.
    chunkFileNames: "[name]-[hash:7].js",
    hashCharacters: "base36",
    // Few files for Node.js, because each takes time at the start of a command, and none of them contains what a page loads.
    // Code that every reading command needs is separate, without the writers and converters; and so is what the page needs of
    // that.
    onlyExplicitManualChunks: true,
    // Each file imports only what it uses itself, not what its imports use.
    hoistTransitiveImports: false,
    // Smaller chunks are merged into those that are loaded with them.
    experimentalMinChunkSize: 4000,
    manualChunks: (id) => {
      // Small files that are loaded for the same work.
      if (/\/commands\/(?:de)?compress\.js$/.test(id)) return "compress";
      if (/\/(?:arrow|parquet|table)-compare\.js$/.test(id)) return "compare";
      if (/\/commands\/(?:beside|place)\.js$/.test(id)) return "beside";
      if (/\/commands\/(?:chunks|info|ls)\.js$/.test(id)) return "lists";
      if (/\/commands\/(?:attrs|columns|compact|rows|set)\.js$/.test(id)) return "changes";
      if (/\/blosc2\/(?:stores|tables|zip)\.js$/.test(id)) return "blosc2-stores";
      if (/\/blosc2\/(?:hdf5-chunk|text-rows)\.js$/.test(id)) return "blosc2-made";
      if (id.endsWith("/blosc2/rows.js")) return "blosc2-rows";
      // What a store can do, in four lines, which most other files ask.
      if (id.endsWith("/src/store/types.js")) return "values";
      if (id === UPLOT) return "uplot";
      if (/\/commands\/|\/(?:cli\/(?:main|version)|node\/index|[a-z]+-worker)\.js$/.test(id)) return;
      const isCommand = id.includes("/build/cli/");
      const isSystem = id.includes("/build/src/node/");
      if (CHOOSES.test(id)) return "chunks";
      // Otherwise rollup joins it with the pool, whose code classic scripts cannot have.
      if (id.endsWith("/codec2/zstd-dictionary.js")) return "dictionary";
      const ofPage = OF_PAGE.find(([, names]) => names.test(id));
      if (ofPage !== undefined) return ofPage[0];
      const part = isSystem || isCommand ? undefined : parts.find(({ has }) => has(id));
      if (part !== undefined) return part.name;
      if (first.has(id) && !isSystem && !isCommand) return "formats";
      if (first.has(id)) return "start";
      if (isCommand) return "command";
      return isSystem ? "system" : undefined;
    },
  });
  for (const { fileName, code } of output) {
    // rollup imports some files without using them. They have no effects, and bundlers warn about such imports.
    // TypeScript renames files in imports of a variable, of which ours are names of packages; terser prints that as two arguments.
    const used = code
      .replaceAll(/^import '\.{1,2}\/[^']+';\n/gm, "")
      .replaceAll(/\bimport\(__rewriteRelativeImportExtension\((\w+)\)\)/g, "import($1)");
    const small = fileName.startsWith("uplot-") ? used : (await minify(used, SMALLER)).code;
    const file = join(out, fileName);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, small);
  }
}

/** The modules that files load before they run: their imports, recursively, but not those on demand. */
async function modulesOfFirst(input) {
  const bundle = await rollup({
    input,
    external: isExternal,
    plugins: [dependencies],
    treeshake,
    onwarn: () => {},
  });
  let imported;
  const manualChunks = (_, { getModuleInfo }) => {
    imported ??= (id) => getModuleInfo(id)?.importedIds ?? [];
  };
  const { output } = await bundle.generate({ format: "es", manualChunks });
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]));
  const modules = new Set();
  const add = (id) => {
    if (modules.has(id) || isBarrel(id) || isExternal(id)) return;
    modules.add(id);
    for (const each of imported(id)) add(each);
  };
  const reached = new Set();
  const reach = (name) => {
    const chunk = chunks.get(name);
    if (chunk === undefined || reached.has(chunk)) return;
    reached.add(chunk);
    for (const id of Object.keys(chunk.modules)) add(id);
    for (const each of chunk.imports) reach(each);
  };
  for (const { fileName, isEntry } of output) if (isEntry) reach(fileName);
  return modules;
}

async function bundleTypes() {
  const input = Object.fromEntries(ENTRIES.map((path) => [path, join(root, "build", `${path}.d.ts`)]));
  const inputs = new Set(Object.values(input));
  const quiet = (warning) => {
    // Types that an entry uses but does not export are in the shared files.
    if (!warning.message.includes("private shared type")) console.warn(warning.message);
  };
  const bundle = await rollup({ input, plugins: [dts()], external: [/^node:/], onwarn: quiet });
  const { output } = await bundle.generate({
    format: "es",
    entryFileNames: "[name].d.ts",
    chunkFileNames: "types-[hash].d.ts",
    manualChunks: (id) => (inputs.has(id) ? undefined : "types"),
  });
  // Before TypeScript 5.7, types of byte arrays did not name their memory. The result type of `of` is right for both. Projects need
  // not list the types of `await using` in their `lib`.
  for (const { fileName, code, isEntry } of output)
    writeFileSync(
      join(out, fileName),
      `${isEntry ? "" : '/// <reference lib="esnext.disposable" />\n'}${code}`
        .replaceAll("Uint8Array<ArrayBuffer>", "ReturnType<typeof Uint8Array.of>")
        .replaceAll("Uint8Array<ArrayBufferLike>", "Uint8Array")
        // The header comments of source files mean nothing here: 16 kB. Tabs instead of spaces: 10 kB.
        .replaceAll(/^\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n+(?=\/\*\*)/gm, "")
        .replaceAll(/^(?: {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4))
        // A paragraph of a comment on one line, which editors wrap: 2 kB.
        .replaceAll(/(\/\*\*|[^\s*])\n\t* \* (?![-@\s])/g, "$1 ")
        .replaceAll(/\n\t* \*\//g, " */")
        // Comments in types of which nobody gets an instance: 19 kB.
        .replaceAll(
          new RegExp(`^(?:declare class|interface) (?:${INTERNAL}) [\\s\\S]*?^\\}$`, "gm"),
          (text) => text.replaceAll(/\t\/\*\*[\s\S]*?\*\/\n/g, ""),
        ),
    );
}

/** The licences of the bundled packages. The MIT terms appear once, after all copyrights. */
function licences() {
  let terms = "";
  const others = BUNDLED.map((name) => {
    const folder = join(root, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = readFileSync(join(folder, file), "utf8").trim();
    const [mit] = /Permission is hereby granted[\s\S]*?IN THE\s+SOFTWARE\./i.exec(text) ?? [];
    terms ||= mit ?? "";
    const isSame = mit !== undefined && words(mit) === words(terms);
    return `## ${name} ${version}\n\n${isSame ? text.replace(mit, "The terms are those of the MIT licence, at the end.") : text}`;
  });
  return `${[HEADING, ...others, `## The terms of the MIT licence\n\n${terms}`].join("\n\n")}\n`;
}

function words(text) {
  return text.replaceAll(/\W+/g, " ").toLowerCase();
}
