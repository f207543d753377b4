/**
 * What becomes of each node of a Zarr hierarchy that is converted to Zarr v3, and which are left out.
 *
 * Reads documents only. Must not write.
 */
import { at } from "../../bytes/at.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { countPositions } from "../../zarr/document/chunk-grid.ts";
import { groupDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import type { ConversionPlan, ConvertOptions, FailedNode, PlannedArray } from "../pipeline.ts";
import { assertSkippable } from "../run/failure.ts";
import { planV3, type V3Plan } from "./v3-document.ts";
import { notesOnAttributes } from "./zarr-attributes.ts";

/** What decides which nodes are converted, and how. */
type ZarrPlanOptions = Pick<ConvertOptions, "recode" | "signal">;

/** An array of a conversion, and what becomes of it. */
export interface ZarrArrayJob extends V3Plan {
  /** Path below the conversion's own. */
  readonly path: string;
  readonly node: ZarrArray;
}

/** A group of a conversion. */
export interface ZarrGroupJob {
  readonly path: string;
  readonly node: ZarrGroup;
  readonly document: JsonObject;
}

/** What becomes of a node and all below it. */
export interface ZarrJobs {
  readonly plan: ConversionPlan;
  readonly arrays: readonly ZarrArrayJob[];
  /** Groups before their members. */
  readonly groups: readonly ZarrGroupJob[];
  /** Nodes that cannot be opened or converted. */
  readonly failed: readonly FailedNode[];
}

/** Plans a node and all below it. Nodes that cannot be opened or converted are listed as refused, not thrown. */
export async function planZarrJobs(root: ZarrArray | ZarrGroup, options: ZarrPlanOptions): Promise<ZarrJobs> {
  const arrays: ZarrArrayJob[] = [];
  const groups: ZarrGroupJob[] = [];
  const failed: FailedNode[] = [];
  const planned: PlannedArray[] = [];
  const refuse = (path: string, source: string, error: unknown, node?: ZarrArray): void => {
    options.signal?.throwIfAborted();
    const refused = assertSkippable(error);
    failed.push({ path, source, error: refused });
    const facts =
      node === undefined
        ? { node: path, source, nbytes: 0, chunks: 0, shards: 0, notes: [] }
        : factsOf(path, node);
    planned.push({ ...facts, action: "refuse", reason: refused.summary });
  };
  for await (const { path, source, node, error } of nodesOf("", root)) {
    if (node === undefined) refuse(path, source, error);
    else if (node.kind === "group") groups.push({ path, node, document: groupDocument(node.attrs) });
    else {
      try {
        const job = { path, node, ...planV3(node, options) };
        arrays.push(job);
        planned.push(describeArray(job));
      } catch (failure) {
        refuse(path, source, failure, node);
      }
    }
  }
  const plan: ConversionPlan = {
    source: root.store.describe(root.path),
    kind: root.kind,
    arrays: planned,
    groups: groups.map(({ path }) => path),
    renamed: [],
    nbytes: planned.reduce((total, { nbytes }) => total + nbytes, 0),
  };
  return { plan, arrays, groups, failed };
}

function describeArray({ path, node, document, recoding }: ZarrArrayJob): PlannedArray {
  const facts = factsOf(path, node);
  const dataType: JsonValue = document["data_type"] ?? null;
  if (node.nbytes === 0) return { ...facts, action: "empty", dataType };
  const all = { first: 0, count: facts.chunks };
  if (recoding === undefined)
    return { ...facts, action: "copy", dataType, runs: [{ ...all, action: "copy" }] };
  const { reason } = recoding;
  return { ...facts, action: "recode", reason, dataType, runs: [{ ...all, action: "recode", reason }] };
}

function factsOf(node: string, array: ZarrArray): Omit<PlannedArray, "action"> {
  const { shape, nbytes, chunkShape, shardShape, model } = array;
  return {
    node,
    source: array.store.describe(array.path),
    nbytes,
    chunks: shape.reduce((product, extent, d) => product * Math.ceil(extent / at(chunkShape, d)), 1),
    shards: countPositions(model.axes),
    shape,
    chunkShape,
    ...(shardShape === undefined ? {} : { shardShape }),
    notes: notesOnAttributes(array.attrs),
  };
}

/** A node with its path below the root; or why it cannot be opened. */
interface NamedNode {
  readonly path: string;
  /** How messages name it. */
  readonly source: string;
  readonly node?: ZarrArray | ZarrGroup;
  readonly error?: unknown;
}

/** A node and all below it, groups before their members. */
async function* nodesOf(path: string, node: ZarrArray | ZarrGroup): AsyncGenerator<NamedNode> {
  yield { path, source: node.store.describe(node.path), node };
  if (node.kind === "array") return;
  for (const name of await node.members()) {
    const below = joinKey(path, name);
    let member: ZarrArray | ZarrGroup;
    try {
      member = await node.open(name);
    } catch (error) {
      yield { path: below, source: node.store.describe(joinKey(node.path, name)), error };
      continue;
    }
    yield* nodesOf(below, member);
  }
}
