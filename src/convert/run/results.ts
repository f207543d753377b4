/** What many sources came to: the groups of their folders, and the sums over them. */

import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { consolidate, groupDocument, MOST_CONSOLIDATED } from "../../zarr/document/make-v3.ts";
import type { ConvertEntry, ConvertResult, SourceResult } from "../pipeline.ts";
import { restreamedIn } from "./run-source.ts";

/** A group for each folder that nodes lie in, the innermost first, the root last. The root's document repeats those in `described`. */
export function folderDocuments(
  nodes: Iterable<string>,
  described: ReadonlyMap<string, JsonObject> | undefined,
): (readonly [node: string, document: JsonObject])[] {
  const folders = new Set<string>();
  for (const node of nodes) {
    const parts = node.split("/");
    for (let depth = 1; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
  }
  const inner = [...folders]
    .sort((a, b) => b.length - a.length)
    .map((folder) => [folder, groupDocument({})] as const);
  const root = groupDocument({});
  return [
    ...inner,
    ["", described === undefined ? root : consolidate(root, new Map([...described, ...inner]))],
  ];
}

/** What a conversion's result is made of. */
interface ResultParts extends Pick<ConvertResult, "entries" | "failures" | "notes" | "renamed"> {
  /** True where notes begin with the path of their source. */
  readonly isNamed: boolean;
  /** Nodes that the root's document could have repeated. */
  readonly nodes: number;
  /** Groups for folders, and the bytes of their documents. */
  readonly folders: number;
  readonly folderBytes: number;
  readonly verified: boolean;
  readonly seconds: number;
}

/** The sums over the sources that were converted. */
export function sumResults({ entries, failures, isNamed, nodes, ...parts }: ResultParts): ConvertResult {
  const results = entries.flatMap(({ node, path, result }) =>
    result === undefined ? [] : [{ node, path, result }],
  );
  const sum = (pick: (result: SourceResult) => number): number =>
    results.reduce((total, { result }) => total + pick(result), 0);
  const countOf = (status: ConvertEntry["status"]): number =>
    entries.filter((entry) => entry.status === status).length;
  const limits =
    nodes > MOST_CONSOLIDATED
      ? [`metadata is not consolidated: ${nodes} nodes are more than ${MOST_CONSOLIDATED}`]
      : [];
  return {
    arrays: sum(({ arrays }) => arrays),
    groups: sum(({ groups }) => groups) + parts.folders,
    chunksCopied: sum(({ chunksCopied }) => chunksCopied),
    chunksPadded: sum(({ chunksPadded }) => chunksPadded),
    chunksRecoded: sum(({ chunksRecoded }) => chunksRecoded),
    ...restreamedIn(sum(({ chunksRestreamed = 0 }) => chunksRestreamed)),
    shards: sum(({ shards }) => shards),
    shardsKept: sum(({ shardsKept }) => shardsKept),
    bytesWritten: sum(({ bytesWritten }) => bytesWritten) + parts.folderBytes,
    nbytes: sum(({ nbytes }) => nbytes),
    seconds: parts.seconds,
    verified: parts.verified,
    notes: [
      ...parts.notes,
      ...results.flatMap(({ path, result }) =>
        result.notes.map((note) => (isNamed ? `${path}: ${note}` : note)),
      ),
      ...limits,
    ],
    renamed: [
      ...parts.renamed,
      ...results.flatMap(({ node, result }) =>
        result.renamed.map(({ from, to }) => ({ from, to: joinKey(node, to) })),
      ),
    ],
    converted: results.length,
    kept: countOf("kept"),
    failed: countOf("failed"),
    entries,
    failures,
  };
}
