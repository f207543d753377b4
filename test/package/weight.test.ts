/**
 * What a page loads of the sources, minified and compressed, as Vite builds it: only what it uses. run.mjs weighs
 * the published files, which are fewer, and README gives its figures.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const root = join(import.meta.dirname, "../..");
const corpus = join(root, "fixtures/corpus");
let server: TestServer;

beforeAll(async () => {
  const names = ["ctable/bcolz-daily-equities", "bloscpack-3"].flatMap((folder) =>
    readdirSync(join(corpus, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(corpus.length + 1)),
  );
  server = await serveObjects(
    names.map((name) => [name.replaceAll("\\", "/"), new Uint8Array(readFileSync(join(corpus, name)))]),
  );
});
afterAll(() => server.close());

/** How each piece reports that it was loaded. */
const BANNER = "(globalThis.pieces??=[]).push(import.meta.url);";

/** The bundler of Vite, which comes with Vitest. */
async function loadBundler(): Promise<Pick<typeof import("rolldown"), "rolldown">> {
  const vite = createRequire(import.meta.resolve("vitest")).resolve("vite");
  return import(pathToFileURL(createRequire(vite).resolve("rolldown")).href);
}

/** Bytes of the pieces that are loaded until the page has run, as Vite builds it. */
async function weigh(page: string): Promise<number> {
  const folder = temporaryFolder();
  const { rolldown } = await loadBundler();
  const entry = join(root, "page.ts");
  const bundle = await rolldown({
    input: entry,
    cwd: root,
    plugins: [
      {
        name: "page",
        resolveId: (id) => (id === entry ? id : null),
        load: (id) => (id === entry ? page : null),
      },
    ],
  });
  await bundle.write({
    dir: folder,
    format: "es",
    minify: true,
    entryFileNames: "page.mjs",
    chunkFileNames: "[name]-[hash].mjs",
    banner: BANNER,
  });
  const script = `globalThis.base=${JSON.stringify(server.url)};await import(${JSON.stringify(join(folder, "page.mjs"))});console.log(JSON.stringify(globalThis.pieces))`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  const pieces = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as string[];
  return pieces
    .map((url) => readFileSync(join(folder, basename(new URL(url).pathname)), "utf8").replace(BANNER, ""))
    .reduce((sum, text) => sum + gzipSync(text).length, 0);
}

const OPEN =
  'import { HttpStore, open } from "./src/index.ts"; const store = new HttpStore(globalThis.base);';

test.each([
  [
    "decoding Blosc",
    18.7,
    'import { decode } from "./src/blosc.ts"; await decode(new Uint8Array(0)).catch(() => {});',
  ],
  [
    "opening a .blp",
    64.4,
    `${OPEN} const a = await open(store, "bloscpack-3/sum-adler32.blp"); for await (const _ of a.streamBytes()) break;`,
  ],
  [
    "opening a table",
    74.5,
    `${OPEN} const t = await open(store, "ctable/bcolz-daily-equities"); await t.column("close").get([0]);`,
  ],
  ["zarrView", 34.7, 'import { zarrView } from "./src/zarr.ts"; globalThis.view = zarrView;'],
])("%s loads at most %d kB", async (_, limit, page) => {
  const weight = (await weigh(page)) / 1000;

  expect(weight).toBeLessThanOrEqual(limit);
});
