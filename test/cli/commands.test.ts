/** What each command prints, and how it ends, on archives of the corpus. */
import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { COMMAND_NAMES } from "../../cli/command-list.ts";
import { corpusFolder, findFixture, loadArchives } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { type RunResult, runCli } from "./harness.ts";

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

const corpus = (path: string): string => join(corpusFolder, ...path.split("/"));

/** A copy of a `.blp` with one byte of a chunk's payload flipped. */
function damage(path: string): string {
  const bytes = readFileSync(corpus(path));
  const at = bytes.length - 40;
  bytes[at] = (bytes[at] ?? 0) ^ 0x40;
  const file = join(folder, `damaged-${path.split("/").pop()}`);
  writeFileSync(file, bytes);
  return file;
}

function expectOneLine({ err }: RunResult): void {
  expect(err).toMatch(/^superchunk: [^\n]+\n$/);
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

describe("info", () => {
  it("shows a table's properties as an aligned block, and one line per column", async () => {
    const { code, out } = await runCli(["info", corpus("ctable/bcolz-daily-equities")]);
    const lines = out.split("\n");
    expect(code).toBe(0);
    expect(lines.slice(1, 5)).toEqual([
      "dialect    ctable",
      "kind       table",
      "rows       226",
      "size       6,328 bytes (6.18 KiB)",
    ]);
    expect(lines).toContain("attribute  start_session_ns = 1388534400000000000");
    expect(lines).toContain("close   <u4    226         4  lz4 shuffle  904 bytes  864 bytes   1.05");
  });

  it("keeps integers beyond 2^53 in attributes as JSON", async () => {
    const { out } = await runCli(["info", corpus("ctable/bcolz-daily-equities"), "--json"]);
    expect(out).toContain('"start_session_ns": 1388534400000000000');
  });

  it("reports the chunks, the checksum and the fields of a structured array", async () => {
    const { out } = await runCli(["info", corpus("bloscpack-3/array-struct.blp")]);
    expect(out).toContain('dtype     [["id","<u4"],["price","<f8"],["tag","|S4"]]\n');
    expect(out).toContain("chunks    3 of 1,600 bytes (1.56 KiB), lz4, shuffle, typesize 16\n");
    expect(out).toContain("checksum  adler32\n");
  });

  it("of a damaged header ends with 3 and one line; with --json the error is also on stdout", async () => {
    const file = join(folder, "cut.blp");
    writeFileSync(file, readFileSync(corpus("bloscpack-3/array-f8.blp")).subarray(0, 20));
    const plain = await runCli(["info", file]);
    expect([plain.code, plain.out]).toEqual([3, ""]);
    expectOneLine(plain);
    expect(plain.err).toContain(file);
    const json = await runCli(["info", file, "--json"]);
    expect(json.code).toBe(3);
    expect(json.err).toBe(plain.err);
    expect(JSON.parse(json.out)).toMatchObject({ error: { code: "TRUNCATED", path: file } });
  });

  it("of a missing path, or of a file that is not an archive, ends with 1", async () => {
    const missing = await runCli(["info", join(folder, "nothing")]);
    expect(missing.code).toBe(1);
    expectOneLine(missing);
    writeFileSync(join(folder, "notes.txt"), "just a text, long enough to hold any header");
    const other = await runCli(["info", join(folder, "notes.txt"), "--json"]);
    expect(other.code).toBe(1);
    expect(JSON.parse(other.out)).toMatchObject({ error: { code: "UNSUPPORTED" } });
  });

  it("prints no stored character that could control a terminal", async () => {
    const root = join(folder, "evil");
    cpSync(corpus("carray/blz-f8"), root, { recursive: true });
    writeFileSync(join(root, "__attrs__"), JSON.stringify({ "a\u001b[2J": "b\u001b]0;x\u0007\nc" }));
    const { code, out } = await runCli(["info", root]);
    expect(code).toBe(0);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
    expect(out).toContain("\\x1b[2J");
  });

  it("says that an empty folder is empty, and that a missing path does not exist", async () => {
    mkdirSync(join(folder, "empty"));
    for (const [name, reason] of [
      ["empty", "the folder is empty"],
      ["nothing", "no such file or folder"],
    ] as const) {
      const { code, err } = await runCli(["info", join(folder, name)]);
      expect([name, code]).toEqual([name, 1]);
      expect(err).toContain(`superchunk: ${join(folder, name)}: ${reason}`);
      expect((await runCli(["repair", join(folder, name), join(folder, "never")])).err).toBe(err);
    }
  });

  it("follows a symbolic link that the user names", async () => {
    symlinkSync(corpus("bloscpack-3/array-f8.blp"), join(folder, "link.blp"));
    expect((await runCli(["info", join(folder, "link.blp")])).code).toBe(0);
  });
});

describe("ls", () => {
  it("of a missing path, and of a folder without archives, is an error without a table", async () => {
    mkdirSync(join(folder, "empty"));
    for (const [name, reason] of [
      ["nothing", "no such file or folder"],
      ["empty", "no archive in this folder or below"],
    ] as const) {
      const path = join(folder, name);
      const { code, out, err } = await runCli(["ls", path]);
      expect([name, code, out]).toEqual([name, 1, ""]);
      expect(err).toContain(`superchunk: ${path}: ${reason}`);
      const { error } = JSON.parse((await runCli(["ls", path, "--json"])).out) as { error: object };
      expect(error).toMatchObject({ code: "NOT_FOUND", path });
    }
  });

  it("--totals sums up by dialect, dtype and codec, and says what is not counted", async () => {
    const listed = await runCli(["ls", corpusFolder, "--json"]);
    const facts = JSON.parse(listed.out) as {
      kind?: string;
      dialect?: string;
      nbytes?: number;
      cbytes?: number;
    }[];
    const counted = facts.filter(({ kind }) => kind !== undefined && kind !== "group");
    const sum = (key: "nbytes" | "cbytes") => counted.reduce((total, each) => total + (each[key] ?? 0), 0);
    const { code, out } = await runCli(["ls", corpusFolder, "--totals", "--json"]);
    const totals = JSON.parse(out) as Record<string, Record<string, { archives: number }>>;
    expect(code).toBe(listed.code);
    expect(totals).toMatchObject({ archives: counted.length, nbytes: sum("nbytes"), cbytes: sum("cbytes") });
    for (const key of ["dialect", "dtype", "codec"])
      expect(Object.values(totals[key] ?? {}).reduce((total, { archives }) => total + archives, 0)).toBe(
        counted.length,
      );
    expect(Object.keys(totals["codec"] ?? {})).toEqual(
      expect.arrayContaining(["blosclz", "lz4", "zlib", "zstd"]),
    );
    const text = await runCli(["ls", corpusFolder, "--totals"]);
    expect(text.out).toMatch(/^all +\d+ /m);
    expect(text.out).toContain("1 archive not counted: INCOMPLETE");
    expect(await runCli(["info", corpusFolder])).toEqual(text);
    expect(await runCli(["info", corpusFolder, "--json"])).toMatchObject({ code, out });
  });

  it("--csv has one line per archive, with the codec or the error code", async () => {
    const { out } = await runCli(["ls", corpus("ctable"), "--csv"]);
    const [header, ...lines] = out.trimEnd().split("\n");
    expect(header).toBe("path,dialect,kind,dtype,shape,nbytes,cbytes,ratio,codec,error");
    expect(lines[0]).toBe(`${corpus("ctable/bcolz-daily-equities")},ctable,table,,226,6328,6200,1.0206,lz4,`);
    expect(lines).toHaveLength(4);
  });

  it("lists all archives of the corpus, one line each", async () => {
    const { code, out } = await runCli(["ls", corpusFolder]);
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toBe("dialect            dtype      shape                 size   ratio  path");
    for (const { path, dialect } of loadArchives().filter((fixture) => !fixture.refuse)) {
      expect(
        lines.filter(
          (line) => line.startsWith(`${dialect} `) && line.endsWith(`  ${join(corpusFolder, path)}`),
        ),
      ).toHaveLength(1);
    }
    // 11 arrays of Zarr, and the 5 groups that contain three of them.
    expect(lines).toHaveLength(1 + loadArchives().length + 16);
    // The size of an aborted write cannot be known.
    expect(lines.filter((line) => line.startsWith("DAMAGED"))).toEqual([expect.stringContaining("aborted")]);
    expect(code).toBe(3);
  });

  it("reports a damaged archive, continues, and ends with 3", async () => {
    writeFileSync(join(folder, "a.blp"), "blpk");
    cpSync(corpus("bloscpack-3/sum-md5.blp"), join(folder, "b.blp"));
    const { code, out } = await runCli(["ls", folder]);
    expect(code).toBe(3);
    expect(out).toMatch(/\nDAMAGED {12}\S*a\.blp {2}TRUNCATED: /);
    expect(out).toMatch(/\nbloscpack-3 {8}bytes {6}9039 .*b\.blp\n$/);
  });

  it("--json is one array, with the error of each archive that cannot be opened", async () => {
    writeFileSync(join(folder, "a.blp"), "blpk");
    cpSync(corpus("bloscpack-3/sum-md5.blp"), join(folder, "b.blp"));
    const { out } = await runCli(["ls", folder, "--json"]);
    expect(JSON.parse(out)).toMatchObject([
      { path: join(folder, "a.blp"), error: { code: "TRUNCATED" } },
      { path: join(folder, "b.blp"), dialect: "bloscpack-3", kind: "bytes", shape: [9039], nbytes: 9039 },
    ]);
  });

  it("reports a link that leads out of the folder, and lists the others", async () => {
    symlinkSync(corpus("carray/blz-f8"), join(folder, "a-link"));
    cpSync(corpus("bloscpack-3/sum-md5.blp"), join(folder, "b.blp"));
    const { code, out } = await runCli(["ls", folder]);
    expect(code).toBe(0);
    expect(out).toMatch(/LINK {15}\S*a-link {2}a link out of the folder, .*: not followed/);
    expect(out).toContain(join(folder, "b.blp"));
  });

  it("names a dead link that is called like an archive, and passes over others", async () => {
    for (const name of ["prices.bcolz", "notes"]) symlinkSync("gone", join(folder, name));
    const { code, out } = await runCli(["ls", folder]);
    expect(code).toBe(3);
    expect(out).toMatch(/DAMAGED .*prices\.bcolz {2}INCOMPLETE: a symbolic link to gone, where nothing is/);
    expect(out).not.toContain("notes");
  });

  it("of a folder without archives ends with 1", async () => {
    const found = await runCli(["ls", folder, "--json"]);
    expect(found.code).toBe(1);
    expectOneLine(found);
  });
});

describe("chunks", () => {
  it("prints one line per chunk, in columns whose widths are known before the first line", async () => {
    const { code, out } = await runCli(["chunks", corpus("bloscpack-3/array-f8.blp")]);
    const [header, ...lines] = out.trimEnd().split("\n");
    expect(code).toBe(0);
    expect(header).toBe(
      "chunk  file                offset        bytes       stored    ratio  codec     filter      checksum",
    );
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      /^ {4}0 {2}array-f8\.blp {2,}\d+ {9}8192 {2,}\d+ {5}\d\.\d\d {2}zstd {6}shuffle {5}adler32 [0-9a-f]{8}$/,
    );
  });

  it("prints the chunks of one column, or of all columns", async () => {
    const table = corpus("ctable/bcolz-daily-equities");
    const one = JSON.parse((await runCli(["chunks", table, "--column", "close", "--json"])).out);
    expect(one).toHaveLength(4);
    expect(one[3]).toMatchObject({
      column: "close",
      index: 3,
      file: "close/data/__3.blp",
      offset: 16,
      nbytes: 136,
      cname: "lz4",
    });
    expect(JSON.parse((await runCli(["chunks", table, "--json"])).out)).toHaveLength(28);
  });

  it("prints none for an empty array", async () => {
    expect((await runCli(["chunks", corpus("carray/bcolz-empty-f4")])).out).toBe("no chunks\n");
    expect(JSON.parse((await runCli(["chunks", corpus("carray/bcolz-empty-f4"), "--json"])).out)).toEqual([]);
  });

  it("lists an archive's chunks up to the first that cannot be listed, and the other archives in full", async () => {
    const bytes = readFileSync(corpus("bloscpack-3/array-f8.blp"));
    const { offset, nbytes } = JSON.parse(
      (await runCli(["chunks", corpus("bloscpack-3/array-f8.blp"), "--json"])).out,
    )[1] as { offset: number; nbytes: number };
    expect(nbytes).toBe(8192);
    bytes.fill(0xff, offset, offset + 16); // the header of the second chunk
    writeFileSync(join(folder, "a.blp"), bytes);
    cpSync(corpus("bloscpack-3/array-S5.blp"), join(folder, "b.blp"));
    const one = await runCli(["chunks", join(folder, "a.blp"), "--json"]);
    expect(one.code).toBe(3);
    expectOneLine(one);
    expect(JSON.parse(one.out)).toMatchObject([{ index: 0 }]);
    const both = await runCli(["chunks", folder, "--json"]);
    expect(both.code).toBe(3);
    expect(JSON.parse(both.out).slice(0, 3)).toMatchObject([
      { archive: join(folder, "a.blp"), index: 0 },
      { archive: join(folder, "a.blp"), error: { code: expect.any(String), message: expect.any(String) } },
      { archive: join(folder, "b.blp"), index: 0 },
    ]);
    const { code, out } = await runCli(["chunks", folder]);
    expect(code).toBe(3);
    expect(out).toMatch(/^archive .*a\.blp\n.*\n +0 .*\nDAMAGED {2}\w+: .*\narchive .*b\.blp\n.*\n +0 /);
  });

  it("refuses --column for an archive without columns as wrong usage, and an unknown column as not found", async () => {
    expect((await runCli(["chunks", corpus("carray/blz-f8"), "--column", "x"])).code).toBe(2);
    expect((await runCli(["chunks", corpus("ctable/blz-btable"), "--column", "nope"])).code).toBe(1);
  });
});

