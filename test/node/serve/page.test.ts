/** What the page of `serve` may read: the stored bytes of the archives shown, and nothing else. */
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { open } from "../../../src/index.ts";
import { create, serveView } from "../../../src/node/index.ts";
import { HttpStore } from "../../../src/store/http.ts";
import { corpusFolder, repositoryRoot } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";

const TABLE = "ctable/bcolz-daily-equities";
let folder: string;
let served: Awaited<ReturnType<typeof serveView>>;

beforeAll(async () => {
  folder = temporaryFolder();
  await mkdir(join(folder, "sub"), { recursive: true });
  await cp(join(corpusFolder, TABLE), join(folder, "sub/bars.bcolz"), { recursive: true });
  await cp(join(corpusFolder, "bloscpack-3/array-f8.blp"), join(folder, "prices.blp"));
  await writeFile(join(folder, "secret.txt"), "secret");
  await writeFile(join(folder, "sub/notes.txt"), "secret");
  await symlink(join(folder, "secret.txt"), join(folder, "sub/bars.bcolz/out"));
  served = await serveView(folder);
});
afterAll(() => served.close());

const get = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(new URL(`__superchunk__/${path}`, served.url), init);

it("the page lists what can be opened, by names that reveal no path of the server", async () => {
  const text = await (await get("archives.json")).text();
  expect(JSON.parse(text)).toEqual({
    archives: [
      { name: "prices.blp", root: 0, path: "prices.blp" },
      { name: "sub/bars.bcolz", root: 0, path: "sub/bars.bcolz" },
    ],
  });
  expect(text).not.toContain(folder);
});

it("the server gives the stored bytes of archives, whole and in ranges, with versions", async () => {
  const stored = await readFile(join(folder, "prices.blp"));
  const whole = await get("files/0/prices.blp");
  expect(Buffer.compare(Buffer.from(await whole.arrayBuffer()), stored)).toBe(0);
  const part = await get("files/0/prices.blp", { headers: { range: "bytes=16-47" } });
  expect([part.status, part.headers.get("content-range")]).toEqual([206, `bytes 16-47/${stored.length}`]);
  expect(Buffer.compare(Buffer.from(await part.arrayBuffer()), stored.subarray(16, 48))).toBe(0);
  const etag = whole.headers.get("etag") ?? "";
  expect((await get("files/0/prices.blp", { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await get("files/0/prices.blp", { headers: { "if-match": '"other"' } })).status).toBe(412);
  const head = await get("files/0/prices.blp", { method: "HEAD" });
  expect(head.headers.get("content-length")).toBe(String(stored.length));
});

it("the server lets the library read an archive as it is stored", async () => {
  const store = new HttpStore(new URL("__superchunk__/files/0/", served.url));
  const table = await open(store, "sub/bars.bcolz");
  const { kind, length } = table as { kind: string; length?: number };
  expect([kind, length]).toEqual(["table", 226]);
});

it.each([
  "files/0/secret.txt",
  "files/0/sub/notes.txt",
  "files/0/sub",
  "files/0/../secret.txt",
  "files/0/prices.blp/../secret.txt",
  "files/0/prices.blp%2F..%2Fsecret.txt",
  "files/0/sub/bars.bcolz/out",
  "files/1/prices.blp",
  "list/0/",
  "list/0/sub",
  "list/1/sub/bars.bcolz",
  "places/0/sub",
  "files/-1/prices.blp",
  "files/x/prices.blp",
  "page/../package.json",
  "page/page.html",
  "other",
])("the server gives nothing at %s", async (path) => {
  const response = await get(path);
  expect([404, 422]).toContain(response.status);
  expect(await response.text()).not.toContain('secret"');
});

it("lists the folders of archives, and says that others are not there", async () => {
  const { entries } = (await (await get("list/0/sub/bars.bcolz/close/data")).json()) as {
    entries: { name: string; kind: string }[];
  };
  expect(entries.map(({ name }) => name).sort()).toEqual([0, 1, 2, 3].map((i) => `__${i}.blp`));
});

it("lists the arrays of an HDF5 file that is served by itself", async () => {
  const file = join(temporaryFolder(), "some.nc");
  await cp(join(repositoryRoot, "fixtures/hdf5/h5py-latest.h5"), file);
  const alone = await serveView(file);
  try {
    const text = await (await fetch(new URL("__superchunk__/archives.json", alone.url))).text();
    const { archives } = JSON.parse(text) as { archives: { name: string; kind?: string }[] };
    expect(archives[0]).toMatchObject({ name: "some.nc", kind: "group" });
    expect(archives.map(({ name }) => name)).toContain("some.nc/big-endian");
  } finally {
    await alone.close();
  }
});

it("gives superchunks in other places as if they were in the array's folder, where it may read them", async () => {
  const [home, disk] = [temporaryFolder(), temporaryFolder()];
  const array = await create(join(home, "placed"), {
    dtype: "<f8",
    shape: [4000],
    data: Float64Array.from({ length: 4000 }, (_, i) => i),
    chunkLength: 100,
    superchunkLength: 10,
    places: [disk],
    placeBy: "round",
  });
  await array.close();
  const [allowed, refused] = [
    await serveView(home, { allow: [disk], page: "only" }),
    await serveView(home, { page: "only" }),
  ];
  const ask = (server: { readonly url: string }, path: string): Promise<Response> =>
    fetch(new URL(`__superchunk__/${path}`, server.url));
  const keys = [1, 2, 3, 4].map((i) => `files/0/placed/data/__${i}__.bin`);
  try {
    const statuses = async (server: { readonly url: string }): Promise<number[]> =>
      Promise.all(keys.map(async (key) => (await ask(server, key)).status));
    expect(await statuses(allowed)).toEqual([200, 200, 200, 200]);
    expect((await ask(allowed, "places/0/placed")).status).toBe(200);
    expect((await ask(allowed, "files/0/placed/data/__9__.bin")).status).toBe(404);
    expect((await statuses(refused)).filter((status) => status === 200).length).toBe(2);
    expect((await ask(refused, "places/0/placed")).ok).toBe(false);
  } finally {
    await allowed.close();
    await refused.close();
  }
});

it("the page is absent if it is not wanted, and shows a Zarr-only folder only on request", async () => {
  const without = await serveView(folder, { page: false });
  try {
    expect((await fetch(new URL("__superchunk__/archives.json", without.url))).status).toBe(404);
    const html = await (await fetch(without.url, { headers: { accept: "text/html" } })).text();
    expect(html).not.toContain("<script");
  } finally {
    await without.close();
  }
  const zarr = join(corpusFolder, "zarr3-sharded");
  await expect(serveView(zarr)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  const shown = await serveView(zarr, { page: "only" });
  try {
    const listed = await (await fetch(new URL("__superchunk__/archives.json", shown.url))).json();
    expect((listed as { archives: unknown[] }).archives.length).toBeGreaterThan(0);
  } finally {
    await shown.close();
  }
});

it("a file that is served alone is listed although it cannot be opened", async () => {
  const file = join(repositoryRoot, "fixtures/blosc2/lengths.b2frame");
  const shown = await serveView(file, { page: "only" });
  try {
    const listed = await (await fetch(new URL("__superchunk__/archives.json", shown.url))).json();
    expect(listed).toMatchObject({ archives: [{ error: expect.stringContaining("cannot be shown") }] });
  } finally {
    await shown.close();
  }
});
