/**
 * `npm run bench [-- NAME…]`: runs the benchmarks one after the other, each in a separate process. Every benchmark runs the
 * peers in the same call, prints the ratios, including losses, and saves JSON in bench/results/.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));

/** A benchmark is a file that can be started directly: bench/NAME/{NAME,decode,encode}.mjs or bench/NAME.mjs. */
const all = {
  decode: "codec/decode.mjs",
  encode: "codec/encode.mjs",
  write: "write/write.mjs",
  zarr: "zarr/zarr.mjs",
  read: "read/read.mjs",
  convert: "convert/convert.mjs",
  tables: "convert/tables.mjs",
  link: "link/link.mjs",
  mirror: "link/mirror.mjs",
  view: "view/view.mjs",
  page: "view/page.mjs",
  browsers: "view/browsers.mjs",
  references: "references/references.mjs",
  serve: "serve/serve.mjs",
  blosc2: "blosc2/blosc2.mjs",
  machines: "machines/machines.mjs",
};

/** The codec is measured with chunks of several sizes. */
function argumentsOf(name) {
  if (name !== "decode" && name !== "encode") return [[]];
  mkdirSync(`${folder}results`, { recursive: true });
  return [1 << 16, 1 << 20, 8 << 20].map((size) => [
    "--size",
    String(size),
    "--json",
    `${folder}results/${name}-${size}.json`,
  ]);
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in all));
if (unknown.length > 0) {
  console.error(`no benchmark ${unknown.join(", ")}; there are ${Object.keys(all).join(", ")}`);
  process.exit(2);
}
// Node.js reads the certificates of this file at every start: 0.03 s, and no benchmark opens a connection to others.
const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env;
let failed = 0;
for (const [name, file] of Object.entries(all)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  if (!existsSync(`${folder}${file}`))
    throw new Error(`bench/${file} is missing; there are ${readdirSync(folder).join(", ")}`);
  console.log(`\n== ${name}`);
  for (const args of argumentsOf(name)) {
    const { status } = spawnSync(process.execPath, ["--expose-gc", `${folder}${file}`, ...args], {
      stdio: "inherit",
      env,
    });
    if (status !== 0) failed++;
  }
}
process.exit(failed === 0 ? 0 : 1);
