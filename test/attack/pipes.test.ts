/** A pipe, a socket or a device in place of a file: no command waits for its other end. */
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildPackage } from "../cli/built.ts";
import { lockFromAfar } from "../cli/foreign-lock.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { sample, sweep } from "../scope.ts";
import { eachOf, type Outcome, PATIENCE_MS, runProcess } from "./command.ts";

/** Processes at a time. */
const WIDTH = 3;

let folder: string;
let main: string;
const servers: Server[] = [];

beforeAll(async () => {
  folder = temporaryFolder();
  main = await buildPackage(folder);
});

afterAll(async () => {
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
});

const run = (...argv: string[]): Promise<Outcome> => runProcess(process.execPath, [main, ...argv]);

/** Without a process, what hangs ends only with the time of the test. */
const runHere = async (...argv: string[]): Promise<Outcome> => ({ hung: false, ...(await runCli(argv)) });

/** What can be in a file's place. Making a device takes privileges that a test may lack, so a link points to one. */
const KINDS = {
  pipe: async (path: string): Promise<void> => void execFileSync("mkfifo", [path]),
  socket: async (path: string): Promise<void> => {
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(path, resolve));
  },
  "link to a device": async (path: string): Promise<void> => fs.symlinkSync("/dev/zero", path),
} as const;

/** The others take as long again, and follow the same code path. */
const KINDS_TRIED: readonly (keyof typeof KINDS)[] = sweep(["pipe", "socket", "link to a device"], ["pipe"]);

/** A copy of an archive of the corpus, or an array made by the command, in its own folder. */
let places = 0;
function copyOf(source: string): string {
  const root = join(folder, `p${places++}`, "a");
  fs.mkdirSync(dirname(root));
  fs.cpSync(source, root, { recursive: true });
  return root;
}

/** Replaces a file with something else. */
async function replace(path: string, kind: keyof typeof KINDS): Promise<void> {
  fs.rmSync(path, { recursive: true, force: true });
  await KINDS[kind](path);
}

/** `superchunk` arguments for an archive and an input. */
type Argv = (root: string, input: string) => string[];

const append: Argv = (root, input) => ["append", root, input];
const READERS: readonly Argv[] = [
  (root) => ["info", root],
  (root) => ["verify", root],
  (root) => ["cat", root],
  (root) => ["convert", root, `${root}.zarr`],
];

interface Case {
  readonly archive: string;
  readonly file: string;
  readonly commands: readonly Argv[];
}

const CASES: readonly Case[] = [
  {
    archive: "own",
    file: "meta/lock",
    commands: [
      append,
      (root) => ["resize", root, "3"],
      (root, input) => ["set", root, "--slice", "0:5", input],
      (root) => ["attrs", root, "--set", "a=1"],
      (root) => ["compact", root],
      (root) => ["repair", root, "--in-place"],
    ],
  },
  { archive: "own", file: "meta/sizes", commands: [...READERS, append] },
  { archive: "own", file: "meta/storage", commands: [...READERS, append] },
  { archive: "own", file: "data/__1__.bin", commands: READERS.slice(1) },
  { archive: "carray/blz-f8", file: "meta/sizes", commands: [...READERS, append] },
  { archive: "carray/blz-f8", file: "data/__0.blp", commands: READERS.slice(1) },
  { archive: "carray/blz-f8", file: "__attrs__", commands: READERS },
  { archive: "bloscpack-3/array-f8.blp", file: "", commands: [...READERS, append] },
  { archive: "bloscpack-3/array-f8.blp", file: ".journal", commands: [append] },
];

describe.skipIf(process.platform === "win32")("paths that are not regular files", () => {
  let own: string;
  let input: string;

  beforeAll(async () => {
    input = join(folder, "input.npy");
    fs.writeFileSync(input, npyOf(5));
    own = join(folder, "own");
    expect((await runHere("create", own, "--from", input)).code).toBe(0);
  });

  it.each(KINDS_TRIED)("as a %s is refused at once in place of any file", async (kind) => {
    const runs = CASES.flatMap(({ archive, file, commands }) =>
      commands.map((command) => ({ archive, file, command })),
    );
    const outcomes = await eachOf(sample(runs, 4), WIDTH, async ({ archive, file, command }) => {
      const root = copyOf(archive === "own" ? own : join(corpusFolder, archive));
      await replace(file.startsWith(".") || file === "" ? `${root}${file}` : join(root, file), kind);
      const argv = command(root, input);
      const { hung, code, out, err } = await run(...argv);
      return { what: `${argv[0]} ${archive} ${file}`, hung, code, text: out + err };
    });
    for (const { what, hung, code, text } of outcomes) {
      expect([what, hung], text).toEqual([what, false]);
      expect([what, code === 1 || code === 3], text).toEqual([what, true]);
      expect(text, what).toMatch(/pipe, a socket or a device|symbolic link|not a plain file/);
    }
  });

  it.each(["pipe", "socket"] as const)("as a %s is refused as the input of a writer", async (kind) => {
    const other = join(folder, `other-${kind}`);
    await KINDS[kind](other);
    const root = copyOf(own);
    const blp = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
    const npy = `${other}.npy`;
    await KINDS[kind](npy);
    const runs = [
      ["append", root, npy],
      ["set", root, "--slice", "0:5", npy],
      ["create", join(folder, `made-${kind}`), "--from", npy],
      ["compress", other, `${other}.blp`],
      ["append", blp, input, "--metadata", other],
      ["virtualize", own, join(folder, `refs-${kind}.json`), "--to", "kerchunk", "--containers", other],
    ];
    const tried = sample(runs, KINDS_TRIED.includes(kind) ? runs.length : 1);
    const outcomes = await eachOf(tried, WIDTH, (argv, i) => (i < sweep(6, 2) ? run : runHere)(...argv));
    for (const [i, { hung, code, err }] of outcomes.entries()) {
      expect([tried[i], hung, code === 1 || code === 2], err).toEqual([tried[i], false, true]);
      expect(err).toMatch(/pipe/);
    }
  });
});