describe("cat", () => {
  it.each<[string, string[], string]>([
    ["carray/blz-i2-2d", ["--slice", ":2"], "7  32767  5  6  4\n3      4  3  5  2\n"],
    ["carray/blz-i2-2d", ["--slice", "1,-1"], "2\n"],
    ["carray/blz-i2-2d", ["--slice", ":2", "--format", "csv"], "0,1,2,3,4\n7,32767,5,6,4\n3,4,3,5,2\n"],
    ["carray/blz-i2-2d", ["--slice", "1", "--format", "json"], "[\n3,\n4,\n3,\n5,\n2\n]\n"],
    ["carray/blz-i2-2d", ["--slice", "1,0", "--format", "json"], "3\n"],
    ["carray/blz-i2-2d", ["--slice", "5:5", "--format", "json"], "[]\n"],
    [
      "bloscpack-3/array-datetime64-ns.blp",
      ["--slice", ":3"],
      "2012-01-01T21:02:14.000000000\n2012-01-02T02:11:17.000000000\n                          NaT\n",
    ],
    [
      "ctable/bcolz-daily-equities",
      ["--slice", ":2"],
      " open   high    low  close  volume         day  id\n52186  52311  51502  51654  326860  1388793600   3\n51049  51098  50807  50967  794721  1388880000   3\n",
    ],
    [
      "ctable/bcolz-mixed",
      ["--slice", ":2", "--format", "csv"],
      "id,name,price\n5,epsil,1.7208831110635958\n2147483647,0,nan\n",
    ],
    [
      "ctable/bcolz-mixed",
      ["--slice", "-90:2", "--format", "json"],
      '[\n{"id":5,"name":"epsil","price":1.7208831110635958},\n{"id":2147483647,"name":"0","price":"NaN"}\n]\n',
    ],
    [
      "ctable/bcolz-mixed",
      ["--slice", "0", "--format", "csv"],
      "id,name,price\n5,epsil,1.7208831110635958\n",
    ],
    ["ctable/bcolz-mixed", ["--slice", ":2", "--column", "id", "--format", "csv"], "id\n5\n2147483647\n"],
    ["ctable/bcolz-mixed", ["--slice", ":2", "--column", "id", "--format", "json"], "[\n5,\n2147483647\n]\n"],
    ["bloscpack-3/array-struct.blp", ["--slice", "0", "--column", "id", "--format", "csv"], "id\n6\n"],
    [
      "bloscpack-3/array-struct.blp",
      ["--slice", ":1", "--format", "csv"],
      "id,price,tag\n6,1.5022438093204005,\n",
    ],
    ["bloscpack-3/cli-text.blp", ["--slice", "6:11"], "chunk"],
  ])("%s %j prints %j", async (path, options, expected) => {
    const { code, out, err } = await runCli(["cat", corpus(path), ...options]);
    expect(err).toBe("");
    expect(out).toBe(expected);
    expect(code).toBe(0);
  });

  it("of a long array on a terminal prints head and tail, and says how to get the rest", async () => {
    const file = corpus("carray/blz-f8");
    const cut = (await runCli(["cat", file], { terminal: true })).out.trimEnd().split("\n");
    const whole = (await runCli(["cat", file])).out.trimEnd().split("\n");
    expect(whole).toHaveLength(700);
    expect(cut).toHaveLength(41);
    expect(cut[20]).toBe("... 660 rows left out: --all prints them, --slice chooses");
    expect([...cut.slice(0, 20), ...cut.slice(21)].map((line) => line.trim())).toEqual(
      [...whole.slice(0, 20), ...whole.slice(-20)].map((line) => line.trim()),
    );
    const all = (await runCli(["cat", file, "--all"], { terminal: true })).out.trimEnd().split("\n");
    expect(all).toHaveLength(700);
  });

  it("of a slice as raw prints the bytes of that slice, in stored byte order and C order", async () => {
    const file = corpus("bloscpack-3/array-f4-3d-fortran.blp");
    const whole = (await runCli(["cat", file, "--format", "raw"])).bytes;
    const { bytes } = await runCli(["cat", file, "--format", "raw", "--slice", "1:7:2,3,::5"]);
    const expected: Buffer[] = [];
    for (const i of [1, 3, 5])
      for (const k of [0, 5, 10])
        expected.push(whole.subarray(4 * (99 * i + 33 + k), 4 * (99 * i + 33 + k) + 4));
    expect(bytes.equals(Buffer.concat(expected))).toBe(true);
  });

  it("of a column as npy matches numpy's file, with big-endian kept", async () => {
    const { bytes } = await runCli(["cat", corpus("bloscpack-3/array-u2-bigendian.blp"), "--format", "npy"]);
    expect(bytes.subarray(10, 70).toString("latin1")).toBe(
      "{'descr': '>u2', 'fortran_order': False, 'shape': (1500,), }",
    );
    expect(sha256(bytes.subarray(128))).toBe(findFixture("bloscpack-3/array-u2-bigendian.blp").sha256);
  });

  it.each<[string, string[]]>([
    ["ctable/bcolz-mixed", ["--format", "npy"]],
    ["ctable/bcolz-mixed", ["--format", "raw"]],
    ["ctable/bcolz-mixed", ["--slice", "0,0"]],
    ["carray/bzl-f4-3d", ["--format", "csv"]],
    ["carray/blz-f8", ["--column", "x"]],
    ["carray/blz-f8", ["--slice", "700"]],
    ["carray/blz-f8", ["--slice", "::0"]],
    ["carray/blz-f8", ["--format", "xml"]],
  ])("%s %j is wrong usage: exit code 2, one line, nothing on stdout", async (path, options) => {
    const found = await runCli(["cat", corpus(path), ...options]);
    expect([found.code, found.out]).toEqual([2, ""]);
    expectOneLine(found);
  });

  it("of a damaged chunk ends with 3 and prints none of its values", async () => {
    const file = damage("bloscpack-3/sum-sha1.blp");
    const found = await runCli(["cat", file]);
    expect(found.code).toBe(3);
    expect(found.err).toContain(`${file}: chunk 2: `);
    const whole = (await runCli(["cat", corpus("bloscpack-3/sum-sha1.blp")])).bytes;
    expect(found.bytes.equals(whole.subarray(0, 8192))).toBe(true);
  });
});

