/** The command on arrays whose superchunks are stored in several folders, and in S3. */
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { convert, create, edit, FileStore, open, openArray } from "../../src/node/index.ts";
import { commandsIn, readExamples, runCommand } from "../examples.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "../node/s3/server.ts";
import { serveObjects } from "../store/server.ts";
import { runCli } from "./harness.ts";

const ramp = (count: number): Int32Array => Int32Array.from({ length: count }, (_, i) => i);

let s3: TestS3;
let restoreEnvironment: () => void;
beforeAll(async () => {
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3);
});
afterAll(async () => {
  restoreEnvironment();
  await s3.close();
});

/** Runs a command that must succeed; returns its JSON. */
async function done(...argv: readonly string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await runCli([...argv, "--json"]);
  expect([code, err]).toEqual([0, expect.any(String)]);
  return JSON.parse(out) as Record<string, unknown>;
}

interface Spread {
  readonly folder: string;
  readonly root: string;
  readonly cold: string;
}

/** An array of 100 rows in 7 superchunks of 16 rows, in its folder and another one. */
async function spread(...more: readonly string[]): Promise<Spread> {
  const folder = temporaryFolder();
  const [root, cold] = [join(folder, "array"), join(folder, "cold disk")];
  writeFileSync(join(folder, "rows"), ramp(100));
  const cut = ["--chunklen", "4", "--superchunklen", "4", "--dtype", "<i4", "--from", join(folder, "rows")];
  await done("create", root, ...cut, "--place", `cold=${cold}`, ...more);
  return { folder, root, cold };
}

async function valuesOf(root: string, allow: readonly string[]): Promise<unknown> {
  const array = await openArray(root, { allow });
  try {
    return [...((await array.get()).data as Int32Array)];
  } finally {
    await array.close();
  }
}

const spansOf = ({ places }: Record<string, unknown>): unknown =>
  Object.fromEntries((places as { name: string; spans: unknown }[]).map(({ name, spans }) => [name, spans]));

test("chunks prints the place where each superchunk is stored", async () => {
  const { root, cold } = await spread();
  const { code, out } = await runCli(["chunks", root, "--allow", cold, "--json"]);
  expect(code).toBe(0);
  const files = new Set((JSON.parse(out) as { file: string }[]).map(({ file }) => file));
  expect(files.size).toBe(7);
  for (const file of files) {
    expect(existsSync(join(file.startsWith("data/") ? root : "", file))).toBe(true);
    if (!file.startsWith("data/")) expect(file.startsWith(cold)).toBe(true);
  }
  expect([...files].filter((file) => file.startsWith("data/"))).toHaveLength(4);
  const lines = await runCli(["chunks", root, "--allow", cold]);
  for (const file of files) expect(lines.out).toContain(`  ${file}`);
});

test("create spreads superchunks; every command requires the place to be allowed, and says how", async () => {
  const { root, cold } = await spread();
  for (const command of ["info", "cat", "verify", "ls", "chunks", "compact", "append", "set", "resize"]) {
    const more: Record<string, string[]> = {
      append: [join(root, "meta/sizes")],
      set: ["--slice", "0", "--value", "1"],
      resize: ["5"],
    };
    const argv = [command, root, ...(more[command] ?? [])];
    const { code, out, err } = await runCli(argv);
    expect([command, code, out + err]).toEqual([
      command,
      1,
      expect.stringContaining(`--allow "file://${cold}/"`),
    ]);
    expect(out + err).toContain('"cold"');
  }
  expect(await valuesOf(root, [cold])).toEqual([...ramp(100)]);
  expect(JSON.parse((await runCli(["cat", root, "--allow", cold, "--format", "json"])).out)).toEqual([
    ...ramp(100),
  ]);
  expect((await runCli(["verify", root, "--allow", cold])).code).toBe(0);
  const { cbytes } = await done("info", root, "--allow", cold);
  expect(cbytes).toBeGreaterThan(0);
});

