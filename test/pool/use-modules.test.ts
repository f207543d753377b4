/** Kernels that are handed in as modules, in place of those that are compiled here. */
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { handedIn } from "../../src/codec/kernel-module.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

const file = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(`${repositoryRoot}/src/kernels/generated/${name}.wasm`));

test("a host that cannot compile decodes and encodes with the given modules, like any other", async () => {
  const modules = {
    decode: await WebAssembly.compile(file("decode")),
    encode: await WebAssembly.compile(file("encode")),
  };
  const { Module } = WebAssembly;
  const refuse = (): never => {
    throw new WebAssembly.CompileError("refused by this host");
  };
  class Refusing {
    static readonly exports = Module.exports;
    static [Symbol.hasInstance](value: unknown): boolean {
      return value instanceof Module;
    }
    constructor() {
      refuse();
    }
  }
  const host = { compile: { value: async () => refuse() }, Module: { value: Refusing } };
  vi.stubGlobal("WebAssembly", Object.create(WebAssembly, host));
  try {
    const { decode, encode, encodeSync } = await import("../../src/blosc.ts");
    const { useModules } = await import("../../src/pool/use-modules.ts");
    const data = Uint8Array.from({ length: 100_000 }, (_, i) => (i * i) >>> 8);
    const refused = { code: "UNSUPPORTED", message: expect.stringContaining("superchunk/blosc/wasm") };
    await expect(encode(data)).rejects.toMatchObject(refused);
    expect(() => encodeSync(data)).toThrow(expect.objectContaining(refused));

    useModules(modules);
    for (const cname of ["blosclz", "lz4", "lz4hc", "snappy", "zlib"] as const)
      expect(await decode(await encode(data, { cname, typesize: 4 }))).toEqual(data);
    await expect(encode(data, { cname: "zstd" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { field: "zstd" },
    });
  } finally {
    vi.unstubAllGlobals();
    for (const name of ["decode", "encode"] as const) delete handedIn[name];
  }
});

test("a module that is not the kernel's is refused, and nothing changes", async () => {
  const { useModules } = await import("../../src/pool/use-modules.ts");
  const encode = await WebAssembly.compile(file("encode"));
  const wrong = [
    ["decode", { decode: encode, encode }],
    ["encode", { encode: await WebAssembly.compile(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)) }],
    ["decode", { decode: file("decode") as unknown as WebAssembly.Module }],
  ] as const;
  for (const [field, modules] of wrong)
    expect(() => useModules(modules)).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT", details: expect.objectContaining({ field }) }),
    );
  expect(handedIn).toEqual({});
});
