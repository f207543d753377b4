/** Collects what becomes of the sources of a conversion: how far it is, and its result. Must not know how it runs. */
import { at } from "../../bytes/arrays.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import {
  consolidate,
  encodeDocument,
  groupDocument,
  MOST_CONSOLIDATED,
} from "../../zarr/document/make-v3.ts";
import { foldersAbove } from "../../zarr/document/node-names.ts";
import type {
  ConvertEntry,
  ConvertOptions,
  ConvertResult,
  NodeFailure,
  SourceItem,
  SourceResult,
  SourceRun,
} from "../pipeline.ts";
import { failuresOf, restreamedIn, type SourceOutcome } from "./run-source.ts";

/** The sources that are counted. */
interface Sources {
  readonly items: readonly Pick<SourceItem, "path">[];
  readonly isTree: boolean;
}

/** What is done of a conversion, as it is reported: bytes of the only source, or archives of a tree. */
export class ConversionProgress {
  readonly #sources: Sources;
  readonly #onProgress: ConvertOptions["onProgress"];
  /** Done parts of the sources under way, by index. */
  readonly #fractions = new Map<number, number>();
  #done = 0;

  constructor(sources: Sources, onProgress: ConvertOptions["onProgress"]) {
    this.#sources = sources;
    this.#onProgress = onProgress;
  }

