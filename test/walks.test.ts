/** How many source files take part in the most common calls: what has to be read to follow one of them. */
import { cpSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { convert, create, link, open } from "../src/node/index.ts";
import { temporaryFolder } from "./folder.ts";

const root = join(import.meta.dirname, "..");
const folder = temporaryFolder();
const session = new Session();

beforeAll(async () => {
  session.connect();
  await session.post("Profiler.enable");
  await using array = await create(join(folder, "array"), { dtype: "<f8", shape: [0], chunkLength: 4096 });
  await array.append(Float64Array.from({ length: 100_000 }, (_, i) => i));
});
afterAll(() => session.disconnect());

/** The source files with a function that `work` calls, by V8's precise coverage. */
async function walkOf(work: () => Promise<unknown>): Promise<string[]> {
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  await work();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  await session.post("Profiler.stopPreciseCoverage");
  // Vitest reads exported names through short anonymous functions.
  const isOurs = ({ functionName, ranges: [own] }: (typeof result)[number]["functions"][number]): boolean =>
    own !== undefined && own.count > 0 && !(functionName === "" && own.endOffset - own.startOffset < 70);
  const called = result.filter(({ functions }) => functions.some(isOurs));
  const files = called.map(({ url }) => relative(root, url.replace(/^file:\/\//, "")).replaceAll("\\", "/"));
  return [...new Set(files.filter((file) => file.startsWith("src/")))].sort();
}

/** Limits only go down. */
test.each([
  ["array", undefined, 22],
  ["carray", "bcolz", 18],
  ["file.blp", "bloscpack", 21],
  ["zarr", "zarr", 20],
] as const)("reading one element of an open %s loads few files", async (name, to, limit) => {
  const path = join(folder, name);
  if (to !== undefined) await convert(join(folder, "array"), path, { to });
  const archive = await open(path);
  if (archive.kind !== "array") throw new Error(`${name} is not an array`);
  for (const index of [0, 90_000]) await archive.get([index]);

  const files = await walkOf(async () => expect(await archive.get([50_000])).toBe(50_000));

  expect(files.length, files.join("\n")).toBeGreaterThan(10);
  expect(files.length, files.join("\n")).toBeLessThanOrEqual(limit);
  await archive.close();
});

/** Limits only go down; the goal is 60 for each. */
test("a conversion to Zarr and a link load no more files than before", async () => {
  for (const name of ["first", "second"])
    cpSync(join(folder, "array"), join(folder, name), { recursive: true });
  await convert(join(folder, "array"), join(folder, "warm"), { to: "zarr" });
  const converted = await walkOf(() =>
    convert(join(folder, "array"), join(folder, "measured"), { to: "zarr" }),
  );
  await link(join(folder, "first"));
  const linked = await walkOf(() => link(join(folder, "second")));

  expect(converted.length, converted.join("\n")).toBeLessThanOrEqual(63);
  expect(linked.length, linked.join("\n")).toBeLessThanOrEqual(55);
});
