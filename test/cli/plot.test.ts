/** `cat --plot` and the samples of `info`: the drawing matches the values. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { drawEnvelope, Envelope, sparkline } from "../../cli/values/plot.ts";
import { encodeNpyHeader, parseDType } from "../../src/index.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder = "";

function writeNpy(name: string, dtype: string, values: Float64Array | BigInt64Array | Uint32Array): void {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const header = encodeNpyHeader(parseDType(dtype, name), [values.length]);
  writeFileSync(join(folder, name), Buffer.concat([header, bytes]));
}

beforeAll(async () => {
  folder = temporaryFolder();
  writeNpy(
    "wave.npy",
    "<f8",
    Float64Array.from({ length: 50_000 }, (_, i) => Math.sin(i / 8000)),
  );
  writeNpy(
    "gaps.npy",
    "<f8",
    Float64Array.from({ length: 40 }, (_, i) => (i % 10 === 3 ? Number.NaN : i)),
  );
  writeNpy(
    "days.npy",
    "<M8[D]",
    BigInt64Array.from({ length: 5 }, (_, i) => (i === 2 ? -(2n ** 63n) : BigInt(17_000 + i))),
  );
  writeNpy("one.npy", "<u4", Uint32Array.of(7));
  writeNpy("none.npy", "<u4", new Uint32Array(0));
  const second = 1_000_000_000n;
  writeNpy("stamps.npy", "<M8[ns]", BigInt64Array.of(0n, 61n * second, 62n * second + 500_000_000n));
  for (const name of ["wave", "gaps", "days", "stamps", "one", "none"]) {
    const args = ["create", join(folder, name), "--from", join(folder, `${name}.npy`)];
    expect((await runCli([...args, ...(name === "wave" ? ["--chunklen", "1000"] : [])])).code).toBe(0);
  }
});

const show = async (...args: readonly string[]): Promise<string> =>
  (await runCli(["cat", ...args, "--plot"])).out;

/** The dots of Braille lines, by column: the rows that have one, from the bottom. */
function dotsOf(lines: readonly string[], columns: number): number[][] {
  const bits = [
    [0x40, 0x04, 0x02, 0x01],
    [0x80, 0x20, 0x10, 0x08],
  ];
  return Array.from({ length: columns }, (_, x) =>
    lines.flatMap((line, row) => {
      const code = line.codePointAt(x >> 1) ?? 0x20;
      const set = code < 0x2800 ? 0 : code - 0x2800;
      return [0, 1, 2, 3].flatMap((y) =>
        (set & (bits[x % 2]?.[y] ?? 0)) !== 0 ? [4 * (lines.length - 1 - row) + y] : [],
      );
    }),
  );
}