  /** Takes the progress of one source in uncompressed bytes. Files and folders of a tree count as wholes. */
  of(index: number, isHierarchy: boolean): (done: number, total: number, label: string) => void {
    if (!this.#sources.isTree) return (done, total, label) => this.#onProgress?.({ done, total, label });
    if (!isHierarchy) return () => undefined;
    return (done, total) => {
      // A source counts as done only once it is published.
      this.#fractions.set(index, total === 0 ? 0 : Math.min(done / total, 0.999));
      this.#report(index);
    };
  }

  /** Counts a source as done, converted or not. */
  advance(index: number): void {
    this.#done++;
    this.#fractions.delete(index);
    if (this.#sources.isTree) this.#report(index);
  }

  #report(index: number): void {
    const { items } = this.#sources;
    const done = [...this.#fractions.values()].reduce((total, fraction) => total + fraction, this.#done);
    this.#onProgress?.({ done, total: items.length, label: at(items, index).path, unit: "archives" });
  }
}

/**
 * A group for each folder that contains nodes, the innermost first, the root last. The root's document repeats those in `described`.
 */
function folderDocuments(
  nodes: Iterable<string>,
  described: ReadonlyMap<string, JsonObject> | undefined,
): (readonly [node: string, document: JsonObject])[] {
  const folders = foldersAbove(nodes).filter((folder) => folder !== "");
  const inner = folders.reverse().map((folder) => [folder, groupDocument({})] as const);
  const root = groupDocument({});
  return [
    ...inner,
    ["", described === undefined ? root : consolidate(root, new Map([...described, ...inner]))],
  ];
}

/** The outcome of a converted source. */
export interface Converted {
  readonly result: SourceResult;
  readonly failures: readonly NodeFailure[];
  /** Its documents for the root document, and their number. */
  readonly described: readonly (readonly [path: string, document: JsonObject])[];
  readonly nodes: number;
}

/** Describes what became of a source that was run. */
export function convertedOf(run: SourceRun, { result, failed }: SourceOutcome): Converted {
  const failures = failuresOf(failed);
  const described = [...run.described(new Set(failed.map(({ path }) => path)))];
  return { result, failures, described, nodes: described.length };
}

const KEPT =
  "of the sources were in the destination already, and were neither converted nor compared again: {verifyOnly: true} compares them";

/** What has become of the sources of a conversion, each with its number, in any order. */
export class Outcomes {
  readonly #entries: (readonly [index: number, entry: ConvertEntry])[] = [];
  readonly #failures: (readonly [index: number, failure: NodeFailure])[] = [];
  /** The documents for the root document, as long as they are few. */
  readonly #documents = new Map<string, JsonObject>();
  #nodes = 0;
  #folders = 0;
  #folderBytes = 0;
  #found = 0;

  /** True if the root document still repeats the others. */
  get isConsolidated(): boolean {
    return this.#nodes <= MOST_CONSOLIDATED;
  }

  /** True if there are sources, and none was converted. */
  get areAllFailed(): boolean {
    return this.#entries.length > 0 && this.#entries.every(([, { status }]) => status === "failed");
  }

  /** The number of sources that are in the destination. */
  get there(): number {
    return this.#entries.filter(([, { status }]) => status !== "failed").length;
  }

  add(index: number, entry: ConvertEntry): void {
    this.#entries.push([index, entry]);
  }

  /** Keeps what was in the destination, although no record says that an earlier run made it of this source. */
  addFound(index: number, { path, node }: Pick<ConvertEntry, "path" | "node">): void {
    this.add(index, { path, node, status: "kept" });
    this.#found++;
  }

  /** Adds the result of a conversion of one source. */
  addResult(index: number, node: string, { entries, failures }: ConvertResult): void {
    for (const entry of entries) this.add(index, { ...entry, node: joinKey(node, entry.node) });
    for (const failure of failures) this.#failures.push([index, failure]);
  }

  addConverted(index: number, { path, node }: Pick<ConvertEntry, "path" | "node">, done: Converted): void {
    this.add(index, { path, node, status: "converted", result: done.result });
    for (const failure of done.failures) {
      this.#failures.push([index, failure]);
      this.add(index, { ...failure, node: joinKey(node, failure.node), status: "failed" });
    }
    this.#nodes += done.nodes;
    if (!this.isConsolidated) this.#documents.clear();
    else for (const [path, document] of done.described) this.#documents.set(joinKey(node, path), document);
  }

  /** Makes a group for each folder that contains a converted source, the root last. `put` resolves with the bytes written. */
  async publishFolders(put: (node: string, document: Uint8Array) => Promise<number>): Promise<void> {
    const nodes = this.#entries.flatMap(([, { node, status }]) => (status === "failed" ? [] : [node]));
    const described = this.isConsolidated ? this.#documents : undefined;
    for (const [node, document] of folderDocuments(nodes, described)) {
      this.#folderBytes += await put(node, encodeDocument(document));
      this.#folders++;
    }
  }

  /** The sums over all `sources`. `isNamed`: notes begin with the path of their source. */
  result(
    sources: readonly (Pick<SourceItem, "node" | "renamedFrom"> & Partial<Pick<SourceItem, "notes">>)[],
    how: { readonly isNamed: boolean; readonly verified: boolean; readonly seconds: number },
  ): ConvertResult {
    const { isNamed, verified, seconds } = how;
    const inOrder = <T>(all: (readonly [index: number, each: T])[]): T[] =>
      all.sort(([a], [b]) => a - b).map(([, each]) => each);
    const entries = inOrder(this.#entries);
    const results = entries.flatMap(({ node, path, result }) =>
      result === undefined ? [] : [{ node, path, result }],
    );
    const sum = (pick: (result: SourceResult) => number): number =>
      results.reduce((total, { result }) => total + pick(result), 0);
    const failed = new Set(entries.flatMap(({ node, status }) => (status === "failed" ? [node] : [])));
    const countOf = (status: ConvertEntry["status"]): number =>
      entries.filter((entry) => entry.status === status).length;
    return {
      arrays: sum(({ arrays }) => arrays),
      groups: sum(({ groups }) => groups) + this.#folders,
      chunksCopied: sum(({ chunksCopied }) => chunksCopied),
      chunksPadded: sum(({ chunksPadded }) => chunksPadded),
      chunksRecoded: sum(({ chunksRecoded }) => chunksRecoded),
      ...restreamedIn(sum(({ chunksRestreamed = 0 }) => chunksRestreamed)),
      shards: sum(({ shards }) => shards),
      shardsKept: sum(({ shardsKept }) => shardsKept),
      bytesWritten: sum(({ bytesWritten }) => bytesWritten) + this.#folderBytes,
      nbytes: sum(({ nbytes }) => nbytes),
      seconds,
      verified,
      notes: [
        ...sources.flatMap(({ notes = [] }) => notes),
        ...results.flatMap(({ path, result }) =>
          result.notes.map((note) => (isNamed ? `${path}: ${note}` : note)),
        ),
        ...(this.isConsolidated
          ? []
          : [`metadata are not consolidated: ${this.#nodes} nodes are more than ${MOST_CONSOLIDATED}`]),
        ...(this.#found === 0 ? [] : [`${this.#found} ${KEPT}`]),
      ],
      renamed: [
        ...sources.flatMap(({ node, renamedFrom: from }) =>
          from === undefined || failed.has(node) ? [] : [{ from, to: node }],
        ),
        ...results.flatMap(({ node, result }) =>
          result.renamed.map(({ from, to }) => ({ from, to: joinKey(node, to) })),
        ),
      ],
      converted: results.length,
      kept: countOf("kept"),
      failed: countOf("failed"),
      entries,
      failures: inOrder(this.#failures),
    };
  }
}
