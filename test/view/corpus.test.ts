/** Every archive of the corpus, read through a view without a conversion, has the values that its producer wrote. */

import { describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { zarrTreeView } from "../../src/view/view-tree.ts";
import { convert, findViewEntries, type ZarrView, zarrView } from "../../src/zarr.ts";
import { corpusStore, documentAt, openFixture, sha256 } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, findFixture, loadArchives } from "../fixtures/manifest.ts";
import { documentOf, isBig, readStruct, readThroughView } from "./read-view.ts";

const archives = loadArchives();
const readable = archives.filter(({ refuse }) => !refuse);

describe("every archive of the corpus", () => {
  it("can be viewed", () => {
    expect(readable.length).toBeGreaterThan(60);
  });

  it.each(readable.map(({ path }) => path))("%s has the values that its producer wrote", async (path) => {
    const fixture = findFixture(path);
    const view = zarrView(await openFixture(path), { portable: true });
    const root = await documentOf(view, "");
    if (fixture.kind === "table") {
      expect(root["attributes"]).toMatchObject({ ...fixture.attrs, column_order: fixture.names });
      for (const name of fixture.names) {
        const column = fixture.columns[name];
        const bytes = await readThroughView(view, name, column?.dtype ?? null);
        expect([name, sha256(bytes)]).toEqual([name, column?.sha256]);
      }
      return;
    }
    const array = fixture as ArrayFixture;
    const bytes =
      root["node_type"] === "group"
        ? await readStruct(view, array)
        : await readThroughView(view, "", array.dtype);
    expect(sha256(bytes)).toBe(array.sha256);
  });

  it.each(readable.map(({ path }) => path))(
    "%s has the documents of its conversion, except for the shards",
    async (path) => {
      const view = zarrView(await openFixture(path));
      const store = new MemoryStore();
      await convert(await openFixture(path), { store });
      for (const { path: node } of await allNodes(view)) {
        const converted = await documentAt(store, node === "" ? "zarr.json" : `${node}/zarr.json`);
        const shown = await documentOf(view, node);
        const names = shown["dimension_names"];
        const wanted = shown["node_type"] === "array" ? converted : withoutInner(converted);
        const found = shown["node_type"] === "array" ? shown : withoutInner(shown);
        expect(unsharded(found)).toEqual(unsharded(wanted));
        if (shown["node_type"] === "array") expect(names).toHaveLength((shown["shape"] as number[]).length);
        if (shown["node_type"] === "array") expect(asText(shown)).not.toContain("sharding_indexed");
      }
    },
  );

  it.each(archives.filter(({ refuse }) => refuse).map(({ path }) => path))(
    "%s is refused, and never shown as fill values",
    async (path) => {
      const failure = await openFixture(path)
        .then(async (archive) => {
          const view = zarrView(archive);
          for (const { path: node } of await allNodes(view)) {
            const array = await zarr.open.v3(zarr.root(view as never).resolve(`/${node}`), { kind: "array" });
            await zarr.get(array, null);
          }
          return view.get("/zarr.json");
        })
        .catch((error: unknown) => error);
      const cause = failure instanceof Error && !isSuperchunkError(failure) ? failure.cause : failure;
      expect(isSuperchunkError(cause)).toBe(true);
    },
  );
});

describe("a table whose columns are opened on demand", () => {
  const tables = readable.map(({ path }) => path).filter((path) => path.startsWith("ctable/"));

  it.each(tables)("%s has the documents and chunks of a table opened at once", async (path) => {
    const whole = zarrView(await open(corpusStore, path));
    const root = await documentOf(whole, "");
    const { metadata } = root["consolidated_metadata"] as { metadata: Record<string, unknown> };
    const lazy = zarrView((options) => open(corpusStore, path, options));
    for (const [node, document] of Object.entries(metadata)) {
      expect([node, await documentOf(lazy, node)]).toEqual([node, document]);
      expect(await lazy.get(`/${node}/c/0`)).toEqual(await whole.get(`/${node}/c/0`));
    }
    expect(await documentOf(lazy, "")).toEqual(root);
    expect(await lazy.list()).toEqual(await whole.list());
  });
});

describe("the whole corpus as one tree", () => {
  it("has every archive at its own path, and everything readable in the root's metadata", async () => {
    const view = zarrTreeView(await findViewEntries(corpusStore), { portable: true });
    const root = await documentOf(view, "");
    const { metadata } = root["consolidated_metadata"] as { metadata: Record<string, unknown> };
    const paths = Object.keys(metadata);
    for (const { path } of readable) expect(paths).toContain(path);
    for (const { path, refuse } of archives) if (refuse) expect(paths).not.toContain(path);
    const group = await zarr.open.v3(zarr.root(view as never), { kind: "group" });
    const array = await zarr.open.v3(group.resolve("bloscpack-3/array-f8.blp"), { kind: "array" });
    expect(array.shape).toEqual((findFixture("bloscpack-3/array-f8.blp") as ArrayFixture).shape);
    expect(sha256(await readThroughView(view, "bloscpack-3/array-f8.blp", "<f8"))).toBe(
      (findFixture("bloscpack-3/array-f8.blp") as ArrayFixture).sha256,
    );
    expect(isBig(">f4")).toBe(true);
  });

  it("has in every folder's group the metadata of everything below it, which is what xarray reads", async () => {
    const view = zarrTreeView(await findViewEntries(corpusStore), { portable: true });
    const group = await documentOf(view, "ctable");
    const { metadata } = group["consolidated_metadata"] as { metadata: Record<string, unknown> };
    expect(Object.keys(metadata)).toContain("bcolz-daily-equities/close");
    expect(await view.get("/ctable/nothing/zarr.json")).toBeUndefined();
  });

  it("lists the nodes under a folder and says why some cannot be read", async () => {
    const view = zarrTreeView(await findViewEntries(corpusStore));
    const nodes = await view.list("carray");
    expect(nodes[0]).toMatchObject({ path: "carray", kind: "group" });
    expect(nodes.map(({ path }) => path)).toEqual([
      "carray",
      ...archives
        .filter(({ path }) => path.startsWith("carray/"))
        .map(({ path }) => path)
        .sort(),
    ]);
    expect(nodes.filter(({ error }) => error !== undefined).length).toBeGreaterThan(0);
    expect(await view.list("nowhere")).toEqual([]);
  });
});

async function allNodes(view: ZarrView): Promise<{ path: string }[]> {
  const found: { path: string }[] = [];
  const visit = async (path: string): Promise<void> => {
    const [self, ...below] = await view.list(path);
    if (self !== undefined) found.push(self);
    for (const { path: next } of below) await visit(next);
  };
  await visit("");
  return found;
}

/** A group's document without those of its nodes, which are compared separately. */
function withoutInner({
  consolidated_metadata,
  ...document
}: Record<string, unknown>): Record<string, unknown> {
  const { metadata } = consolidated_metadata as { metadata: Record<string, unknown> };
  return { ...document, members: Object.keys(metadata) };
}

/** A document without what sharding changes. */
function unsharded(document: Record<string, unknown>): unknown {
  return JSON.parse(asText(document), (key, value: unknown) => {
    if (key === "chunk_grid") return null;
    if (key !== "codecs" || !Array.isArray(value)) return value;
    const [first] = value as { name?: string; configuration?: { codecs?: unknown } }[];
    return first?.name === "sharding_indexed" ? first.configuration?.codecs : value;
  });
}

function asText(document: unknown): string {
  return JSON.stringify(document, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
}
