/** Drives the page: a bundle in headless Chromium, under a strict policy, against a server on this machine. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { type CompressorName, decode, encode, type Shuffle } from "superchunk/blosc";
import { FileStore, serveView } from "superchunk/node";
import { findViewEntries } from "superchunk/zarr";
import { encodeFileHeader, encodeOffsets, encodeSection } from "../../src/format/encode-file.ts";
import { zarrTreeView } from "../../src/view/view-tree.ts";
import { corpusFolder, type Fixture, loadArchives, repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { BROWSER, bundlePage, FLAGS, findChromium } from "./chromium.ts";
import { PATIENCE } from "./driven.ts";
import { checkExtension } from "./extension.ts";
import { Outcome } from "./outcome.ts";
import { makePattern } from "./page.ts";
import { checkShown } from "./page-shows.ts";
import { checkPool } from "./pool.ts";
import { checkListing, checkZarr } from "./zarr.ts";

/** Only the page's own script, WebAssembly, and requests to its origin and to what is served. */
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";
const HTML =
  '<!doctype html><title>test</title><input type="file"><script type="module" src="page.js"></script>';
const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

/** Runs everything; resolves with the exit code. */
export async function main(): Promise<number> {
  const executablePath = findChromium();
  if (executablePath === undefined) {
    console.error(
      "test:browser: no Chromium found. Install it (Debian: apt-get install chromium), or name it in CHROMIUM",
    );
    return 1;
  }
  await printSizes();
  const outcome = new Outcome();
  const store = new FileStore(corpusFolder);
  const served = await serveView(zarrTreeView(await findViewEntries(store), { portable: true }), {
    cors: "*",
  });
  const server = await startServer(served.url);
  let browser: Browser | undefined;
  try {
    browser = await chromium.launch({ executablePath, args: [...FLAGS] });
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE.timeout);
    page.on("pageerror", (error) => outcome.failures.push(`the page: ${error.message}`));
    await page.goto(`${server.url}/index.html`);
    await page.waitForFunction(() => window.superchunkTest !== undefined);
    console.log(`${browser.browserType().name()} ${browser.version()}`);
    await checkPage(page, server, outcome);
    const free = await browser.newPage();
    free.setDefaultTimeout(PATIENCE.timeout);
    await free.goto(`${server.url}/free.html`);
    await free.waitForFunction(() => window.superchunkTest !== undefined);
    await checkZarr({ strict: page, free }, server, served, outcome);
    await checkListing(browser, served, outcome);
    await checkShown(browser, outcome);
    await checkPool(browser, bundlePage, outcome);
    await outcome.attempt("an extension", () => checkExtension(executablePath, bundlePage, outcome));
  } finally {
    await browser?.close();
    await server.close();
    await served.close();
    await store.close();
  }
  for (const failure of outcome.failures) console.error(`FAILED ${failure}`);
  console.log(`${outcome.checks} checks, ${outcome.failures.length} failed`);
  return outcome.failures.length === 0 && outcome.checks > 100 ? 0 : 1;
}

async function checkPage(page: Page, server: TestServer, outcome: Outcome): Promise<void> {
  outcome.expect(
    "the policy is in force",
    await page.evaluate(() => window.superchunkTest.refusesEval()),
    true,
  );
  for (const fixture of loadArchives()) {
    if (fixture.refuse || fixture.optional) continue;
    const expected = hashesOf(fixture);
    await outcome.attempt(`${fixture.path} over HTTP`, async () => {
      const found = await page.evaluate(([url, path]) => window.superchunkTest.hashUrl(url, path), [
        `${server.url}/corpus`,
        fixture.path,
      ] as const);
      outcome.expect(`${fixture.path} over HTTP`, found, expected);
    });
    if (!statSync(fixture.file).isFile()) continue;
    await outcome.attempt(`${fixture.path} as a File`, async () => {
      await page.setInputFiles("input", fixture.file);
      const found = await page.evaluate(
        (path) => window.superchunkTest.hashChosen(path),
        basename(fixture.file),
      );
      outcome.expect(`${fixture.path} as a File`, found, expected);
    });
  }
  await outcome.attempt("one element over HTTP", () => checkElement(page, server, outcome));
  for (const cname of COMPRESSORS) {
    for (const shuffle of SHUFFLES) {
      const name = `${cname} with ${shuffle}`;
      await outcome.attempt(name, () => checkRoundTrip(page, cname, shuffle, name, outcome));
    }
  }
}

/** A browser's chunk is byte for byte the same as Node's. */
async function checkRoundTrip(
  page: Page,
  cname: CompressorName,
  shuffle: Shuffle,
  name: string,
  outcome: Outcome,
): Promise<void> {
  const length = 150_001;
  const { chunk, same } = await page.evaluate(([c, s, n]) => window.superchunkTest.roundTrip(c, s, n), [
    cname,
    shuffle,
    length,
  ] as const);
  const bytes = Buffer.from(chunk, "hex");
  const data = makePattern(length);
  outcome.expect(`${name}: decodes in the browser`, same, true);
  outcome.expect(`${name}: decodes in Node`, Buffer.compare(await decode(bytes), data), 0);
  const here = await encode(data, { cname, shuffle, typesize: 4 });
  outcome.expect(`${name}: is the chunk that Node makes`, Buffer.compare(bytes, here), 0);
}