describe.skipIf(process.platform === "win32")("a command", () => {
  /** Starts the command, and sends SIGTERM once `waits` says that it waits. Returns how it ended. */
  async function terminated(
    argv: readonly string[],
    waits: (child: ChildProcessWithoutNullStreams) => Promise<unknown>,
  ): Promise<{ code: number | null; signal: string | null; err: string }> {
    const child = spawn(process.execPath, [main, ...argv]);
    let err = "";
    child.stderr.on("data", (piece) => {
      err += piece;
    });
    child.stdin.on("error", () => undefined);
    const patience = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
    const closed = once(child, "close") as Promise<[number | null, string | null]>;
    await Promise.race([waits(child), closed]);
    child.kill("SIGTERM");
    const [code, signal] = await closed;
    clearTimeout(patience);
    return { code, signal, err };
  }

  /** Resolves when the command has read all its input so far; the input stays open. */
  const reads = (child: ChildProcessWithoutNullStreams): Promise<void> =>
    new Promise((resolve) => child.stdin.write(Buffer.alloc(1 << 20, "1\n"), () => resolve()));

  it("that waits for the rest of its input ends at SIGTERM with 143, and leaves no files", async () => {
    const out = join(folder, "waiting.out");
    for (const argv of [
      ["compress", "-", out],
      ["decompress", "-", out],
    ]) {
      const { code, signal, err } = await terminated(argv, reads);
      expect([argv, code, signal], err).toEqual([argv, 143, null]);
      expect(fs.readdirSync(folder).filter((name) => name.startsWith("waiting"))).toEqual([]);
    }
  });

  it("that waits for a server that never answers ends at SIGTERM with 143, and a writer releases its lock", async () => {
    let asked = (): void => undefined;
    const server = createHttpServer(() => asked());
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const source = `http://127.0.0.1:${port}/values.npy`;
    for (const argv of [
      ["cat", source],
      ["convert", source, join(folder, "waiting.zarr")],
    ]) {
      const request = new Promise<void>((resolve) => {
        asked = resolve;
      });
      const { code, signal, err } = await terminated(argv, () => request);
      expect([argv, code, signal], err).toEqual([argv, 143, null]);
    }
    server.closeAllConnections();
    expect(fs.readdirSync(folder).filter((name) => name.startsWith("waiting"))).toEqual([]);
  });

  it("does not wait if another writer holds the lock, or a pipe is in its place, but refuses at once", async () => {
    const input = join(folder, "rows.npy");
    fs.writeFileSync(input, npyOf(5));
    const root = join(folder, "held");
    expect((await runHere("create", root, "--from", input)).code).toBe(0);
    const lock = join(root, "meta", "lock");
    lockFromAfar(lock);
    const held = await run("append", root, input);
    expect([held.hung, held.code], held.err).toEqual([false, 1]);
    expect(held.err).toContain("is being written by");
    fs.rmSync(lock);
    execFileSync("mkfifo", [lock]);
    const piped = await run("append", root, input);
    expect([piped.hung, piped.code], piped.err).toEqual([false, 1]);
    expect(piped.err).toContain("pipe");
  });
});

/** A `.npy` file of int64 values. */
function npyOf(count: number): Buffer {
  const fields = `{'descr': '<i8', 'fortran_order': False, 'shape': (${count},), }`;
  const head = `${fields.padEnd(117)}\n`;
  const start = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, head.length, 0]);
  return Buffer.concat([
    start,
    Buffer.from(head),
    Buffer.from(BigInt64Array.from({ length: count }, (_, i) => BigInt(i)).buffer),
  ]);
}
