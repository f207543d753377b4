/**
 * Walks through docs/walks-package.md with the package, in an empty folder: a part of `npm run test:package`.
 *
 * Each block of the page whose first line names a file becomes that file, and each block of shell runs.
 */
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const corpus = join(root, "fixtures", "corpus");
const folder = mkdtempSync(join(tmpdir(), "superchunk-package-"));
const VALUES = "51654 50967 52198 51992";

const page = readFileSync(join(root, "docs", "walks-package.md"), "utf8");
const failures = [];

try {
  install();
  await step("the entries, and threads", checkEntries);
  await step("the web page", walkPage);
  await step("the archivist", walkArchivist);
  await step("the service", walkService);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (failures.length > 0) {
  console.error(`test:package: walks: ${failures.length} failed: ${failures.join(", ")}`);
  process.exitCode = 1;
}

async function step(name, act) {
  const begun = performance.now();
  try {
    await act();
    console.log(`ok      ${name}, ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  } catch (error) {
    failures.push(name);
    console.error(
      `FAILED  ${name}: ${error.stderr?.toString() ?? ""}${error.stdout?.toString() ?? ""}${error.stack}`,
    );
  }
}

function run(program, argv, options = {}) {
  const path = `${join(folder, "node_modules", ".bin")}${delimiter}${process.env.PATH}`;
  return execFileSync(program, argv, {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, PATH: path },
    ...options,
  });
}

function equal(found, expected) {
  if (found !== expected)
    throw new Error(`found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
}

function install() {
  run("npm", ["pack", root, "--ignore-scripts"]);
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  writeFileSync(join(folder, "package.json"), '{"name": "walks", "private": true, "type": "module"}\n');
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(folder, tarball)]);
}

function checkEntries() {
  const script = `
    import { SuperchunkError } from "superchunk";
    import { decode, encode } from "superchunk/blosc";
    import { zarrView } from "superchunk/zarr";
    import { create, openArray } from "superchunk/node";
    const bytes = Uint8Array.from({ length: 1 << 20 }, (_, i) => i % 251);
    for (const cname of ["lz4", "zstd"]) if (Buffer.compare(await decode(await encode(bytes, { cname, typesize: 1 })), bytes) !== 0) throw new Error(cname);
    const array = await create("threads", { dtype: "float64", checksum: "sha256" });
    await array.append(Float64Array.from({ length: 1 << 20 }, (_, i) => i));
    await array.close();
    const opened = await openArray("threads", { threads: 2, dtype: "float64" });
    let sum = 0;
    for await (const { data } of opened.chunks()) for (const value of data) sum += value;
    if (typeof zarrView !== "function") throw new Error("zarrView");
    await openArray("nothing").catch((error) => console.log(error instanceof SuperchunkError, sum));
    process.exit();`;
  equal(
    run(process.execPath, ["--input-type=module", "-e", script]).trim().split("\n").at(-1),
    `true ${2 ** 19 * (2 ** 20 - 1)}`,
  );
}

/** The block of the page that is the file of a name. */
function blockOf(name) {
  const block = new RegExp(`^\`\`\`\\w+ ${name}\\n(.*?)^\`\`\`$`, "ms").exec(page)?.[1];
  if (block === undefined) throw new Error(`docs/walks-package.md has no ${name}`);
  return block;
}

function walkService() {
  writeFileSync(join(folder, "service.ts"), blockOf("service.ts"));
  const options = [
    "--strict",
    "--skipLibCheck",
    "false",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--outDir",
    "built",
    "--types",
    "node",
    "--typeRoots",
    join(root, "node_modules", "@types"),
  ];
  for (const version of ["typescript", "typescript-5.4"])
    run(process.execPath, [
      join(root, "scripts", "tools", "node_modules", version, "bin", "tsc"),
      ...options,
      "service.ts",
    ]);
  equal(run(process.execPath, ["built/service.js"]).trim(), "[ 4, 5 ] 5");
}

function walkArchivist() {
  const sources = ["bloscpack-3/array-f8.blp", "bloscpack-3/sum-md5.blp", "ctable/bcolz-mixed"];
  mkdirSync(join(folder, "archives"));
  for (let i = 0; i < 3000; i++) {
    const source = sources[i % sources.length] ?? "";
    const to = join(folder, "archives", `${i % 30}`, `${i}${extname(source)}`);
    cpSync(join(corpus, source), to, { recursive: true });
    if (i % 99 === 1) truncateSync(to, statSync(to).size - 9);
  }
  const shell = /## An archivist.*?^```sh\n(.*?)^```$/ms.exec(page)?.[1] ?? "";
  run("sh", ["-e", "-c", shell], { maxBuffer: 1 << 28 });
  const lines = readFileSync(join(folder, "verify.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  equal(lines.length, 3000);
  equal(lines.filter(({ ok }) => !ok).length, 31);
  equal(JSON.parse(readFileSync(join(folder, "inventory.json"), "utf8")).length, 3000);
  equal(existsSync(join(folder, "archives.zarr", "2", "2", "price", "zarr.json")), true);
}

async function walkPage() {
  const executablePath = ["chromium", "chromium-browser", "google-chrome"]
    .flatMap((name) => (process.env.PATH ?? "").split(delimiter).map((place) => join(place, name)))
    .find((path) => existsSync(path));
  if (executablePath === undefined) throw new Error("no Chromium found");
  for (const name of ["page.js", "index.html", "plain.html"])
    writeFileSync(join(folder, name), blockOf(name));
  cpSync(join(corpus, "ctable/bcolz-daily-equities"), join(folder, "public", "daily.bcolz"), {
    recursive: true,
  });
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const show = async (url) => {
    const tab = await browser.newPage();
    tab.setDefaultTimeout(120_000);
    const errors = [];
    tab.on("pageerror", (error) => errors.push(error.message));
    await tab.goto(url);
    await tab.waitForFunction(() => document.title !== "").catch(() => {});
    equal((await tab.title()) || errors.join("; "), VALUES);
  };
  const vite = spawn(
    process.execPath,
    [join(root, "node_modules", "vite", "bin", "vite.js"), "--port", "0", "--host", "127.0.0.1"],
    { cwd: folder, env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" } },
  );
  const plain = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://host");
    const file = [join(folder, pathname), join(folder, "public", pathname)].find(
      (path) => existsSync(path) && statSync(path).isFile(),
    );
    const types = { ".html": "text/html", ".js": "text/javascript" };
    if (file === undefined) response.writeHead(404).end();
    else
      response
        .writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" })
        .end(readFileSync(file));
  });
  try {
    await new Promise((resolve) => plain.listen(0, "127.0.0.1", resolve));
    await show(`http://127.0.0.1:${plain.address().port}/plain.html`);
    const url = await new Promise((resolve, reject) => {
      let text = "";
      vite.stdout.on("data", (piece) => {
        text += String(piece);
        const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(text);
        if (found) resolve(found[0]);
      });
      vite.on("exit", () => reject(new Error(`vite ended: ${text}`)));
    });
    await show(`${url}index.html`);
  } finally {
    vite.kill();
    plain.close();
    await browser.close();
  }
}
