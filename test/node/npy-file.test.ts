/** `.npy` files by path and as streams: their headers, and their values in C order. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { formatDType, parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { openNpy } from "../../src/node/npy-file.ts";
import { temporaryFolder } from "../folder.ts";

const MANY = Int32Array.from({ length: 11 }, (_, i) => i * 3);
const FILE = Buffer.concat([encodeNpyHeader(parseDType("<i4", ""), [11]), new Uint8Array(MANY.buffer)]);

async function int32sOf(pieces: AsyncIterable<Uint8Array>): Promise<Int32Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece.slice());
  const bytes = new Uint8Array(Buffer.concat(parts));
  return new Int32Array(bytes.buffer, 0, bytes.length / 4);
}

function cut(bytes: Buffer, step: number): Readable {
  const count = Math.ceil(bytes.length / step);
  return Readable.from(Array.from({ length: count }, (_, i) => bytes.subarray(i * step, (i + 1) * step)));
}

async function fileOf(bytes: Uint8Array): Promise<string> {
  const path = join(temporaryFolder(), "values.npy");
  writeFileSync(path, bytes);
  return path;
}

test("a file and a stream that is split anywhere give the same values, the file as often as requested", async () => {
  for (const step of [1, 100, 1000]) {
    const npy = await openNpy(cut(FILE, step));
    expect([formatDType(npy.dtype), npy.shape, npy.order, npy.nbytes]).toEqual(["<i4", [11], "C", 44]);
    expect([...(await int32sOf(npy.rows()))]).toEqual([...MANY]);
  }
  const npy = await openNpy(await fileOf(FILE));
  expect([formatDType(npy.dtype), npy.shape, npy.order, npy.nbytes]).toEqual(["<i4", [11], "C", 44]);
  for (let time = 0; time < 2; time++) expect([...(await int32sOf(npy.values()))]).toEqual([...MANY]);
});

test("a file that is too short or too long, or not a .npy file, is an error that names it", async () => {
  for (const bytes of [FILE.subarray(0, -4), Buffer.concat([FILE, FILE])]) {
    await expect(openNpy(await fileOf(bytes))).rejects.toMatchObject({ code: "TRUNCATED" });
    const npy = await openNpy(cut(bytes, 7), { name: "stdin" });
    await expect(int32sOf(npy.rows())).rejects.toMatchObject({
      code: "TRUNCATED",
      details: { path: "stdin" },
    });
  }
  await expect(openNpy(cut(FILE.subarray(0, 40), 7))).rejects.toMatchObject({ code: "TRUNCATED" });
  await expect(openNpy(cut(Buffer.from(MANY.buffer), 7))).rejects.toMatchObject({ code: "BAD_MAGIC" });
  await expect(openNpy(join(temporaryFolder(), "none.npy"))).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a stream is closed once its values cannot be read, or are wanted no more", async () => {
  for (const wrong of [Buffer.from(MANY.buffer), FILE.subarray(0, 40)]) {
    const stream = cut(wrong, 7);
    await expect(openNpy(stream)).rejects.toThrow();
    expect(stream.destroyed).toBe(true);
  }
  const [long, unread] = [cut(Buffer.concat([FILE, FILE]), 7), cut(FILE, 7)];
  await expect(int32sOf((await openNpy(long)).rows())).rejects.toThrow("too long");
  for await (const _ of (await openNpy(unread)).rows()) break;
  expect([long.destroyed, unread.destroyed]).toEqual([true, true]);
});

/** The header says Fortran order. */
function turnedHeader(header: Uint8Array): Buffer {
  return Buffer.from(Buffer.from(header).toString("latin1").replace("False", "True "), "latin1");
}

/** Values 0, 1, 2, … of C order, as a `.npy` file in Fortran order has them. */
function fortranNpy(shape: readonly number[]): Uint8Array {
  const size = shape.reduce((product, n) => product * n, 1);
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((product, n) => product * n, 1));
  const values = Int32Array.from({ length: size }, (_, at) => {
    let rest = at;
    let index = 0;
    for (let d = 0; d < shape.length; d++) {
      const n = shape[d] ?? 1;
      index += (rest % n) * (strides[d] ?? 1);
      rest = Math.floor(rest / n);
    }
    return index;
  });
  const dtype = parseDType("<i4", "");
  return Buffer.concat([turnedHeader(encodeNpyHeader(dtype, shape)), new Uint8Array(values.buffer)]);
}

test.each([[[7, 3]], [[5, 2, 3]], [[4, 1, 2, 3]], [[1, 4]], [[0, 3]]])(
  "values in Fortran order of shape %j come in C order, from a file and from a stream",
  async (shape) => {
    const bytes = Buffer.from(fortranNpy(shape));
    const count = shape.reduce((product, n) => product * n, 1);
    const rows = Array.from({ length: count }, (_, i) => i);
    for (const source of [await fileOf(bytes), cut(bytes, 33)]) {
      const npy = await openNpy(source);
      expect(npy.order).toBe("F");
      expect([...(await int32sOf(npy.rows()))]).toEqual(rows);
    }
  },
);

test("a large stream in Fortran order is buffered in a temporary file, and comes in C order", async () => {
  const bytes = Buffer.from(fortranNpy([3_000_000, 3]));
  const npy = await openNpy(cut(bytes, 1 << 20));
  const [room, before] = [temporaryFolder(), process.env["TMPDIR"]];
  async function* watched(): AsyncGenerator<Uint8Array> {
    process.env["TMPDIR"] = room;
    try {
      for await (const piece of npy.rows()) {
        // A kill leaves nothing: the file has no name.
        if (process.platform !== "win32") expect(readdirSync(room)).toEqual([]);
        yield piece;
      }
    } finally {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
    }
  }
  const values = await int32sOf(watched());
  expect(values.length).toBe(9_000_000);
  expect(values.findIndex((value, i) => value !== i)).toBe(-1);
});