/** One element of a large file takes a few small ranges. */
async function checkElement(page: Page, server: TestServer, outcome: Outcome): Promise<void> {
  const [name, bytes] = await makeLarge();
  server.objects.set(name, bytes);
  const before = server.log.length;
  const found = await page.evaluate(([url, path]) => window.superchunkTest.readElement(url, path, 777_777), [
    server.url,
    name,
  ] as const);
  outcome.expect("one element over HTTP", found, "777777");
  let read = 0;
  for (const line of server.log.slice(before)) {
    const range = /bytes=(\d+)-(\d+)$/.exec(line);
    if (range !== null) read += Math.min(bytes.length, Number(range[2]) + 1) - Number(range[1]);
    else if (line.startsWith("GET")) read += bytes.length;
  }
  outcome.expect(
    `one element of ${bytes.length} bytes takes less than 200 kB (${read})`,
    read < 200_000,
    true,
  );
}

/** A Bloscpack file of one million int64 values, 0, 1, 2, …, in chunks of 1 MiB with blocks of 64 KiB. */
async function makeLarge(): Promise<[string, Uint8Array]> {
  const chunkItems = 131_072;
  const nchunks = 8;
  const chunks: Uint8Array[] = [];
  for (let chunk = 0; chunk < nchunks; chunk++) {
    const values = BigInt64Array.from({ length: chunkItems }, (_, i) => BigInt(chunk * chunkItems + i));
    const data = new Uint8Array(values.buffer);
    chunks.push(
      await encode(data, { cname: "lz4", clevel: 1, typesize: 8, shuffle: "noshuffle", blocksize: 8192 }),
    );
  }
  const header = encodeFileHeader({
    version: 3,
    offsets: true,
    metadata: true,
    checksum: "None",
    typesize: 8,
    chunkSize: chunkItems * 8,
    lastChunk: chunkItems * 8,
    nchunks,
    maxAppChunks: 0,
    metaSize: 0,
    headerLength: 32,
  });
  const metadata = { container: "numpy", dtype: "<i8", shape: [chunkItems * nchunks], order: "C" };
  const section = await encodeSection(metadata);
  const offsets: number[] = [];
  let at = header.length + section.length + 8 * nchunks;
  for (const chunk of chunks) {
    offsets.push(at);
    at += chunk.length;
  }
  return ["large.blp", Buffer.concat([header, section, encodeOffsets(offsets), ...chunks])];
}

function hashesOf(fixture: Fixture): Record<string, string | null> {
  if (fixture.kind !== "table") return { "": fixture.sha256 };
  return Object.fromEntries(fixture.names.map((name) => [name, fixture.columns[name]?.sha256 ?? null]));
}

/** The corpus and the page, with the policy on every answer. */
async function startServer(served: string): Promise<TestServer> {
  const objects: [string, Uint8Array][] = (readdirSync(corpusFolder, { recursive: true }) as string[])
    .filter((name) => statSync(join(corpusFolder, name)).isFile())
    .map((name) => [`corpus/${name.replaceAll("\\", "/")}`, readFileSync(join(corpusFolder, name))]);
  const server = await serveObjects(objects);
  const script = await bundlePage("page.ts");
  server.intercept = (request, response) => {
    response.setHeader("content-security-policy", `${POLICY} ${new URL(served).origin}`);
    const name = basename(new URL(request.url ?? "/", "http://host").pathname);
    if (name === "free.html") response.removeHeader("content-security-policy");
    if (name === "index.html" || name === "free.html")
      response.setHeader("content-type", "text/html").end(HTML);
    else if (name === "page.js") response.setHeader("content-type", "text/javascript").end(script);
    else return false;
    return true;
  };
  return server;
}

/** Prints what parts of the library cost a page. */
async function printSizes(): Promise<void> {
  const parts = {
    "open and HttpStore": 'export { open, HttpStore } from "superchunk"',
    "decode of superchunk/blosc": 'export { decode } from "superchunk/blosc"',
    "Blosc for zarrita": 'export { Blosc } from "superchunk/blosc"',
  };
  for (const [name, contents] of Object.entries(parts)) {
    const { outputFiles } = await build({
      stdin: { contents, resolveDir: repositoryRoot },
      splitting: true,
      outdir: "out",
      ...BROWSER,
    });
    const sizes = outputFiles.map((file) => [file.contents.length, gzipSync(file.contents).length] as const);
    const kb = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`;
    const [first = [0, 0], ...later] = sizes;
    const more = later.map(([size, zipped]) => `${kb(size)} (${kb(zipped)})`).join(", ");
    console.log(
      `${name}: ${kb(first[0])} minified, ${kb(first[1])} with gzip${more === "" ? "" : `; loaded where needed: ${more}`}`,
    );
  }
}