describe("verify", () => {
  it("names the file, chunk and fault of each finding, sums up, and ends with 3", async () => {
    const file = damage("bloscpack-3/sum-sha1.blp");
    const { code, out } = await runCli(["verify", corpus("bloscpack-3/sum-md5.blp"), file]);
    const lines = out.trimEnd().split("\n");
    expect(code).toBe(3);
    expect(lines[0]).toMatch(/^ok {7}\S*sum-md5\.blp {2}bloscpack-3, 3 chunks, 3 checksums, 8\.83 KiB$/);
    expect(lines[1]).toMatch(/^DAMAGED {2}\S*damaged-sum-sha1\.blp/);
    expect(lines[2]).toContain(`error CHECKSUM_MISMATCH: ${file}: chunk 2: `);
    expect(lines.at(-1)).toMatch(/^2 archives: 1 ok, 1 damaged, 5 chunks, /);
  });

  it("checks whole folders, and continues after a missing path", async () => {
    cpSync(corpus("ctable/blz-btable"), join(folder, "table"), { recursive: true });
    rmSync(join(folder, "table", "x", "data", "__0.blp"));
    cpSync(corpus("carray/blz-f8"), join(folder, "whole"), { recursive: true });
    const { code, out } = await runCli(["verify", folder, join(folder, "nothing"), "--json"]);
    const found = JSON.parse(out);
    expect(code).toBe(3);
    expect(found.ok).toBe(false);
    expect(found.archives.map((each: { ok: boolean }) => each.ok)).toEqual([false, true, false]);
    expect(found.archives[2]).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(found.totals).toMatchObject({ archives: 3, damaged: 1, failed: 1 });
  });

  it("does not count warnings as damage", async () => {
    cpSync(corpus("ctable/blz-btable"), join(folder, "table"), { recursive: true });
    appendFileSync(join(folder, "table", "y", "data", "__0.blp"), "more");
    const { code, out } = await runCli(["verify", join(folder, "table")]);
    expect(out).toContain("  warning TRAILING: ");
    expect(code).toBe(0);
  });
});

