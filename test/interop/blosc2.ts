/**
 * Frames by python-blosc2 2, 3 and 4, over data, codecs, filters and ways of splitting: their values, and how many streams go to Zarr and back
 * as they are.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { readFrame } from "../../src/blosc2/frame.ts";
import { readBlosc2Header } from "../../src/codec2/header.ts";
import { blocksAsBlosc1 } from "../../src/codec2/restream.ts";
import { convert, FileStore, open } from "../../src/node/index.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import type { PeerName } from "./peers.ts";
import type { Suite, SuiteContext } from "./suite.ts";

/** The program that writes the corpus. */
const WRITERS: Readonly<Record<string, PeerName>> = {
  2: "python-blosc2 2",
  3: "python-blosc2 3",
  4: "recipes",
};
const READERS = ["zarr-python", "zarrs", "tensorstore"] as const;

interface Frame {
  readonly shape: readonly number[];
  readonly sha256: string;
  readonly dtype: string;
}

export const blosc2: Suite = {
  name: "blosc2",
  peers: ["recipes", "python-blosc2 2", "python-blosc2 3", ...READERS],
  async run(context) {
    await carryCorpus(context);
    const { checks, folder, peer } = context;
    const writer = peer("recipes");
    if (writer === undefined) return;
    const path = join(folder, "frames");
    await mkdir(path);
    const [answer] = await writer.read([{ path, from: join(repositoryRoot, "fixtures/blosc2/make.py") }]);
    checks.equal("the recipe of the Blosc2 fixtures runs", answer?.kind, "done");
    const values = JSON.parse(await readFile(join(path, "values.json"), "utf8")) as Readonly<
      Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
    >;
    const store = new FileStore(path);
    const jobs: { readonly path: string; readonly dtype: string; readonly name: string }[] = [];
    const back = join(folder, "back");
    await mkdir(back);
    let [copied, all, restreamed] = [0, 0, 0];
    for (const [name, { shape, sha256 }] of Object.entries(values)) {
      const array = await open(join(path, name));
      if (array.kind !== "array") continue;
      const sum = createHash("sha256")
        .update(await array.getBytes())
        .digest("hex");
      checks.equal(
        `${name} has the values that were written`,
        { shape: array.shape, sha256: sum },
        { shape, sha256 },
      );
      await array.close();
      const frame = await readFrame(store, name);
      for (const chunk of frame?.chunks ?? []) {
        if ("special" in chunk) continue;
        const bytes = (await store.get(chunk.key))?.subarray(chunk.offset, chunk.end) ?? new Uint8Array(0);
        const blocks = await blocksAsBlosc1(bytes);
        all++;
        if (blocks.every((block) => block?.isCopied !== false)) copied++;
      }
      const root = join(folder, "zarr", name);
      await convert(join(path, name), root, { verify: true });
      const report = await convert(root, join(back, name), { to: "b2nd" });
      restreamed += report.chunksRestreamed ?? 0;
      jobs.push({
        path: root,
        dtype: name.startsWith("volume") ? "<u4" : name.startsWith("ramp") ? "<i8" : "<f8",
        name,
      });
    }
    checks.equal(`the streams of 95 % of ${all} chunks are copied (${copied})`, copied / all >= 0.95, true);
    checks.equal(
      `the streams of 95 % of ${all} chunks come back (${restreamed})`,
      restreamed / all >= 0.95,
      true,
    );
    for (const version of ["3", "4"] as const) {
      const reader = peer(WRITERS[version] as PeerName);
      if (reader === undefined) continue;
      const [answer] = await reader.read([
        { path: back, from: join(repositoryRoot, "fixtures/blosc2/read.py") },
      ]);
      checks.equal(`python-blosc2 ${version} opens every frame that was written`, answer?.kind, "done");
      const found = JSON.parse(await readFile(join(back, "read.json"), "utf8")) as Readonly<
        Record<
          string,
          { readonly shape: readonly number[]; readonly sha256: string; readonly slices: boolean }
        >
      >;
      for (const [name, expected] of Object.entries(values))
        checks.equal(
          `${name}, written again, in python-blosc2 ${version}`,
          { shape: found[name]?.shape, sha256: found[name]?.sha256, slices: found[name]?.slices },
          { ...expected, slices: true },
        );
    }
    for (const reader of READERS) {
      const answers = (await peer(reader)?.read(jobs)) ?? [];
      for (const [i, { name }] of jobs.entries()) {
        const [expected, found] = [values[name], answers[i]];
        if (expected !== undefined && found !== undefined)
          checks.values(`${name}, converted, in ${reader}`, found, expected);
      }
    }
  },
};

/** Converts the corpus of each version to Zarr, and reports how many of its chunks kept their streams. */
async function carryCorpus({ checks, folder, peer }: SuiteContext): Promise<void> {
  for (const [version, name] of Object.entries(WRITERS)) {
    const writer = peer(name);
    if (writer === undefined) continue;
    const path = join(folder, `corpus-${version}`);
    await mkdir(path);
    const from = join(repositoryRoot, "fixtures/blosc2/make-corpus.py");
    const [answer] = await writer.read([{ path, from }]);
    checks.equal(`python-blosc2 ${version} writes the corpus`, answer?.kind, "done");
    const values = JSON.parse(await readFile(join(path, "values.json"), "utf8")) as Readonly<
      Record<string, Frame>
    >;
    const store = new FileStore(path);
    const jobs: { readonly path: string; readonly dtype: string }[] = [];
    let [copied, all] = [0, 0];
    for (const [file, { dtype }] of Object.entries(values)) {
      for (const chunk of (await readFrame(store, file))?.chunks ?? []) {
        // Chunks of one value have no streams.
        const bytes =
          "special" in chunk ? undefined : (await store.get(chunk.key))?.subarray(chunk.offset, chunk.end);
        if (bytes === undefined || readBlosc2Header(bytes).special !== undefined) continue;
        all++;
        const blocks = await blocksAsBlosc1(bytes);
        if (blocks.every((block) => block?.isCopied !== false)) copied++;
      }
      const root = join(folder, `zarr-${version}`, file);
      await convert(join(path, file), root);
      jobs.push({ path: root, dtype });
    }
    const percent = (100 * copied) / all;
    console.log(
      `blosc2: ${copied} of ${all} chunks by python-blosc2 ${version} that have streams (${percent.toFixed(1)} %) go to Zarr with their streams`,
    );
    checks.equal(`95 % of the chunks by python-blosc2 ${version} are copied`, percent >= 95, true);
    for (const reader of READERS) {
      const answers = (await peer(reader)?.read(jobs)) ?? [];
      for (const [i, [file, expected]] of Object.entries(values).entries()) {
        const found = answers[i];
        if (found !== undefined)
          checks.values(`${version}/${file}, converted, in ${reader}`, found, expected);
      }
    }
  }
}