test("place lists, moves, adds and removes; a place that is not allowed is listed without its bytes", async () => {
  const { folder, root, cold } = await spread();
  const spans = [
    [0, 0],
    [2, 2],
    [4, 4],
    [6, 6],
  ];
  expect(await done("place", root)).toMatchObject({
    places: [
      { name: "data", superchunks: 4, spans, patches: 0, bytes: expect.any(Number) as number },
      { name: "cold", superchunks: 3, prefix: `file://${cold}/` },
    ],
  });
  const { out } = await runCli(["place", root]);
  expect(out).toMatch(/cold.*3 superchunks.*not allowed.*1, 3, 5/);
  renameSync(cold, `${cold}-away`);
  expect((await runCli(["place", root, "--allow", cold])).out).toMatch(
    /cold.*3 superchunks.*not there.*1, 3, 5/,
  );
  renameSync(`${cold}-away`, cold);
  const third = join(folder, "third");
  const moved = await done(
    "place",
    root,
    "--allow",
    cold,
    "--add",
    `third=${third}`,
    "--move",
    "0..2",
    "--to",
    "third",
  );
  expect(moved).toMatchObject({ moved: { superchunks: 3 } });
  expect(spansOf(moved)).toEqual({
    data: [
      [4, 4],
      [6, 6],
    ],
    cold: [
      [3, 3],
      [5, 5],
    ],
    third: [[0, 2]],
  });
  expect((await runCli(["place", root, "--allow", cold, third, "--remove", "third"])).err).toMatch(
    /move them to another/,
  );
  const back = await done("place", root, "--allow", cold, third, "--move", "5..", "--to", "data");
  expect(back).toMatchObject({ moved: { superchunks: 1 } });
  await done("place", root, "--allow", cold, third, "--move", "all", "--to", "data");
  await done("place", root, "--allow", cold, third, "--remove", "third", "--remove", "cold");
  expect(readdirSync(cold)).toEqual([]);
  expect(await valuesOf(root, [])).toEqual([...ramp(100)]);
});

test("every writing command keeps the rows right", async () => {
  const { folder, root, cold } = await spread();
  const allow = ["--allow", cold];
  writeFileSync(join(folder, "more"), Int32Array.of(100, 101, 102));
  await done("append", root, join(folder, "more"), ...allow);
  await done("set", root, "--slice", "17", "--value", "-1", ...allow);
  await done("delete", root, "--rows", "40:60", ...allow);
  await done("resize", root, "90", ...allow);
  await done("attrs", root, "--set", "a=1", "--json", ...allow);
  await done("compact", root, ...allow);
  const rows = [...ramp(103)];
  rows[17] = -1;
  rows.splice(40, 20);
  expect(await valuesOf(root, [cold])).toEqual([...rows, ...new Array<number>(7).fill(0)]);
  expect((await runCli(["verify", folder, ...allow])).code).toBe(0);
});

test("compact --move-older-than moves old superchunks to the slow place", async () => {
  const { root, cold } = await spread("--place-by", "tier");
  const moved = await done("compact", root, "--allow", cold, "--move-older-than", "3");
  expect(moved).toMatchObject({ moved: { superchunks: 4 } });
  expect(await done("compact", root, "--allow", cold, "--move-older-than", "1d")).toMatchObject({
    moved: { superchunks: 0 },
  });
  expect(spansOf(await done("place", root))).toEqual({ data: [[4, 6]], cold: [[0, 3]] });
  expect(await valuesOf(root, [cold])).toEqual([...ramp(100)]);
});

test("superchunks are written to a place in S3, read back and moved", async () => {
  const { root } = await spread("--place", `s3=s3://${s3.bucket}/slow`);
  const { cold } = { cold: join(root, "..", "cold disk") };
  const allow = [cold, `s3://${s3.bucket}/slow`];
  expect(s3.log.some((line) => line.startsWith("PUT") && line.includes("/slow/"))).toBe(true);
  expect(await valuesOf(root, allow)).toEqual([...ramp(100)]);
  await done("place", root, "--allow", ...allow, "--move", "all", "--to", "s3");
  expect(spansOf(await done("place", root, "--allow", ...allow))).toEqual({
    data: [],
    cold: [],
    s3: [[0, 6]],
  });
  expect(await valuesOf(root, allow)).toEqual([...ramp(100)]);
  await done("resize", root, "50", "--allow", ...allow);
  expect(await valuesOf(root, allow)).toEqual([...ramp(50)]);
  // The endpoint is given when opening, and not stored.
  const named = [cold, `s3://${s3.bucket}/slow?endpoint=${s3.endpoint}&region=us-east-1`];
  expect(await valuesOf(root, named)).toEqual([...ramp(50)]);
});