describe("decompress", () => {
  const source = "bloscpack-3/cli-text.blp";

  it("writes x.blp to x, and leaves the source unchanged", async () => {
    const file = join(folder, "notes.txt.blp");
    cpSync(corpus(source), file);
    const { code, out } = await runCli(["decompress", file]);
    expect([code, out]).toEqual([0, ""]);
    expect(sha256(readFileSync(join(folder, "notes.txt")))).toBe(findFixture(source).sha256);
    expect(readdirSync(folder).sort()).toEqual(["notes.txt", "notes.txt.blp"]);
  });

  it("refuses an OUT that exists, unless --force is given", async () => {
    const out = join(folder, "out");
    writeFileSync(out, "mine");
    const refused = await runCli(["decompress", corpus(source), out]);
    expect(refused.code).toBe(1);
    expectOneLine(refused);
    expect(readFileSync(out, "utf8")).toBe("mine");
    expect((await runCli(["decompress", "--force", corpus(source), out])).code).toBe(0);
    expect(sha256(readFileSync(out))).toBe(findFixture(source).sha256);
  });

  it("reads stdin and writes stdout if they are named -", async () => {
    const { code, bytes } = await runCli(["decompress", "-", "-"], { stdin: readFileSync(corpus(source)) });
    expect(code).toBe(0);
    expect(sha256(bytes)).toBe(findFixture(source).sha256);
  });

  it("names stdin if the damaged input came from there", async () => {
    const stdin = readFileSync(damage("bloscpack-3/sum-sha1.blp"));
    const { code, err } = await runCli(["decompress", "-", join(folder, "out")], { stdin });
    expect(code).toBe(3);
    expect(err).toMatch(/^superchunk: stdin: chunk 2: [^\n]+\n$/);
  });

  it("leaves nothing behind if the archive is damaged", async () => {
    const found = await runCli(["decompress", damage("bloscpack-3/sum-sha1.blp"), join(folder, "out")]);
    expect(found.code).toBe(3);
    expect(readdirSync(folder)).toEqual(["damaged-sum-sha1.blp"]);
  });

  it("writes an array as raw bytes, or as .npy if OUT has that extension", async () => {
    const fixture = findFixture("bloscpack-3/array-i4-2d.blp");
    await runCli(["decompress", fixture.file, join(folder, "raw")]);
    await runCli(["decompress", fixture.file, join(folder, "x.npy")]);
    expect(sha256(readFileSync(join(folder, "raw")))).toBe(fixture.sha256);
    const npy = readFileSync(join(folder, "x.npy"));
    expect(npy.subarray(0, 6).toString("latin1")).toBe("\u0093NUMPY");
    expect(sha256(npy.subarray(128))).toBe(fixture.sha256);
  });

  it("needs OUT if the name does not imply it, and refuses tables", async () => {
    expect((await runCli(["decompress", corpus("carray/blz-f8")])).code).toBe(2);
    expect((await runCli(["decompress", corpus("ctable/blz-btable"), join(folder, "out")])).code).toBe(2);
    expect(existsSync(join(folder, "out"))).toBe(false);
  });
});