describe("an envelope", () => {
  it.each([2, 100, 4096, 4097, 70_001])(
    "of %i values has the minimum and maximum of each column",
    (length) => {
      const values = Array.from({ length }, (_, i) => Math.round(1000 * Math.sin(i * i)));
      const envelope = new Envelope();
      for (const value of values) envelope.add(value);

      const columns = envelope.columns(2);

      const ranges = columns.map((range) => range ?? [Number.NaN, Number.NaN]);
      expect([envelope.least, envelope.greatest]).toEqual([Math.min(...values), Math.max(...values)]);
      // If there are few values each column has one; otherwise it has all that fall into it.
      const ofAll = [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
      expect(ofAll).toEqual([Math.min(...values), Math.max(...values)]);
    },
  );

  it("is drawn from its minimum to its maximum, and joined from column to column", () => {
    const envelope = new Envelope();
    for (const value of [0, 0, 11, 11]) envelope.add(value);

    const dots = dotsOf(drawEnvelope(envelope, 2, 3), 4);

    expect(dots.map((rows) => [Math.min(...rows), Math.max(...rows)])).toEqual([
      [0, 0],
      [0, 0],
      [1, 11],
      [11, 11],
    ]);
  });

  it("has a gap where there is no number", () => {
    const envelope = new Envelope();
    for (const value of [1, Number.NaN, Number.POSITIVE_INFINITY, 2]) envelope.add(value);

    expect(dotsOf(drawEnvelope(envelope, 2, 1), 4)).toEqual([[0], [], [], [3]]);
    expect([envelope.count, envelope.missing]).toEqual([4, 2]);
  });
});

describe("cat --plot", () => {
  it("draws a wave at its true height, over the width of the terminal", async () => {
    const { out } = await runCli(["cat", join(folder, "wave"), "--plot"], { terminal: true, columns: 60 });

    const lines = out.split("\n");
    expect(lines.every((line) => line.length <= 60)).toBe(true);
    expect(lines[0]).toMatch(/^ *1 ┤/);
    expect(lines[11]).toMatch(/^ *-1 ┤/);
    const inner = lines.slice(0, 12).map((line) => line.slice(line.search(/[│┤]/) + 1));
    const width = 60 - (lines[0] ?? "").search(/┤/) - 1;
    const dots = dotsOf(inner, 2 * width);
    for (const [x, rows] of dots.entries()) {
      const value = Math.sin((x * 50_000) / (2 * width) / 8000);
      const middle = (Math.min(...rows) + Math.max(...rows)) / 2;
      expect(Math.abs(middle - (47 * (value + 1)) / 2)).toBeLessThan(3);
    }
    expect(out).toMatch(/\n *0 +49,999\n/);
  });

  it("draws each column of numbers, and names the rows of a slice", async () => {
    const table = join(corpusFolder, "ctable/bcolz-daily-equities");
    const out = await show(table, "--slice", "10:30:2");
    const { out: json } = await runCli(["cat", table, "--slice", "10:30:2", "--format", "json"]);
    const rows = JSON.parse(json) as Record<string, number>[];
    for (const [name, first] of Object.entries(rows[0] ?? {})) {
      if (typeof first !== "number") continue;
      const values = rows.map((row) => row[name] ?? Number.NaN);
      const part = out.slice(out.indexOf(`${name}\n`));
      expect(part).toContain(`${Math.max(...values).toLocaleString("en-US")} ┤`);
    }
    expect(out).toMatch(/\n *10 +28\n *rows\n$/);
  });

  it("draws the rows that match conditions", async () => {
    const table = join(corpusFolder, "ctable/bcolz-daily-equities");
    const found = await runCli([
      "cat",
      table,
      "--where",
      "volume > 0",
      "--column",
      "close",
      "--format",
      "ndjson",
    ]);
    const values = found.out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { close: number }).close);
    const out = await show(table, "--where", "volume > 0", "--column", "close");
    expect(out).toContain(`${Math.max(...values).toLocaleString("en-US")} ┤`);
    expect(out).toContain("rows that were found");
    expect(out).toMatch(new RegExp(`0 +${(values.length - 1).toLocaleString("en-US")}\\n`));
  });

  it("reports values that are not numbers, and prints dates as dates", async () => {
    expect(await show(join(folder, "gaps"))).toContain("4 of 40 rows without a finite value");
    const days = await show(join(folder, "days"));
    expect(days).toContain("2016-07-22 ┤");
    expect(days).toContain("2016-07-18 ┤");
    expect(days).toContain("1 of 5 rows without a finite value");
  });

  it("prints times without the zeros of a unit that they do not need", async () => {
    expect(await show(join(folder, "stamps"))).toMatch(/1970-01-01T00:00:00 ┤/);
    const { out } = await runCli(["info", join(folder, "stamps"), "--sample"]);
    expect(out).toContain(" 1970-01-01T00:00:00 to 1970-01-01T00:01:02.500000000 ");
  });

  it("draws a single value, and no values", async () => {
    // The label is next to the line.
    expect(await show(join(folder, "one"))).toMatch(/7 ┤[\u2801-\u28ff]/);
    expect(await show(join(folder, "none"))).toBe("no rows\n");
  });

  it.each([
    [["bloscpack-3/array-struct.blp"], "are not numbers; choose a column with --column"],
    [["blz-superchunk/i8-2d-crc32"], "have more than one dimension; choose one with --slice"],
    [["blz-superchunk/f8-default", "--format", "csv"], "cannot be used with option"],
  ])("%j is refused", async ([path = "", ...more], message) => {
    const { code, err } = await runCli(["cat", join(corpusFolder, path), "--plot", ...more]);
    expect(code).toBe(2);
    expect(err).toContain(message);
  });
});