test("an array in S3 can have a place on the local disk", async () => {
  const folder = temporaryFolder();
  const place = join(folder, "near");
  const root = `s3://${s3.bucket}/far`;
  writeFileSync(join(folder, "rows"), ramp(100));
  const cut = ["--chunklen", "4", "--superchunklen", "4", "--dtype", "<i4", "--from", join(folder, "rows")];
  await done("create", root, ...cut, "--place", place);
  expect(spansOf(await done("place", root))).toMatchObject({
    place1: [
      [1, 1],
      [3, 3],
      [5, 5],
    ],
  });
  expect(await valuesOf(root, [place])).toEqual([...ramp(100)]);
  expect((await runCli(["verify", root, "--allow", place])).code).toBe(0);
});

test("convert takes an array with places, alone and in a folder of many", async () => {
  const { folder, root, cold } = await spread();
  const zarr = join(folder, "out.zarr");
  expect((await runCli(["convert", root, zarr, "--allow", cold, "--verify"])).err).not.toMatch(/error/i);
  expect(await valuesOf(zarr, [])).toEqual([...ramp(100)]);
  const many = temporaryFolder();
  cpSync(root, join(many, "a"), { recursive: true });
  cpSync(root, join(many, "b"), { recursive: true });
  const { code } = await runCli(["convert", many, join(folder, "many.zarr"), "--allow", cold]);
  expect(code).toBe(0);
  expect(await valuesOf(join(folder, "many.zarr", "b"), [])).toEqual([...ramp(100)]);
});

test("an array with places gets references, indexes and plans; a link is refused", async () => {
  const { folder, root, cold } = await spread();
  const set = join(folder, "set.json");
  await done("virtualize", root, set, "--to", "kerchunk", "--allow", cold);
  expect(await valuesOf(join(set, "array"), [folder])).toEqual([...ramp(100)]);
  expect((await runCli(["index", root, "--allow", cold])).code).toBe(0);
  const many = temporaryFolder();
  cpSync(root, join(many, "a"), { recursive: true });
  const [plan, zarr] = [join(folder, "plan.json"), join(folder, "out.zarr")];
  for (const argv of [
    ["plan", many, zarr, "-o", plan, "--allow", cold],
    ["run", plan],
    ["finish", plan],
  ])
    expect(await runCli(argv)).toMatchObject({ code: 0 });
  expect(await valuesOf(join(zarr, "a"), [])).toEqual([...ramp(100)]);
  expect(await runCli(["link", root])).toMatchObject({
    code: 1,
    err: expect.stringContaining("Zarr readers") as string,
  });
});

test("plans to verify, virtualize and repair keep what is allowed", async () => {
  const { folder, root, cold } = await spread();
  const planned = async (work: string, to: string, ...more: readonly string[]): Promise<number> => {
    const plan = join(folder, `${work}${more.length}.json`);
    const made = ["plan", root, to, "-o", plan, "--for", work, ...more];
    expect(await runCli(made)).toMatchObject({ code: 0 });
    // The processes that run it get no further settings.
    await runCli(["run", plan]);
    return (await runCli(["finish", plan])).code;
  };
  const report = join(folder, "report.jsonl");
  expect(await planned("verify", report, "--allow", cold)).toBe(0);
  expect(JSON.parse(readFileSync(report, "utf8"))).toMatchObject({ ok: true, chunks: 25 });
  expect(await planned("verify", `${report}.refused`)).not.toBe(0);
  expect(readFileSync(`${report}.refused`, "utf8")).toContain("is not allowed");
  const set = join(folder, "refs.json");
  expect(await planned("virtualize", set, "--allow", cold)).toBe(0);
  expect(await valuesOf(join(set, "array"), [folder])).toEqual([...ramp(100)]);
  const [id = ""] = readdirSync(cold);
  rmSync(join(cold, id, "__2__.bin"));
  const saved = join(folder, "saved");
  await planned("repair", saved, "--holes", "drop", "--allow", cold);
  const kept = [...ramp(100)].filter((value) => value < 16 || value >= 32);
  expect(await valuesOf(join(saved, "array"), [])).toEqual(kept);
});

