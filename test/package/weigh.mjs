/** What a page loads of the package until it has its first value: minified and compressed, in kB. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

/** How each file reports that it was loaded. */
const BANNER = "(globalThis.pieces??=[]).push(import.meta.url);";

const OPEN = (url) => `import { HttpStore, open } from "${url("index")}";
const store = new HttpStore("http://archives/", { fetch: globalThis.answer });`;

/** The pages, by what they do; `url` names an entry of the package. */
const PAGES = {
  decode: (url) =>
    `import { decode } from "${url("blosc")}"; await decode(new Uint8Array(0)).catch(() => {});`,
  "a .blp": (url) =>
    `${OPEN(url)} const a = await open(store, "bloscpack-3/sum-adler32.blp"); for await (const _ of a.streamBytes()) break;`,
  "a table": (url) =>
    `${OPEN(url)} const t = await open(store, "ctable/bcolz-daily-equities"); await t.column("close").get([0]);`,
  zarrView: (url) => `import { zarrView } from "${url("zarr")}"; globalThis.view = zarrView;`,
};

/** Answers requests for the files of `archives`, like a server that supports ranges. */
export function answerFrom(archives) {
  return async (url, { method = "GET", headers = {} } = {}) => {
    const file = join(archives, new URL(url).pathname);
    if (!existsSync(file)) return new Response(null, { status: 404 });
    const bytes = readFileSync(file);
    const range = /^bytes=(\d*)-(\d*)$/.exec(new Headers(headers).get("range") ?? "");
    const [, from = "0", to = ""] = range ?? [];
    const first = from === "" ? Math.max(0, bytes.length - Number(to)) : Number(from);
    const last = from === "" || to === "" ? bytes.length - 1 : Math.min(Number(to), bytes.length - 1);
    const part = bytes.subarray(first, last + 1);
    return new Response(method === "HEAD" ? null : part, {
      status: range === null ? 200 : 206,
      headers: {
        "content-length": `${part.length}`,
        ...(range === null ? {} : { "content-range": `bytes ${first}-${last}/${bytes.length}` }),
      },
    });
  };
}

/** Runs a page whose files are in a folder, and sums up the compressed sizes of those that it loads. */
function weigh(folder, page, archives) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".js"))
    .map((entry) => join(entry.parentPath, entry.name));
  for (const file of files) writeFileSync(file, `${BANNER}${readFileSync(file, "utf8")}`);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const script = `import { answerFrom } from ${JSON.stringify(import.meta.url)};
globalThis.answer = answerFrom(${JSON.stringify(archives)});
await import(${JSON.stringify(pathToFileURL(join(folder, page)).href)});
console.log(JSON.stringify(globalThis.pieces));`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
  });
  const loaded = JSON.parse(stdout.trim().split("\n").at(-1) || "[]").map((url) => fileURLToPath(url));
  if (loaded.length === 0) throw new Error(`the page did not run\n${stderr}`);
  const sizes = loaded.map((file) => gzipSync(readFileSync(file, "utf8").replace(BANNER, "")).length);
  return sizes.reduce((sum, size) => sum + size, 0) / 1000;
}

/**
 * The weights of all pages: as Vite builds them, and with the package's files as they are.
 *
 * `work` is an empty folder, `dist` the package's code, `archives` the folder of what the pages open.
 */
export async function weighPages({ vite, work, dist, archives }) {
  const weights = {};
  for (const [name, page] of Object.entries(PAGES)) {
    const built = join(work, `built ${name}`);
    mkdirSync(built, { recursive: true });
    writeFileSync(
      join(built, "page.mjs"),
      page((entry) => `superchunk/${entry}`.replace("/index", "")),
    );
    await vite.build({
      root: built,
      configFile: false,
      logLevel: "error",
      build: {
        target: "es2022",
        modulePreload: false,
        rollupOptions: { input: join(built, "page.mjs"), output: { entryFileNames: "page.js" } },
      },
    });
    const plain = join(work, `plain ${name}`);
    mkdirSync(plain, { recursive: true });
    cpSync(dist, plain, { recursive: true });
    writeFileSync(
      join(plain, "the-page.js"),
      page((entry) => `./src/${entry}.js`),
    );
    weights[name] = {
      built: weigh(join(built, "dist"), "page.js", archives),
      plain: weigh(plain, "the-page.js", archives),
    };
  }
  return weights;
}