describe("wrong usage", () => {
  it.each([
    [[]],
    [["nonsense"]],
    [["info"]],
    [["info", "a", "b"]],
    [["cat", "--nonsense", "x"]],
    [["convert", "a"]],
  ])("%j ends with 2", async (argv) => {
    const { code, out, err } = await runCli(argv);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).not.toBe("");
  });

  it("wrong usage is one line that names the help page", async () => {
    expect((await runCli(["info", "--jsn", "x"])).err).toBe(
      `superchunk: unknown option '--jsn' (Did you mean --json?) See "superchunk info --help".\n`,
    );
    expect((await runCli(["inf", "x"])).err).toBe(
      `superchunk: unknown command 'inf' (Did you mean info?) See "superchunk --help".\n`,
    );
    expect((await runCli(["completion", "tcsh"])).err).toContain('See "superchunk completion --help".');
  });

  it("says that an option took the path as one more of its values", async () => {
    for (const argv of [
      ["cat", "--allow", ".", "refs.json"],
      ["convert", "--allow", ".", "refs.json", "out.zarr"],
    ])
      expect((await runCli(argv)).err).toContain(
        "'; --allow takes all words that follow it, so give it last. See",
      );
    expect((await runCli(["verify", "--allow", ".", "refs.json"])).err).toContain(
      "verify needs a path (before --allow), or --files-from LIST",
    );
  });

  it("prints the error on stdout too with --json", async () => {
    const { code, out } = await runCli(["info", "--json"]);
    expect(code).toBe(2);
    expect(JSON.parse(out)).toEqual({
      error: { code: "USAGE", message: "missing required argument 'path'" },
    });
  });

  it("--debug shows where an error comes from", async () => {
    const { err } = await runCli(["info", join(folder, "nothing"), "--debug"]);
    expect(err).toMatch(/\n {4}at .*\n/);
  });
});

describe("help", () => {
  it("of every command has examples, with options that the command has", async () => {
    for (const command of COMMAND_NAMES) {
      const { code, out } = await runCli([command, "--help"]);
      expect([command, code]).toEqual([command, 0]);
      const [options = "", examples = ""] = out.split(/^Examples?:$/m);
      const calls = [...examples.matchAll(/superchunk ([a-z]+)([^|\n]*)/g)].filter(
        ([, named]) => named === command,
      );
      expect([command, calls.length]).not.toEqual([command, 0]);
      for (const [, , words = ""] of calls)
        for (const [option] of words.matchAll(/(?<= )--[a-z-]+/g))
          expect([command, option, options.includes(` ${option} `)]).toEqual([command, option, true]);
    }
  });

  it("lists the exit codes, and --version prints the package's version", async () => {
    expect((await runCli(["--help"])).out).toContain("3 stored bytes contradict themselves");
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    expect((await runCli(["--version"])).out).toBe(`${version}\n`);
  });
});
