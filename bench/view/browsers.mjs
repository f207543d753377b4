/**
 * Decoding in browsers, compared with numcodecs.js in the same page: `npm run bench -- browsers`. Chunks of 1 MiB of seven kinds of data,
 * one thread. Runs what is installed of chromium, firefox-esr and firefox, as the published files, without a window.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encode } from "../../dist/src/blosc.js";
import { median, printTable, saveResults } from "../report.mjs";
import { makeSample, SAMPLES } from "../samples.mjs";

const root = fileURLToPath(new URL("../../", import.meta.url));
const NBYTES = 1 << 20;
const CODECS = ["lz4", "zstd", "blosclz"];
const MOST_SECONDS = 300;
/** Programs, and the arguments before the address; `FOLDER` is one for the profile. */
const BROWSERS = {
  chromium: ["--headless", "--no-sandbox", "--user-data-dir=FOLDER"],
  "firefox-esr": ["--headless", "--no-remote", "--profile", "FOLDER"],
  firefox: ["--headless", "--no-remote", "--profile", "FOLDER"],
};

/** Runs in the page: decodes every chunk with both codecs, compares the bytes, and returns the best seconds of each. */
async function measure(names, rounds) {
  // By variables, because these are addresses of the server and no modules of the project.
  const [own, other] = ["/dist/src/blosc.js", "/numcodecs/blosc.js"];
  const [{ decode }, { default: Blosc }] = await Promise.all([import(own), import(other)]);
  const found = {};
  for (const name of names) {
    const chunk = new Uint8Array(await (await fetch(`/chunk/${name}`)).arrayBuffer());
    const codec = Blosc.fromConfig({ cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 });
    const [ours, theirs] = [await decode(chunk), await codec.decode(chunk)];
    if (ours.length !== theirs.length || ours.some((byte, i) => byte !== theirs[i]))
      throw new Error(`${name} differs`);
    const best = [Infinity, Infinity];
    for (let round = 0; round < rounds; round++)
      for (const [i, run] of [() => decode(chunk), () => codec.decode(chunk)].entries()) {
        const start = performance.now();
        for (let n = 0; n < 32; n++) await run();
        best[i] = Math.min(best[i], (performance.now() - start) / 32);
      }
    found[name] = best;
  }
  return { agent: navigator.userAgent, found };
}

const chunks = new Map();
for (const cname of CODECS)
  for (const [kind, sample] of Object.entries(SAMPLES))
    chunks.set(
      `${cname} ${kind}`,
      await encode(makeSample(sample, NBYTES), { cname, clevel: 5, typesize: sample.typesize }),
    );

let finish;
const script = `const post = (it) => fetch("/result", { method: "POST", body: JSON.stringify(it) });
(${measure})(${JSON.stringify([...chunks.keys()])}, 12).then(post, (error) => post({ error: String(error) }));`;
const server = createServer(async (request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://host").pathname);
  const send = (type, body) => response.writeHead(200, { "content-type": type }).end(body);
  if (path === "/result") {
    const pieces = await request.toArray();
    send("text/plain", "");
    return finish(JSON.parse(Buffer.concat(pieces)));
  }
  if (path === "/") return send("text/html", `<script type="module">${script}</script>`);
  if (path.startsWith("/chunk/")) return send("application/octet-stream", chunks.get(path.slice(7)));
  const file = path.replace(/^\/numcodecs\//, "/node_modules/numcodecs/dist/");
  if (!/^\/(?:dist|node_modules\/numcodecs)\//.test(file)) return response.writeHead(404).end();
  send("text/javascript", readFileSync(join(root, file)));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const results = {};
for (const [program, args] of Object.entries(BROWSERS)) {
  if (spawnSync(program, ["--version"]).status !== 0) continue;
  const folder = mkdtempSync(join(tmpdir(), "browser-"));
  const done = new Promise((resolve) => (finish = resolve));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const child = spawn(program, [...args.map((each) => each.replace("FOLDER", folder)), address], {
    stdio: "ignore",
  });
  const timer = setTimeout(() => finish({ error: `no answer after ${MOST_SECONDS} s` }), MOST_SECONDS * 1000);
  const { agent, found, error } = await done;
  clearTimeout(timer);
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (error !== undefined) throw new Error(`${program}: ${error}`);
  const name = /(?:Firefox|Chrome)\/\d+/.exec(agent)?.[0] ?? agent;
  if (name in results) continue; // two names of one program
  results[name] = found;
  printTable(
    `${name}: decoding chunks of 1 MiB with shuffle into new memory, one thread; speed of superchunk beside numcodecs.js, over ${Object.keys(SAMPLES).length} kinds of data`,
    ["", "lowest", "median", "highest", "GB/s, median"],
    CODECS.map((cname) => {
      const own = Object.entries(found).filter(([key]) => key.startsWith(`${cname} `));
      const ratios = own.map(([, [ours, theirs]]) => theirs / ours);
      const speeds = own.map(([, [ours]]) => NBYTES / ours / 1e6);
      return [cname, Math.min(...ratios), median(ratios), Math.max(...ratios), median(speeds)];
    }),
  );
}
server.close();
if (Object.keys(results).length === 0) console.log("no browser is installed: chromium, firefox-esr, firefox");
saveResults("browsers", results);
