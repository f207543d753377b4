/**
 * Inlines the WebAssembly of @bokuweb/zstd-wasm, a build of the reference implementation of zstd, in
 * src/kernels/generated/zstd.ts.
 *
 * The package itself loads its module from a file, or in browsers from a URL, which bundlers and strict pages do not support;
 * other packages that inline it copy results byte by byte. Its exports have one-letter names; their meanings are taken from
 * its JavaScript.
 */
import { createHash } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { deflateSync } from "node:zlib";

const PACKAGE = new URL("../node_modules/@bokuweb/zstd-wasm/", import.meta.url);
/** The functions that are called, by their names in zstd.h and the C library. */
const CALLS = [
  "ZSTD_createCCtx",
  "ZSTD_compress_usingDict",
  "ZSTD_createDCtx",
  "ZSTD_decompress_usingDict",
  "ZSTD_freeDCtx",
  "ZSTD_isError",
  "malloc",
  "free",
];

/** Writes `zstd.ts` into the folder, unless it already exists for the same module. */
export async function inlineZstd(folder) {
  const wasm = await readFile(new URL("dist/esm/zstd.wasm", PACKAGE));
  const glue = await readFile(new URL("dist/esm/zstd.js", PACKAGE), "utf8");
  const { version } = JSON.parse(await readFile(new URL("package.json", PACKAGE), "utf8"));
  const digest = `sha256:${createHash("sha256")
    .update(await readFile(new URL(import.meta.url)))
    .update(glue)
    .update(wasm)
    .digest("hex")}`;
  const target = new URL("zstd.ts", folder);
  const old = await readFile(target, "utf8").catch(() => "");
  if (old.includes(digest)) return;
  const temporary = new URL(`.zstd.${process.pid}.tmp`, folder);
  await writeFile(temporary, render(version, digest, wasm, readNames(glue)));
  await rename(temporary, target);
  console.log(`zstd: ${wasm.length} bytes`);
}

function readNames(glue) {
  const names = {
    memory: find(glue, /wasmMemory = wasmExports\['(\w+)'\]/, "memory"),
    initialize: find(glue, /addOnInit\(wasmExports\['(\w+)'\]\)/, "initialize"),
    importModule: find(glue, /return \{ (\w+): wasmImports \}/, "imports"),
    resizeHeap: find(glue, /(\w+): _emscripten_resize_heap,/, "emscripten_resize_heap"),
  };
  for (const call of CALLS) {
    names[call] = find(glue, new RegExp(`var _${call} = .*wasmExports\\['(\\w+)'\\]\\)\\(`), call);
  }
  return names;
}

function find(glue, pattern, what) {
  const name = pattern.exec(glue)?.[1];
  if (name === undefined)
    throw new Error(`@bokuweb/zstd-wasm: no ${what} in dist/esm/zstd.js; adapt scripts/inline-zstd.mjs`);
  return name;
}

function render(version, digest, wasm, names) {
  const entries = Object.entries(names).map(([name, value]) => `  ${name}: "${value}",\n`);
  return `// Made by scripts/inline-zstd.mjs from @bokuweb/zstd-wasm ${version}; not to be edited. ${digest}
// zstd: Copyright (c) Meta Platforms, Inc. and affiliates, BSD-3-Clause. @bokuweb/zstd-wasm: Copyright (c) bokuweb, MIT.
/** The WebAssembly module of zstd as a zlib stream, base64. */
export const wasm: string =
  "${deflateSync(wasm, { level: 9 }).toString("base64")}";
/** Bytes of the module. */
export const length: number = ${wasm.length};

/** What the module calls its exports, and the import that grows its memory. */
export const names = {
${entries.join("")}} as const;
`;
}
