/**
 * The system's libblosc gives the same results. If the machine has none, and none was unpacked for the comparisons
 * with other programs, the tests prove that its absence is a clear error.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { decodeSync, encodeSync, prepareEncode } from "../../../src/codec/index.ts";
import type { EncodeOptions } from "../../../src/codec/types.ts";
import { type NativeBlosc, open } from "../../../src/node/index.ts";
import { loadNativeBlosc } from "../../../src/node/threads/native-blosc.ts";
import { encoderOf } from "../../../src/node/threads/threads.ts";
import { loadArchives, repositoryRoot } from "../../fixtures/manifest.ts";

const library = findLibrary();

/** The libblosc that the environment names, one of the system, or the one of python-blosc that the comparisons installed. */
function findLibrary(): string | undefined {
  const named = process.env["SUPERCHUNK_LIBBLOSC"];
  if (named !== undefined) return named;
  const system = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib"];
  const cache = join(repositoryRoot, ".cache", "interop");
  const unpacked = existsSync(cache)
    ? readdirSync(cache).map((name) => join(cache, name, "python", "lib"))
    : [];
  return [...system, ...unpacked]
    .map((folder) => join(folder, "libblosc.so.1"))
    .find((path) => existsSync(path));
}

let before: string | undefined;

beforeEach(() => {
  before = process.env["SUPERCHUNK_LIBBLOSC"];
});

afterEach(() => {
  if (before === undefined) delete process.env["SUPERCHUNK_LIBBLOSC"];
  else process.env["SUPERCHUNK_LIBBLOSC"] = before;
});

it("an unknown choice is BAD_ARGUMENT", async () => {
  const choice = "fast" as "native";
  const [{ file } = { file: "" }] = loadArchives();
  await expect(open(file, { blosc: choice })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "blosc" },
  });
});

it("a missing library is UNSUPPORTED when the archive is opened, and named", async () => {
  process.env["SUPERCHUNK_LIBBLOSC"] = "/nowhere/libblosc.so.1";
  const [{ file } = { file: "" }] = loadArchives();
  const opening = open(file, { blosc: "native" });
  await expect(opening).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { field: "blosc", expected: "/nowhere/libblosc.so.1" },
  });
  await expect(opening).rejects.toThrow("SUPERCHUNK_LIBBLOSC");
});

describe.runIf(library !== undefined)(`with ${library}`, () => {
  let native: NativeBlosc;

  beforeEach(async () => {
    process.env["SUPERCHUNK_LIBBLOSC"] = library;
    native = await loadNativeBlosc();
  });

  it("reports its version", () => {
    expect(native.version).toMatch(/^1\.\d+\.\d+/);
  });

  it("every archive of the corpus has the same report", async () => {
    let chunks = 0;
    for (const { file } of loadArchives()) {
      const alone = await (await open(file, { threads: 0 })).verify();
      const report = await (await open(file, { threads: 0, blosc: "native" })).verify();
      expect(report).toEqual(alone);
      chunks += report.chunks;
    }
    expect(chunks).toBeGreaterThan(300);
  });

  const settings = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"].flatMap((cname) =>
    (["noshuffle", "shuffle", "bitshuffle"] as const).map(
      (shuffle): EncodeOptions => ({ cname: cname as "lz4", shuffle, clevel: 5, typesize: 4 }),
    ),
  );

  it.each(settings)("$cname with $shuffle: what one encodes, the other decodes", async (options) => {
    await prepareEncode(options.cname);
    const data = Uint8Array.from({ length: 300_001 }, (_, i) => (i * i) >> 9);
    const out = new Uint8Array(data.length);
    native.decode(encodeSync(data, options), out);
    expect(Buffer.compare(out, data)).toBe(0);
    const chunk = await encoderOf({ threads: 0, blosc: "native" }).encode(data, options);
    expect(Buffer.compare(decodeSync(chunk), data)).toBe(0);
  });

  it("a damaged payload is BAD_CHUNK, a damaged header BAD_FIELD before the library sees it", () => {
    const chunk = encodeSync(
      new Uint8Array(1000).map((_, i) => i >> 3),
      { typesize: 1 },
    );
    const out = new Uint8Array(1000);
    const payload = chunk.slice().fill(0xff, 24);
    expect(() => native.decode(payload, out)).toThrow(expect.objectContaining({ code: "BAD_CHUNK" }));
    const header = chunk.slice();
    header.set([0xff, 0xff, 0xff, 0x7f], 16);
    expect(() => native.decode(header, out)).toThrow(expect.objectContaining({ code: "BAD_FIELD" }));
  });

  it("options out of range are BAD_ARGUMENT", () => {
    expect(() => native.encode(new Uint8Array(10), { clevel: 11 })).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT" }),
    );
  });
});
