/** Every archive of the corpus, read through references to it, has the values that its producer wrote. */
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { openReferences, type ReferenceStore } from "../../src/references/kerchunk/open-references.ts";
import { writeKerchunk } from "../../src/references/kerchunk/write-kerchunk.ts";
import { planReferences, type ReferencePlan } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openFixture, sha256 } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, findFixture, loadArchives } from "../fixtures/manifest.ts";
import { documentOf, readStruct, readThroughView } from "../view/read-view.ts";

const archives = loadArchives();
const readable = archives.filter(({ refuse }) => !refuse);

async function* planOne(path: string, node = ""): AsyncGenerator<ReferencePlan> {
  yield await planReferences(await openFixture(path), { portable: true, node });
}

const openContainer = ({ prefix }: { readonly prefix: string }): FileStore =>
  new FileStore(prefix.slice("file://".length));

async function referTo(path: string): Promise<ReferenceStore | string> {
  const store = new MemoryStore();
  try {
    const { containers } = await writeKerchunk(planOne(path), store, "set.json", {
      form: "json",
      openContainer,
    });
    return await openReferences(store, "set.json", { containers, openContainer });
  } catch (error) {
    // Chunks that must be recompressed cannot be referenced: convert handles them.
    if (isSuperchunkError(error, "UNSUPPORTED")) return error.message;
    throw error;
  }
}

describe("references to every archive of the corpus", () => {
  /** What would have to be recompressed. */
  const REFUSED: readonly string[] = ["array-f4-3d-fortran.blp", "bcolz-i4-snappy"];

  it.each(readable.map(({ path }) => path))("%s has the values that its producer wrote", async (path) => {
    const fixture = findFixture(path);
    const store = await referTo(path);
    expect(typeof store === "string").toBe(REFUSED.includes(basename(path)));
    if (typeof store === "string") {
      expect(store).toMatch(/cannot be referenced as they are: .*; convert the archive to Zarr/);
      return;
    }
    const root = await documentOf(store, "");
    if (fixture.kind === "table") {
      for (const name of fixture.names) {
        const column = fixture.columns[name];
        const bytes = await readThroughView(store, name, column?.dtype ?? null);
        expect([name, sha256(bytes)]).toEqual([name, column?.sha256]);
      }
      return;
    }
    const array = fixture as ArrayFixture;
    const bytes =
      root["node_type"] === "group"
        ? await readStruct(store, array)
        : await readThroughView(store, "", array.dtype);
    expect(sha256(bytes)).toBe(array.sha256);
  });

  it.each(archives.filter(({ refuse }) => refuse).map(({ path }) => path))(
    "%s is refused while it is scanned",
    async (path) => {
      const failure = await referTo(path).catch((error: unknown) => error);
      expect(typeof failure === "string" || isSuperchunkError(failure)).toBe(true);
    },
  );
});
