/** Memory of large results: how it was requested from the system, according to the system itself. */
import { readFileSync } from "node:fs";
import koffi from "koffi";
import { afterEach, describe, expect, it, vi } from "vitest";

/** Items of float64; 80 and 8 MB, of which nothing is stored. */
const LARGE = 10_000_000;
const SMALL = 1_000_000;

async function readFilled(items: number, shared = false): Promise<Uint8Array> {
  const { createZarr } = await import("../../../src/zarr/write/create.ts");
  const { openZarrArray } = await import("../../../src/zarr/read/open.ts");
  const { decoderOf } = await import("../../../src/node/threads/threads.ts");
  const { MemoryStore } = await import("../../../src/store/memory.ts");
  const store = new MemoryStore();
  const spec = { shape: [items], dataType: "float64", chunkShape: [100_000], fillValue: 2.5 };
  await createZarr(store, "filled", spec);
  const array = await openZarrArray(store, "filled", { decoder: decoderOf({ threads: 0 }) });
  const slice = (await array.get(null, { shared })) as { readonly data: Float64Array };
  expect(slice.data.every((value) => value === 2.5)).toBe(true);
  return new Uint8Array(slice.data.buffer);
}

/** The flags of the mapping that contains the middle of the bytes. */
function flagsOf(bytes: Uint8Array): readonly string[] {
  const middle = koffi.address(bytes) + BigInt(bytes.length >> 1);
  let isWithin = false;
  for (const line of readFileSync("/proc/self/smaps", "utf8").split("\n")) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range !== null) isWithin = BigInt(`0x${range[1]}`) <= middle && middle < BigInt(`0x${range[2]}`);
    else if (isWithin && line.startsWith("VmFlags:")) return line.slice(8).trim().split(/\s+/);
  }
  throw new Error("no mapping with these bytes");
}

const IN_HUGE_PAGES = "hg";

afterEach(() => {
  vi.resetModules(); // the variable is read once
  delete process.env["SUPERCHUNK_HUGE_PAGES"];
});

describe.runIf(process.platform === "linux")("on Linux", () => {
  it("SUPERCHUNK_HUGE_PAGES=0 leaves memory as it is", async () => {
    process.env["SUPERCHUNK_HUGE_PAGES"] = "0";
    expect(flagsOf(await readFilled(LARGE))).not.toContain(IN_HUGE_PAGES);
  });

  it("a large result is requested in huge pages, plain or shared; a small one is not", async () => {
    expect(flagsOf(await readFilled(LARGE))).toContain(IN_HUGE_PAGES);
    expect(flagsOf(await readFilled(LARGE, true))).toContain(IN_HUGE_PAGES);
    expect(flagsOf(await readFilled(SMALL))).not.toContain(IN_HUGE_PAGES);
  });
});

it("a large result has the same values wherever its memory comes from", async () => {
  expect((await readFilled(LARGE)).length).toBe(LARGE * 8);
});

it("reading works if koffi cannot report memory addresses", async () => {
  const address = vi.spyOn(koffi, "address").mockImplementation(() => {
    throw new TypeError("address is not a function");
  });
  try {
    expect((await readFilled(LARGE)).length).toBe(LARGE * 8);
    if (process.platform === "linux") expect(address).toHaveBeenCalled();
  } finally {
    address.mockRestore();
  }
});
