/**
 * Compiles src/kernels/assembly/{adler32,bounds,decode,encode}.ts to WebAssembly: to src/kernels/generated/NAME.wasm, and inlined in NAME-kernels.ts there.
 * Does nothing where the sources, this script and the compiler are the ones of the last build.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { inlineZstd } from "./inline-zstd.mjs";

const ENTRIES = ["adler32", "bounds", "decode", "encode"];
const ASSEMBLY = new URL("../src/kernels/assembly/", import.meta.url);
const GENERATED = new URL("../src/kernels/generated/", import.meta.url);

// stub runtime: kernels allocate nothing. noAssert and no bounds checks: they check lengths themselves.
const FLAGS = ["--runtime", "stub", "--enable", "simd", "--enable", "bulk-memory", "-O3", "--noAssert"];
const LAYOUT = ["--stackSize", "0"];
/** Entries that work in the memory of another module. */
const GUESTS = { bounds: ["--importMemory", "--noExportMemory"] };

const sources = await readSources();
await mkdir(GENERATED, { recursive: true });
await inlineZstd(GENERATED);
for (const entry of ENTRIES) {
  if (!sources.has(`${entry}.ts`)) continue;
  const digest = await digestOf(entry);
  const target = new URL(`${entry}-kernels.ts`, GENERATED);
  const binary = new URL(`${entry}.wasm`, GENERATED);
  const old = await readFile(target, "utf8").catch(() => "");
  if (old.includes(digest) && existsSync(binary)) continue;
  const wasm = await compile(entry);
  await replace(binary, wasm);
  await replace(target, render(entry, digest, wasm));
  console.log(`kernel ${entry}: ${wasm.length} bytes`);
}

/** Renamed into place, so that a build running at the same time never sees half a file. */
async function replace(target, contents) {
  const temporary = new URL(`${target}.${process.pid}.tmp`);
  await writeFile(temporary, contents);
  await rename(temporary, target);
}

async function readSources() {
  const names = (await readdir(ASSEMBLY)).filter((name) => name.endsWith(".ts")).sort();
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, ASSEMBLY), "utf8")));
  return new Map(names.map((name, i) => [name, texts[i]]));
}

async function digestOf(entry) {
  const hash = createHash("sha256");
  hash.update(await readFile(fileURLToPath(import.meta.url)));
  hash.update(asc.version ?? "");
  for (const name of reachable(entry)) hash.update(`${name}\0${sources.get(name)}\0`);
  return `sha256:${hash.digest("hex")}`;
}

/** The entry's file and all that it imports, so that one half can change without a build of the other. */
function reachable(entry) {
  const seen = new Set();
  const visit = (name) => {
    const text = sources.get(name);
    if (seen.has(name) || text === undefined) return;
    seen.add(name);
    for (const [, next] of text.matchAll(/from\s+"\.\/([^"]+?)(?:\.ts)?"/g)) visit(`${next}.ts`);
  };
  visit(`${entry}.ts`);
  return [...seen].sort();
}

async function compile(entry) {
  const files = new Map();
  const { error, stderr } = await asc.main(
    [`${entry}.ts`, "--outFile", `${entry}.wasm`, ...FLAGS, ...LAYOUT, ...(GUESTS[entry] ?? [])],
    {
      readFile: (name) => sources.get(name) ?? null,
      writeFile: (name, contents) => void files.set(name, contents),
      listFiles: () => [],
    },
  );
  if (error) throw new Error(`kernel ${entry}: ${error.message}\n${stderr.toString()}`);
  return files.get(`${entry}.wasm`);
}

function render(entry, digest, wasm) {
  return `// Made by scripts/build-kernels.mjs from src/kernels/assembly/${entry}.ts; not to be edited. ${digest}
/** The WebAssembly module of the ${entry} kernels, in hexadecimal: a fifth less than base64 once a page compresses it. */
export const hex: string =
  "${Buffer.from(wasm).toString("hex")}";
`;
}