test("a place on a web server is read, and new superchunks are written elsewhere", async () => {
  const { folder, root, cold } = await spread();
  const names = readdirSync(cold, { recursive: true, encoding: "utf8" }).filter((name) =>
    /\.\w+$/.test(name),
  );
  const server = await serveObjects(names.map((name) => [name, readFileSync(join(cold, name))]));
  try {
    const prefix = `${server.url}/`;
    const storage = join(root, "meta/storage");
    const text = readFileSync(storage, "utf8").replace(/"file:[^"]*"/, JSON.stringify(prefix));
    writeFileSync(storage, text);
    expect(await valuesOf(root, [prefix])).toEqual([...ramp(100)]);
    expect(await runCli(["verify", root, "--allow", prefix])).toMatchObject({ code: 0 });
    const { places } = await done("place", root, "--allow", prefix);
    const sizes = [...server.objects].map(([name, { length }]) => (name.endsWith(".bin") ? length : 0));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(places).toMatchObject([{ name: "data" }, { name: "cold", superchunks: 3, bytes }]);
    await done("append", root, join(folder, "rows"), "--allow", prefix);
    expect(await valuesOf(root, [prefix])).toEqual([...ramp(100), ...ramp(100)]);
    expect(server.log.filter((line) => !/^(?:GET|HEAD) /.test(line))).toEqual([]);
    const mended = join(folder, "mended");
    await done("repair", root, mended, "--allow", prefix);
    expect(await valuesOf(mended, [])).toEqual([...ramp(100), ...ramp(100)]);
  } finally {
    await server.close();
  }
});

test("a place that has moved is read through a container that says where", async () => {
  const { folder, root, cold } = await spread();
  renameSync(cold, join(folder, "moved"));
  const location = `file://${join(folder, "moved")}/`;
  const containers = [{ name: "cold", prefix: `file://${cold}/`, store: "local" as const, location }];
  const array = await open(root, { containers });
  expect(array.kind === "array" && [...((await array.get()).data as Int32Array)]).toEqual([...ramp(100)]);
  await array.close();
  // Its disk is not mounted: nothing is written into the empty folder in its place.
  const { code, err } = await runCli(["resize", root, "5", "--allow", cold]);
  expect([code, err]).toEqual([1, expect.stringContaining("mounted")]);
  expect(existsSync(cold)).toBe(false);
  const verified = await runCli(["verify", root, "--allow", cold]);
  expect([verified.code, verified.out]).toEqual([
    1,
    expect.stringMatching(/^FAILED .*\n.*NOT_FOUND.*mounted/),
  ]);
  expect(verified.out).not.toContain("repair");
});

test("a link out of a place is refused", async () => {
  const { folder, root, cold } = await spread();
  const [id = ""] = readdirSync(cold);
  const [name = ""] = readdirSync(join(cold, id)).filter((each) => each.endsWith(".bin"));
  const outside = join(folder, "outside");
  renameSync(join(cold, id, name), outside);
  symlinkSync(outside, join(cold, id, name));
  const { code, out } = await runCli(["verify", root, "--allow", cold]);
  expect([code, out]).toEqual([3, expect.stringContaining("UNSAFE_PATH")]);
});