describe("samples in info", () => {
  it("are drawn on a terminal, and left out elsewhere, in JSON and on request", async () => {
    const path = join(folder, "wave");
    const plain = await runCli(["info", path]);
    const terminal = await runCli(["info", path], { terminal: true });
    const asked = await runCli(["info", path, "--sample"]);
    const refused = await runCli(["info", path, "--no-sample"], { terminal: true });

    expect(plain.out).not.toContain("sample");
    expect(refused.out).toBe(plain.out);
    expect(terminal.out).toBe(asked.out);
    expect(asked.out).toMatch(/values +[▁▂▃▄▅▆▇█]{16} +-0\.9\d+ to 0\.9\d+ +8,000 rows in 8 of 50 chunks/);
    const { code } = await runCli(["info", path, "--sample", "--json"]);
    expect(code).toBe(2);
  });

  it("show the means of the chunks that are read", async () => {
    const { out } = await runCli(["info", join(folder, "wave"), "--sample"]);
    const chunks = [0, 7, 14, 21, 28, 35, 42, 49];
    const means = chunks.flatMap((chunk) =>
      [0, 500].map((from) => {
        const values = Array.from({ length: 500 }, (_, i) => Math.sin((1000 * chunk + from + i) / 8000));
        return values.reduce((sum, value) => sum + value, 0) / 500;
      }),
    );
    expect(out).toContain(sparkline(means));
  });

  it("mark a damaged part of a column, and show the others", async () => {
    const path = join(folder, "damaged.bcolz");
    cpSync(join(corpusFolder, "ctable/bcolz-daily-equities"), path, { recursive: true });
    const file = join(path, "close/data/__0.blp");
    const bytes = readFileSync(file);
    bytes.fill(0xff, 40, bytes.length);
    writeFileSync(file, bytes);

    const { code, out } = await runCli(["info", path, "--sample"]);

    expect(code).toBe(0);
    expect(out).toMatch(/close +cannot be read: [A-Z_]+/);
    expect(out).toMatch(/open +[▁▂▃▄▅▆▇█]+ +\d/);
  });
});

it("a sparkline has a bar for each value, and a blank for a missing one", () => {
  expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7])).toBe("▁▂▃▄▅▆▇█");
  expect(sparkline([5, Number.NaN, 5])).toBe("▄ ▄");
  // Their difference is infinite.
  expect(sparkline([-1.7e308, 0, 1.7e308])).toBe("▁▅█");
  expect(sparkline([])).toBe("");
});

it.each([
  [[-1.7e308, 1.7e308, 0], "1.7e+308", "-1.7e+308"],
  [[1e15, 1e15 + 12.375], "1,000,000,000,000,012", "1,000,000,000,000,000"],
  [[1, 1 + 1e-9], "1.000000001", "1"],
])("values that are very large, or hardly differ, are drawn and named: %j", async (values, top, bottom) => {
  writeNpy("odd.npy", "<f8", Float64Array.from(values));
  const root = join(folder, "odd");
  expect((await runCli(["create", root, "--from", join(folder, "odd.npy"), "--overwrite"])).code).toBe(0);

  const lines = (await show(root)).split("\n");

  expect(lines[0]).toContain(top);
  expect(lines[11]).toContain(bottom);
  expect(lines.slice(0, 12).every((line) => /[\u2801-\u28ff]/.test(line))).toBe(true);
});
