/**
 * Small Zarr arrays of all settings in all combinations, in both directions: what we write is read by the readers of Zarr
 * v3 (zarrita through our store), and what they write is read by us.
 */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as zarr from "zarrita";
import { isSuperchunkError } from "../../src/errors.ts";
import { stringifyJson } from "../../src/format/json.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr, zarrDocument } from "../../src/zarr/write/create.ts";
import { zarritaStore } from "../../src/zarr/zarrita.ts";
import type { Answer, Job } from "./answers.ts";
import { listMissing, listProduct, type ProductCase } from "./product-cases.ts";
import { findLimit, type Limit } from "./product-limits.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { UnsyncedStore } from "./unsynced-store.ts";
import { hashValues } from "./zarrita.ts";

const PROGRAMS = ["zarr-python", "zarrs", "tensorstore"] as const;
type Program = (typeof PROGRAMS)[number];

export const product: Suite = {
  name: "product",
  peers: [...PROGRAMS, "zarrita"],
  async run(context) {
    const cases = listProduct();
    context.checks.equal(
      "any five settings meet in all their combinations, with the index's crc32c and without",
      listMissing(cases),
      [],
    );
    const run = new Product(context, cases);
    await run.write();
    // Each program runs in a separate process, and most of the time is theirs.
    await Promise.all([
      ...PROGRAMS.flatMap((program) => [run.proveWriting(program), run.proveReading(program)]),
      run.proveZarrita(),
    ]);
  },
};

/** The outcome of a case: its values' hash, or why there are none. */
type Found = { readonly sha256: string } | { readonly error: string };

class Product {
  readonly #context: SuiteContext;
  readonly #cases: readonly ProductCase[];
  readonly #hashes: readonly string[];

  constructor(context: SuiteContext, cases: readonly ProductCase[]) {
    this.#context = context;
    this.#cases = cases;
    const hashes = new Map(
      cases.map(({ values }) => [values, createHash("sha256").update(values.bytes).digest("hex")]),
    );
    this.#hashes = cases.map(({ values }) => hashes.get(values) ?? "");
  }

  /** Writes every array, and the values for others to write. */
  async write(): Promise<void> {
    const store = new UnsyncedStore(this.#folder("ours"));
    for (const [i, { spec, values }] of this.#cases.entries()) {
      const array = await createZarr(store, String(i), spec, {
        chunkOrder: i % 2 === 0 ? "morton" : "row-major",
        writeEmptyChunks: i % 5 === 0,
      });
      await array.setBytes(null, values.bytes);
    }
    await mkdir(this.#folder("values"));
    for (const { key, bytes } of new Set(this.#cases.map(({ values }) => values)))
      await writeFile(join(this.#folder("values"), key), bytes);
  }

  /** What we write is read by a program. */
  async proveWriting(program: Program): Promise<void> {
    const peer = this.#context.peer(program);
    if (peer === undefined) return;
    const jobs = this.#cases.map(
      ({ settings }, i): Job => ({ path: join(this.#folder("ours"), String(i)), dtype: settings.dtype }),
    );
    const answers = await peer.read(jobs);
    this.#judge(program, "reading", answers.map(toFound));
  }

  /** What a program writes is read by us. */
  async proveReading(program: Program): Promise<void> {
    const peer = this.#context.peer(program);
    if (peer === undefined) return;
    const root = this.#folder(program);
    const jobs: Job[] = [];
    for (const [i, { spec, settings, values }] of this.#cases.entries()) {
      const path = join(root, String(i));
      await mkdir(path, { recursive: true });
      await writeFile(join(path, "zarr.json"), stringifyJson(zarrDocument(spec)));
      const from = join(this.#folder("values"), values.key);
      jobs.push({ path, dtype: settings.dtype, make: "zarr", readBack: false, from, shape: spec.shape });
    }
    const answers = await peer.read(jobs);
    const store = new FileStore(root);
    const found: Found[] = [];
    for (const [i, answer] of answers.entries())
      found.push(answer.kind === "done" ? await readArray(store, String(i)) : toFound(answer));
    this.#judge(program, "writing", found);
  }

  /** What we write is read by zarrita, through our store. */
  async proveZarrita(): Promise<void> {
    const store = new FileStore(this.#folder("ours"));
    const found: Found[] = [];
    for (const [i, { settings }] of this.#cases.entries()) {
      try {
        const location = zarr.root(zarritaStore(await openZarrArray(store, String(i))));
        const array = await zarr.open.v3(location, { kind: "array" });
        found.push({ sha256: await hashValues(array, settings.dtype) });
      } catch (error) {
        found.push({ error: String(error) });
      }
    }
    this.#judge("zarrita", "reading", found);
  }

  #folder(name: string): string {
    return join(this.#context.folder, name);
  }

  /** Checks what a program did in every case, and reports what it cannot do. */
  #judge(program: Program | "zarrita", does: "reading" | "writing", found: readonly Found[]): void {
    const { checks } = this.#context;
    const said = `${program} ${does === "reading" ? "reads what we write" : "writes what we read"}`;
    const counts = new Map<Limit, number>();
    for (const [i, tried] of this.#cases.entries()) {
      const each = found[i] ?? { error: "no answer" };
      const limit = findLimit(program, does, tried);
      if (limit === undefined) {
        const name = `${said}: ${tried.name}`;
        if ("error" in each) checks.fail(name, each.error);
        else checks.equal(name, each.sha256, this.#hashes[i]);
        continue;
      }
      counts.set(limit, (counts.get(limit) ?? 0) + 1);
      const gives = describeFound(each, this.#hashes[i]);
      checks.equal(`${said}, but not this, ${limit.reason}: ${tried.name}`, gives, limit.gives);
    }
    const left = [...counts].map(([{ reason, gives }, count]) => `${count} give ${gives} (${reason})`);
    console.log(`product: ${said}: ${found.length} cases${left.map((each) => `, ${each}`).join("")}`);
  }
}

async function readArray(store: FileStore, path: string): Promise<Found> {
  try {
    const array = await openZarrArray(store, path);
    return {
      sha256: createHash("sha256")
        .update(await array.getBytes())
        .digest("hex"),
    };
  } catch (error) {
    return { error: isSuperchunkError(error) ? error.message : String(error) };
  }
}

function toFound(answer: Answer): Found {
  if (answer.kind === "values") return { sha256: answer.sha256 };
  return { error: answer.kind === "error" ? answer.error : `found no values but "${answer.kind}"` };
}

/** A case's outcome in the words of the table of limits. */
function describeFound(found: Found, expected: string | undefined): Limit["gives"] | "right values" {
  if ("error" in found) return "an error";
  return found.sha256 === expected ? "right values" : "wrong values";
}