test("several writers append together, and a repaired copy has the whole superchunks of all places", async () => {
  const { folder, root, cold } = await spread();
  const append = (): Promise<unknown> =>
    done("append", root, join(folder, "rows"), "--shared", "--allow", cold);
  await Promise.all([append(), append()]);
  const values = (await valuesOf(root, [cold])) as number[];
  const sorted = (some: readonly number[]): number[] => [...some].sort((a, b) => a - b);
  // Full superchunks alternate between the two.
  expect(values.slice(0, 100)).toEqual([...ramp(100)]);
  expect(sorted(values.slice(100))).toEqual(sorted([...ramp(100), ...ramp(100)]));
  const [id = ""] = readdirSync(cold);
  rmSync(join(cold, id, "__2__.bin"));
  expect((await runCli(["verify", root, "--allow", cold])).out).toContain(
    `superchunk repair ${root} DST --allow '${cold}' --holes fill`,
  );
  const mended = join(folder, "mended");
  const { code, err } = await runCli(["repair", root, mended, "--allow", cold, "--holes", "fill"]);
  expect([code, err]).toEqual([3, expect.stringContaining("__2__.bin")]);
  const filled = values.map((value, row) => (row >= 16 && row < 32 ? 0 : value));
  expect(await valuesOf(mended, [])).toEqual(filled);
  expect((await runCli(["repair", root, "--in-place", "--allow", cold, "--holes", "fill"])).code).toBe(3);
  expect(await valuesOf(root, ["--allow", cold])).toEqual(filled);
});

test("options that do not work with places are refused with the reason", async () => {
  const { folder, root, cold } = await spread();
  const refused = async (reason: RegExp, ...argv: readonly string[]): Promise<void> => {
    const { code, err } = await runCli(argv);
    expect([argv, code, err]).toEqual([argv, expect.any(Number), expect.stringMatching(reason)]);
    expect(code).not.toBe(0);
  };
  const rows = join(folder, "rows");
  await refused(/is not allowed/, "append", root, rows, "--shared");
  await refused(
    /Zarr array as well/,
    "create",
    join(folder, "z"),
    "--dtype",
    "<i4",
    "--zarr",
    "--place",
    cold,
  );
  await refused(/not overwritten/, "create", root, "--dtype", "<i4", "--overwrite");
  await refused(/is not allowed/, "repair", root, join(folder, "mended"));
  await refused(/is not allowed/, "repair", root, "--in-place");
  await refused(/go together/, "place", root, "--move", "all");
  await refused(
    /superchunks 0 to 99 are not all there: the array has 7, counted from 0; nothing was moved/,
    "place",
    root,
    "--allow",
    cold,
    "--move",
    "0..99",
    "--to",
    "cold",
  );
  for (const range of ["x", "..3", "5..3"])
    await refused(/3\.\.7/, "place", root, "--move", range, "--to", "cold");
  const at = (name: string): string => join(folder, name);
  expect((await runCli(["create", at("tree/plain"), "--dtype", "<i4", "--shape", "10"])).code).toBe(0);
  await refused(/no places/, "compact", at("tree/plain"), "--move-older-than", "3");
  // In a tree it is one that was not read, not a damaged one.
  cpSync(root, join(folder, "tree", "spread"), { recursive: true });
  expect(
    (await runCli(["plan", at("tree"), at("v.jsonl"), "--for", "verify", "-o", at("v.json")])).code,
  ).toBe(0);
  expect((await runCli(["run", at("v.json")])).code).toBe(0);
  const verified = await runCli(["finish", at("v.json")]);
  expect([verified.code, verified.out]).toEqual([1, expect.stringMatching(/^FAILED .*spread/m)]);
  const left = await runCli(["convert", at("tree"), at("tree.zarr")]);
  expect([left.code, left.err]).toEqual([1, expect.stringMatching(/spread: .*not allowed.*UNSUPPORTED/)]);
  await refused(
    /not a folder|secret|password/,
    "place",
    root,
    "--allow",
    cold,
    "--add",
    "https://me:secret@host/a",
  );
  rmSync(cold, { recursive: true });
  await refused(/not there/, "place", root, "--allow", cold, "--move", "0", "--to", "cold");
});

