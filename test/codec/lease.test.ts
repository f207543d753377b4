import { expect, test } from "vitest";
import { decodeSync, info, isReady, leaseDecoder, prepare } from "../../src/codec/index.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";
import { readFixtureChunks } from "./fixture-chunks.ts";

const chunks = readFixtureChunks("c-blosc-1.21.7").filter(({ nbytes }) => nbytes > 500);

/** LZ4 of `length` zeros, for chunks that are large when decoded. */
function zeros(length: number): Uint8Array {
  const runs = Math.floor((length - 1 - 5 - 19) / 255);
  const rest = length - 1 - 5 - 19 - 255 * runs;
  return new Uint8Array([0x1f, 0, 1, 0, ...new Array<number>(runs).fill(255), rest, 0x50, 0, 0, 0, 0, 0]);
}

test("a prepared codec is ready at once", async () => {
  await prepare("zstd");
  expect(isReady("zstd")).toBe(true);
});

test("ranges decode in leased memory to the same bytes as whole chunks", () => {
  for (const { chunk, name } of chunks) {
    const whole = decodeSync(chunk);
    const lease = leaseDecoder(chunk.length);
    lease.input.set(chunk);
    for (const [start, length] of [
      [0, 1],
      [1, 130],
      [whole.length >> 1, 200],
      [whole.length - 3, 3],
      [7, 0],
    ] as const) {
      expect(
        Buffer.compare(lease.decodeRange(start, length), whole.subarray(start, start + length)),
        name,
      ).toBe(0);
    }
    lease.release();
  }
});

test("chunks decode out of leased memory to the same bytes; one that is too long for its place writes nothing", () => {
  for (const { chunk, name } of chunks) {
    const whole = decodeSync(chunk);
    const lease = leaseDecoder(chunk.length + 3);
    lease.input.set(chunk);
    const out = new Uint8Array(whole.length + 1).fill(0xaa);
    lease.decodeInto(out, chunk.length);
    expect(Buffer.compare(out.subarray(0, -1), whole), name).toBe(0);
    expect(out.at(-1), name).toBe(0xaa);
    const short = new Uint8Array(whole.length - 1);
    expect(errorOf(() => lease.decodeInto(short))).toMatchObject({ code: "BAD_ARGUMENT" });
    expect(errorOf(() => lease.decodeInto(out, chunk.length - 1))).toMatchObject({ code: "TRUNCATED" });
    lease.release();
    expect(errorOf(() => lease.decodeInto(out))).toMatchObject({ code: "BAD_ARGUMENT" });
    expect(
      short.every((byte) => byte === 0),
      name,
    ).toBe(true);
  }
});

test("leases held at the same time do not share memory", () => {
  const leases = chunks.slice(0, 12).map(({ chunk }) => {
    const lease = leaseDecoder(chunk.length);
    lease.input.set(chunk);
    return { lease, chunk };
  });
  const views = leases.map(({ lease, chunk }) => lease.decodeRange(0, info(chunk).nbytes));
  for (const [i, { chunk }] of leases.entries())
    expect(Buffer.compare(views[i] ?? chunk, decodeSync(chunk))).toBe(0);
  for (const { lease } of leases) lease.release();
});

test("the input may be shorter than the lease", () => {
  const chunk = chunks[0]?.chunk ?? new Uint8Array(0);
  const lease = leaseDecoder(chunk.length + 100);
  lease.input.fill(0xff);
  lease.input.set(chunk);
  const out = new Uint8Array(info(chunk).nbytes);
  lease.decodeInto(out, chunk.length);
  expect(Buffer.compare(out, decodeSync(chunk))).toBe(0);
  expect(errorOf(() => lease.decodeInto(out, chunk.length - 1))).toMatchObject({ code: "TRUNCATED" });
  expect(errorOf(() => lease.decodeInto(out, chunk.length + 101))).toMatchObject({ code: "BAD_ARGUMENT" });
  lease.release();
});

test("the input survives when the memory must grow to decode", () => {
  const stream = zeros(5_000_000);
  const chunk = makeChunk({
    flags: FLAGS.lz4 | FLAGS.notSplit,
    nbytes: 20_000_000,
    blocksize: 5_000_000,
    blocks: [[stream], [stream], [stream], [stream]],
  });
  const lease = leaseDecoder(chunk.length);
  lease.input.set(chunk);
  const decoded = lease.decodeRange(0, 20_000_000);
  expect(decoded.length).toBe(20_000_000);
  expect(decoded.every((byte) => byte === 0)).toBe(true);
  // Again, now that the memory is large enough.
  expect(lease.decodeRange(19_999_999, 1)).toEqual(new Uint8Array(1));
  lease.release();
});

test("an error leaves the lease usable", () => {
  const chunk = makeChunk({
    flags: FLAGS.lz4 | FLAGS.notSplit,
    nbytes: 5,
    blocks: [[new Uint8Array([0x50, 1, 2, 3, 4, 5])]],
  });
  const lease = leaseDecoder(chunk.length);
  lease.input.set(chunk);
  expect(errorOf(() => lease.decodeRange(0, 6))).toMatchObject({ code: "BAD_ARGUMENT" });
  expect(lease.decodeRange(0, 5)).toEqual(new Uint8Array([1, 2, 3, 4, 5]));
  lease.release();
});

test.each([-1, 0.5, Number.NaN])("a lease of %d bytes is BAD_ARGUMENT", (length) => {
  expect(errorOf(() => leaseDecoder(length))).toMatchObject({ code: "BAD_ARGUMENT" });
});

test("a lease of more than WebAssembly can address is LIMIT", () => {
  expect(errorOf(() => leaseDecoder(2 ** 33))).toMatchObject({ code: "LIMIT" });
});
