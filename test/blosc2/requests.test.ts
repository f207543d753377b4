/** How many requests it takes over HTTP to open what is of Blosc2 or HDF5, and to read an element of it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openArray } from "../../src/node/open.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const fixtures = join(repositoryRoot, "fixtures");
const FILES = ["blosc2/zstd.b2nd", "blosc2-stores/tree.b2z", "hdf5/pytables.h5", "blosc2-tables/table.b2z"];
let server: TestServer;

beforeAll(async () => {
  server = await serveObjects(
    FILES.map(
      (name) => [name.split("/").at(-1) ?? "", new Uint8Array(readFileSync(join(fixtures, name)))] as const,
    ),
  );
});
afterAll(() => server.close());

test.each([
  { path: "zstd.b2nd", open: 3, element: 2 },
  { path: "tree.b2z/a/b/y", open: 3, element: 2 },
  { path: "pytables.h5/prices", open: 3, element: 2 },
])("$path is opened in $open requests, and an element read in $element", async ({ path, open, element }) => {
  server.log.length = 0;
  const array = await openArray(`${server.url}/${path}`);
  expect(server.log.length, server.log.join("\n")).toBeLessThanOrEqual(open);
  server.log.length = 0;
  await array.get(array.shape.map(() => 0));
  expect(server.log.length, server.log.join("\n")).toBeLessThanOrEqual(element);
  await array.close();
});