/** What a guide names, as it is here. */
function here(text: string, folder: string): string {
  return text
    .replaceAll(/\/disk(\d)\//g, `${folder}/disk$1/`)
    .replaceAll("s3://bucket/", `s3://${s3.bucket}/guide/`)
    .replaceAll("http://127.0.0.1:9000", s3.endpoint);
}

const examplesWith = (document: string, part: string): string[] =>
  readExamples(document, "sh").filter((block) => block.includes(part));

test("the guides' commands about places run as typed, and do what the guides say", async () => {
  const folder = temporaryFolder();
  const values = ramp(12);
  writeFileSync(
    join(folder, "eurofx.npy"),
    Buffer.concat([encodeNpyHeader(parseDType("<i4", "test"), [12]), Buffer.from(values.buffer)]),
  );
  const [block = "", ...others] = examplesWith("docs/many-machines.md", "--place");
  expect([others.length, block.match(/0\.\.99/g)]).toEqual([0, ["0..99"]]);
  // Ten superchunks instead of a hundred.
  const commands = commandsIn(here(block, folder).replace("0..99", "0..9"));
  expect(commands).toHaveLength(4);
  const outputs: string[] = [];
  for (const words of commands) {
    const small = words.startsWith("create ") ? " --chunklen 1 --superchunklen 1" : "";
    const { code, out, err } = await runCommand(words + small, folder);
    expect([words, code, err]).toEqual([words, 0, expect.not.stringContaining("error")]);
    outputs.push(out);
  }
  expect(outputs[1]?.match(/\d+/g)).toEqual(["0", "1", "2", "3", "4"]);
  const root = join(folder, "disk1/eurofx");
  const allow = [join(folder, "disk2/eurofx"), `s3://${s3.bucket}/guide/eurofx`];
  expect(spansOf(await done("place", root, "--allow", ...allow))).toMatchObject({
    cold: expect.arrayContaining([[0, 9]]),
  });
  expect(await valuesOf(root, allow)).toEqual([...values]);
});

test("the guide's allowed places read what is stored in them: on a disk, and in S3 behind another endpoint", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "rows"), ramp(20));
  const made = [
    "create",
    join(folder, "prices"),
    "--dtype",
    "<i4",
    "--from",
    join(folder, "rows"),
    "--chunklen",
    "4",
    "--superchunklen",
    "1",
  ];
  const [block = "", ...others] = examplesWith("docs/credentials-and-containers.md", "/disk2/prices");
  const commands = commandsIn(here(block.replaceAll('"', ""), folder));
  expect([others.length, commands.length]).toEqual([0, 2]);
  for (const [words = "", place] of [
    [commands[0], join(folder, "disk2/prices")],
    [commands[1], `s3://${s3.bucket}/guide/prices`],
  ]) {
    await done(...made, "--place", `${place}`, "--overwrite");
    const { code, err } = await runCommand(words, folder);
    expect([words, code, err]).toEqual([words, 0, expect.anything()]);
    rmSync(join(folder, "prices"), { recursive: true });
  }
});

test("a copied folder is read but never written; a moved folder stays the owner [FG-21]", async () => {
  const { folder, root, cold } = await spread();
  const copy = join(folder, "copy");
  cpSync(root, copy, { recursive: true });
  const append = (to: string, ...more: readonly string[]): ReturnType<typeof runCli> =>
    runCli(["append", to, join(folder, "rows"), "--allow", cold, ...more]);
  expect((await append(root)).code).toBe(0);
  for (const more of [[], ["--shared"]]) {
    const refused = await append(copy, ...more);
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining(`of the array at ${hostname()}:${root}`),
    ]);
  }
  expect(await valuesOf(root, [cold])).toEqual([...ramp(100), ...ramp(100)]);
  expect(await valuesOf(copy, [cold])).toEqual([...ramp(100)]);
  const moved = join(folder, "moved");
  renameSync(root, moved);
  expect((await append(moved)).code).toBe(0);
  // As if to another disk: at another path, and the folder was made at another time; its inode may be the same.
  const other = join(folder, "other");
  cpSync(moved, other, { recursive: true });
  rmSync(moved, { recursive: true });
  const mark = join(cold, readdirSync(cold)[0] ?? "", "place.json");
  const known = readFileSync(mark, "utf8");
  writeFileSync(mark, known.replace(/inode \d+/, `inode ${statSync(other).ino}`));
  expect(readFileSync(mark, "utf8")).toMatch(/"inode \d+, made \d{19}"/);
  expect(
    await runCli(["place", other, "--allow", cold, "--add", `more=${join(folder, "more")}`]),
  ).toMatchObject({
    code: 1,
    err: expect.stringContaining("--own"),
  });
  expect(await runCli(["place", other, "--allow", cold, "--own"])).toMatchObject({
    code: 0,
    err: `superchunk: ${other}: owns 1 place now\n`,
  });
  expect((await append(other)).code).toBe(0);
  expect((await runCli(["verify", other, "--allow", cold])).code).toBe(0);
});

