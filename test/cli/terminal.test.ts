/** What reaches a terminal is aligned, within its width if possible, and without control characters from an archive. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { alignRows } from "../../cli/output/layout.ts";
import { drawBar } from "../../cli/output/progress.ts";
import { fitEnd, padEnd, textWidth } from "../../cli/output/text-width.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

const ESC = "\u001b";
const LONG = "c".repeat(60);
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

describe("the width of text", () => {
  it.each([
    ["plain", 5],
    ["価格", 4],
    ["ｶﾅ", 2],
    ["한글", 4],
    ["é", 1],
    ["e\u0301", 1],
    ["😀", 2],
    ["👩‍👩‍👧", 2],
    ["❤️", 2],
    ["", 0],
  ])("of %j is that of its characters on a terminal", (text, width) => {
    expect(textWidth(text)).toBe(width);
    expect(textWidth(padEnd(text, 9))).toBe(9);
  });

  it("is respected when text is cut: the end stays, and no character or escape sequence is split", () => {
    expect(fitEnd("/data/bundles/prices.blp", 14)).toBe(".../prices.blp");
    expect(fitEnd("価格価格価格.blp", 10)).toBe("...格.blp");
    for (let width = 0; width < 24; width++) {
      const cut = fitEnd(`/a/${ESC}[31m価格/👩‍👩‍👧.blp`, width);
      expect(textWidth(cut)).toBeLessThanOrEqual(width);
      expect(cut).not.toMatch(/^\.*(?:x1b|1b|b\[|\u200d|\ufe0f)/);
    }
  });
});

describe("a table", () => {
  const rows = [
    ["name", "n"],
    [LONG, "1"],
    ["価格の列", "2"],
    ["short", "30"],
  ];

  it("is aligned by the width of its cells on the terminal", () => {
    const at = alignRows(rows, new Set([1])).map((line) => textWidth(line));
    expect(new Set(at)).toEqual(new Set([64]));
  });

  it("puts long names on separate lines if the terminal is narrow, and keeps the others aligned", () => {
    expect(alignRows(rows, new Set([1]), 40)).toEqual([
      `name${" ".repeat(35)}n`,
      LONG,
      `${" ".repeat(39)}1`,
      `価格の列${" ".repeat(31)}2`,
      `short${" ".repeat(33)}30`,
    ]);
  });
});

describe("the progress bar", () => {
  const progress = { done: 25 << 20, total: 100 << 20 };

  it.each([20, 40, 80, 120])("keeps the end of a path within %d columns", (columns) => {
    const name = `/data/${"folder/".repeat(20)}価格/close.blp`;
    for (const line of [
      drawBar("verify", progress, 5, columns, { name }),
      drawBar("convert", { ...progress, label: name }, 5, columns),
    ]) {
      expect(textWidth(line)).toBeLessThan(columns);
      expect(line).toContain("25 %");
      if (columns >= 40) expect(line).toMatch(/\.\.\.\S*close\.blp/);
    }
  });

  it("shares the width between two names, and shows no control character of either", () => {
    const line = drawBar("verify", { ...progress, label: `b${ESC}[2J` }, 5, 90, { name: `a${ESC}[31m/x` });
    expect(line).toContain("verify a\\x1b[31m/x  [######");
    expect(line).toContain("b\\x1b[2J");
    expect(line).not.toMatch(STEERING);
  });
});

describe("names and attributes that would control a terminal", () => {
  let folder: string;
  let table: string;

  beforeAll(async () => {
    folder = temporaryFolder();
    const raw = join(folder, "raw.npy");
    const header = encodeNpyHeader(parseDType("<f8", "test"), [100]);
    writeFileSync(raw, Buffer.concat([header, Buffer.alloc(800)]));
    mkdirSync(join(folder, `in${ESC}[1m`));
    table = join(folder, `in${ESC}[1m`, `t${ESC}[31m`);
    const columns = [LONG, "価格", "xy"].flatMap((name) => ["--column", `${name}=${raw}`]);
    const attributes = [`es${ESC}[31m="a\\u001b[0m\\u009b1m\\u202e"`, `long=${"v".repeat(300)}`];
    const argv = ["create", table, "--as", "ctable", ...columns];
    expect((await runCli([...argv, ...attributes.flatMap((each) => ["--attr", each])])).code).toBe(0);
    // As another program may have named it.
    const roots = join(table, "__rootdirs__");
    writeFileSync(roots, readFileSync(roots, "utf8").replace('"xy"', '"x\\u009b2J"'));
    renameSync(join(table, "xy"), join(table, "x\u009b2J"));
    const texts = await createArray(join(folder, "texts"), { dtype: "<U8" });
    await texts.append(["a\u009b31m", "b\u202e", "c\r\u001b"]);
    await texts.close();
    expect((await runCli(["convert", table, join(folder, `z${ESC}[5m`)])).code).toBe(0);
  });
  it.each(["info", "ls", "chunks", "columns", "attrs", "verify", "cat"])(
    "%s prints none of them raw on a terminal, as text or as JSON",
    async (command) => {
      const json = command === "cat" ? ["--format", "json"] : ["--json"];
      const places = [table, join(folder, `z${ESC}[5m`), ...(command === "columns" ? [] : [folder])];
      for (const place of command === "cat" ? [table, join(folder, "texts")] : places) {
        for (const extra of [[], json, ...(command === "cat" ? [["--format", "csv"]] : [])]) {
          const { code, out, err } = await runCli([command, place, ...extra], { terminal: true });
          expect([command, extra, out + err === ""]).toEqual([command, extra, false]);
          const shown = `${out}${err}`.replaceAll("\r", "").replaceAll("\u001b[K", "");
          expect([command, place, extra, STEERING.exec(shown)?.[0]]).toEqual([
            command,
            place,
            extra,
            undefined,
          ]);
          if (extra === json && code === 0) expect(() => JSON.parse(out)).not.toThrow();
        }
      }
    },
  );

  it("the names of chunk files are cut at the front only if the terminal is narrow", async () => {
    const far = join(folder, "a".repeat(50), "table");
    mkdirSync(join(folder, "a".repeat(50)));
    const argv = ["create", far, "--as", "ctable", "--column", `${LONG}=${join(folder, "raw.npy")}`];
    expect((await runCli(argv)).code).toBe(0);
    const shown = await runCli(["chunks", far], { terminal: true, columns: 110 });
    const [, header = "", line = ""] = shown.out.split("\n");
    expect([header.length <= 110, line.length <= 110, line]).toEqual([
      true,
      true,
      expect.stringMatching(/\.\.\.\S*__0\.blp /),
    ]);
    expect(header.indexOf("offset") + 6).toBe(line.indexOf(" 16 ") + 3);
    const [whole, narrow] = [
      await runCli(["chunks", far]),
      await runCli(["chunks", far], { terminal: true, columns: 40 }),
    ];
    expect(whole.out).toContain(`${LONG}/data/__0.blp `);
    expect(narrow.out).toContain(`file ${LONG}/data/__0.blp\n`);
  });

  it("errors and their stack traces contain none either", async () => {
    const { code, err } = await runCli(["info", `${table}${ESC}[0m`, "--debug"], { terminal: true });
    expect([code, STEERING.exec(err)?.[0]]).toEqual([1, undefined]);
    const usage = await runCli(["info", "a", `--x${ESC}[0m`], { terminal: true });
    expect([usage.code, STEERING.exec(usage.err)?.[0]]).toEqual([2, undefined]);
  });

  it("JSON that is redirected has the attributes unchanged", async () => {
    const { out } = await runCli(["attrs", table]);
    expect(out).toContain("\u009b1m\u202e");
    const shown = await runCli(["attrs", table], { terminal: true });
    expect(JSON.parse(shown.out)).toEqual(JSON.parse(out));
  });

  it("bytes that are not text are not printed to a terminal unless requested", async () => {
    const file = join(folder, "bytes.bin");
    for (const [bytes, isText] of [
      [Buffer.from("a line\n\tzwei Grüße\r\n"), true],
      [Buffer.from(`red${ESC}[31m`), false],
      [Buffer.from("\u009b31m"), false],
    ] as const) {
      writeFileSync(file, bytes);
      expect((await runCli(["compress", file, `${file}.blp`, "--force"])).code).toBe(0);
      const shown = await runCli(["cat", `${file}.blp`], { terminal: true });
      expect([shown.code, shown.bytes]).toEqual(isText ? [0, bytes] : [2, Buffer.alloc(0)]);
      if (!isText) expect(shown.err).toContain("--format raw");
      expect((await runCli(["cat", `${file}.blp`])).bytes).toEqual(bytes);
      const asked = await runCli(["cat", `${file}.blp`, "--format", "raw"], { terminal: true });
      expect(asked.bytes).toEqual(bytes);
    }
  });
});
