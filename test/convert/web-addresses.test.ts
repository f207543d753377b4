/** Several archives on web servers, which list no folders: converted, planned and verified like those in folders. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const SOURCES = [
  "carray/bcolz-f8-chunks",
  "ctable/bcolz-mixed",
  "blz-superchunk/f8-streamed",
  "bloscpack-3/array-f8.blp",
  "zarr3-sharded/zp-f8-1d-blosc-lz4",
].map((name) => join(corpusFolder, name));

function filesOf(folder: string): [string, Uint8Array][] {
  if (statSync(folder).isFile()) return [["", readFileSync(folder)]];
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return files.map((name) => [`/${name}`, readFileSync(join(folder, name))]);
}

let folder: string;
const at = (name: string): string => join(folder, name);

/** The sources on a server, and their addresses. */
let server: TestServer;
let urls: string[];

beforeAll(async () => {
  server = await serveObjects(
    SOURCES.flatMap((path) => filesOf(path).map(([name, bytes]) => [basename(path) + name, bytes] as const)),
  );
  urls = SOURCES.map((path) => `${server.url}/${basename(path)}`);
});
afterAll(() => server.close());
beforeEach(() => {
  folder = temporaryFolder();
});

test.each(["zarr", "bcolz"])("several become one result in %s, as from a folder", async (to) => {
  expect((await runCli(["convert", ...SOURCES, at("local"), "--to", to])).code).toBe(0);
  const { code, err } = await runCli(["convert", ...urls, at("web"), "--to", to]);
  expect([code, err]).toEqual([0, expect.not.stringContaining("not converted")]);
  expect(filesOf(at("web"))).toEqual(filesOf(at("local")));

  const planned = await runCli(["plan", ...urls, at("shared"), "-o", at("plan.json"), "--to", to]);
  expect([planned.code, planned.out]).toEqual([0, expect.stringContaining("5 archives, 5 tasks")]);
  for (const task of ["1/2", "2/2"]) await runCli(["run", at("plan.json"), "--task", task]);
  expect((await runCli(["finish", at("plan.json")])).code).toBe(0);
  expect(filesOf(at("shared"))).toEqual(filesOf(at("local")));
});

test("one that is missing fails alone", async () => {
  const { code, err } = await runCli(["convert", ...urls, `${server.url}/missing`, at("out.zarr")]);
  expect([code, err.match(/not converted: .*/g)]).toEqual([
    1,
    [expect.stringMatching(/\/missing: no such file or folder \(NOT_FOUND\)$/)],
  ]);
});

test("several are verified by a plan", async () => {
  const plan = ["plan", "--for", "verify", ...urls, at("report.jsonl"), "-o", at("plan.json")];
  expect((await runCli(plan)).code).toBe(0);
  expect((await runCli(["run", at("plan.json")])).code).toBe(0);
  expect(await runCli(["finish", at("plan.json")])).toMatchObject({
    code: 0,
    out: expect.stringContaining("5 archives: 5 ok"),
  });
});