test("changePlaces takes paths, as create does", async () => {
  const { root, cold, folder } = await spread();
  const more = join(folder, "more");
  const array = await edit(root, { allow: [cold, more] });
  await array.changePlaces({ add: [{ name: "more", prefix: more }] });
  await expect(array.changePlaces({ add: more } as never)).rejects.toThrow("expected a list of paths");
  const places = await array.places();
  await array.close();
  expect(places.map(({ name, prefix }) => [name, prefix])).toEqual([
    ["data", undefined],
    ["cold", `file://${cold}/`],
    ["more", `file://${more}/`],
  ]);
  expect(readdirSync(more)).toHaveLength(1);
  expect(await valuesOf(root, [cold])).toEqual([...ramp(100)]);
});

test("a place in the folder of an array, its own or another, is refused, and nothing is made", async () => {
  const { root, cold, folder } = await spread();
  symlinkSync(root, join(folder, "link"));
  const before = readdirSync(folder, { recursive: true });
  const refusals: [string, RegExp][] = [
    [root, /in the folder of the array .*array; give a folder outside of it/],
    [join(root, "data", "deep"), /in the folder of the array .*array;/],
    [join(folder, "link", "below"), /in the folder of the array .*array;/],
    [join(folder, "new", "below"), /in the folder of the array itself; give a folder outside of it/],
  ];
  for (const [place, message] of refusals) {
    const made = create(join(folder, "new"), { dtype: "<i4", data: [1], places: [place] });
    await expect(made).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      message: expect.stringMatching(message),
    });
  }
  const own = join(root, "more");
  const added = await runCli(["place", root, "--allow", cold, "--add", own]);
  expect(added).toMatchObject({ code: 2, err: expect.stringContaining("in the folder of the array itself") });
  expect(readdirSync(folder, { recursive: true })).toEqual(before);
  expect(await valuesOf(root, [cold])).toEqual([...ramp(100)]);
});

test("a place in a bucket is refused in the prefix of an array", async () => {
  const address = `s3://${s3.bucket}/nested`;
  await (await create(address, { dtype: "<i4", data: [1] })).close();
  const inside = create(join(temporaryFolder(), "a"), { dtype: "<i4", places: [`${address}/data/more`] });
  await expect(inside).rejects.toThrow(`in the folder of the array ${address}; give a folder outside of it`);
  const own = create(`s3://${s3.bucket}/other`, { dtype: "<i4", places: [`s3://${s3.bucket}/other/more`] });
  await expect(own).rejects.toThrow("in the folder of the array itself");
});

test("convert reads places with the opener that it is given: of one array, of a folder of arrays, and joined", async () => {
  const { folder, root, cold } = await spread();
  const openPlace = (): FileStore => new FileStore(cold);
  for (const [source, name] of [
    [root, ""],
    [folder, "array"],
  ] as const) {
    const to = join(temporaryFolder(), "to.zarr");
    await convert(source, to, { openPlace });
    expect((await (await openArray(join(to, name))).get()).data).toEqual(ramp(100));
  }
  const joined = join(temporaryFolder(), "joined.zarr");
  await convert([root, root], joined, { openPlace, concat: true });
  expect((await openArray(joined)).shape).toEqual([200]);
});
