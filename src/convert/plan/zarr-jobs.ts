/**
 * What becomes of each node of a Zarr hierarchy that is converted to Zarr v3, and which are left out.
 *
 * Reads documents only. Must not write.
 */
import type { SuperchunkError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { StoreOptions } from "../../store/types.ts";
import { countPositions } from "../../zarr/document/chunk-grid.ts";
import { groupDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import { assertSkippable } from "../run/failure.ts";
import type { ConversionPlan, PlannedArray } from "./convert-options.ts";
import { planV3, type Recoding } from "./v3-document.ts";
import { notesOnAttributes } from "./zarr-attributes.ts";

/** What decides which nodes are converted, and how. */
export interface ZarrPlanOptions extends StoreOptions {
  /** False: refuse (`UNSUPPORTED`) where chunks cannot be copied, instead of recoding them. Default true. */
  readonly recode?: boolean | undefined;
  /**
   * Of a group, go on past arrays that cannot be read or converted: they are left out, and the result's `failures` name them.
   * Default false: the first of them is thrown.
   */
  readonly skipFailed?: boolean | undefined;
}

/** A node with its path below the root. */
interface NamedNode {
  readonly path: string;
  readonly node: ZarrArray | ZarrGroup;
}

/** A node that cannot be opened or converted. */
export interface FailedNode {
  readonly path: string;
  /** How messages name it. */
  readonly source: string;
  readonly error: SuperchunkError;
}

/** What `convertZarr` would do, without writing. Members that cannot be opened or converted are told as refused. */
export async function planZarrConversion(
  root: ZarrArray | ZarrGroup,
  options: Pick<ZarrPlanOptions, "recode"> = {},
): Promise<ConversionPlan> {
  return (await planZarrNodes(root, options)).plan;
}

/** A plan, and why each of its refused arrays is. */
export interface ZarrPlan {
  readonly plan: ConversionPlan;
  readonly failed: readonly FailedNode[];
}

/** The same with the errors. */
export async function planZarrNodes(
  root: ZarrArray | ZarrGroup,
  options: Omit<ZarrPlanOptions, "skipFailed">,
): Promise<ZarrPlan> {
  const arrays: PlannedArray[] = [];
  const groups: string[] = [];
  const failed: FailedNode[] = [];
  const onFailed: FailureListener = (failure, array) => {
    const { path: node, source, error } = failure;
    failed.push(failure);
    const facts =
      array === undefined
        ? { node, source, nbytes: 0, chunks: 0, shards: 0, notes: [] }
        : factsOf(node, array);
    arrays.push({ ...facts, action: "refuse", reason: error.summary });
  };
  for await (const job of jobsOf(root, options, onFailed)) {
    if (job.node.kind === "group") groups.push(job.path);
    else arrays.push(describeArray(job.node, job));
  }
  const plan: ConversionPlan = {
    source: root.store.describe(root.path),
    kind: root.kind,
    arrays,
    groups,
    renamed: [],
    nbytes: arrays.reduce((total, { nbytes }) => total + nbytes, 0),
  };
  return { plan, failed };
}

function describeArray(array: ZarrArray, { path, document, recoding }: ZarrJob): PlannedArray {
  const facts = factsOf(path, array);
  const dataType: JsonValue = document["data_type"] ?? null;
  if (array.nbytes === 0) return { ...facts, action: "empty", dataType };
  if (recoding === undefined) return { ...facts, action: "copy", dataType };
  return { ...facts, action: "recode", reason: recoding.reason, dataType };
}

function factsOf(node: string, array: ZarrArray): Omit<PlannedArray, "action"> {
  const { shape, nbytes, chunkShape, shardShape, model } = array;
  const count = (lengths: readonly number[]): number =>
    shape.reduce((product, extent, d) => product * Math.ceil(extent / (lengths[d] ?? 1)), 1);
  return {
    node,
    source: array.store.describe(array.path),
    nbytes,
    chunks: count(chunkShape),
    shards: countPositions(model.axes),
    shape,
    chunkShape,
    ...(shardShape === undefined ? {} : { shardShape }),
    notes: notesOnAttributes(array.attrs),
  };
}

/** A node of a conversion, and what becomes of it. */
interface ZarrJob {
  readonly path: string;
  readonly node: ZarrArray | ZarrGroup;
  readonly document: JsonObject;
  readonly recoding: Recoding | undefined;
}

/** All nodes of a conversion, groups before their members. */
export interface ZarrJobs {
  /** What makes the source the same source. */
  readonly source: JsonObject;
  readonly nodes: readonly ZarrJob[];
  /** What is left out. */
  readonly failed: readonly FailedNode[];
}

/**
 * What becomes of a node and all below it. Throws `UNSUPPORTED` for what Zarr v3 has no words for, and with `skipFailed` only
 * where that leaves no array at all.
 */
export async function planZarrJobs(root: ZarrArray | ZarrGroup, options: ZarrPlanOptions): Promise<ZarrJobs> {
  const nodes: ZarrJob[] = [];
  const failed: FailedNode[] = [];
  const skips = options.skipFailed === true && root.kind === "group";
  const onFailed = skips ? (failure: FailedNode): unknown => failed.push(failure) : undefined;
  for await (const job of jobsOf(root, options, onFailed)) nodes.push(job);
  const [first] = failed;
  if (first !== undefined && !nodes.some(({ node }) => node.kind === "array")) throw first.error;
  const documents = Object.fromEntries(nodes.map(({ path, document }) => [`/${path}`, document]));
  return { source: { location: root.store.describe(root.path), documents }, nodes, failed };
}

/** Is told of nodes that are left out; with the array, where it was opened and cannot be converted. */
type FailureListener = (failure: FailedNode, array?: ZarrArray) => unknown;

/** What becomes of each node. Nodes that cannot be opened or converted are thrown, or told. */
async function* jobsOf(
  root: ZarrArray | ZarrGroup,
  options: ZarrPlanOptions,
  onFailed: FailureListener | undefined,
): AsyncGenerator<ZarrJob> {
  for await (const { path, node } of nodesOf("", root, options.signal, onFailed)) {
    if (node.kind === "group") {
      yield { path, node, document: groupDocument(node.attrs), recoding: undefined };
      continue;
    }
    let planned: Pick<ZarrJob, "document" | "recoding">;
    try {
      planned = planV3(node, options);
    } catch (error) {
      const source = node.store.describe(node.path);
      const failure = failureAt({ path, source }, error, onFailed !== undefined, options.signal);
      onFailed?.(failure, node);
      continue;
    }
    yield { path, node, ...planned };
  }
}

/** An error as a failure of a node. Throws it where nothing is skipped, where it is no fault of the node, and when aborted. */
export function failureAt(
  at: { readonly path: string; readonly source: string },
  error: unknown,
  skips: boolean,
  signal: AbortSignal | undefined,
): FailedNode {
  signal?.throwIfAborted();
  if (!skips) throw error;
  return { path: at.path, source: at.source, error: assertSkippable(error) };
}

/** A node and all below it, groups before their members. Members that cannot be opened are thrown, or told. */
async function* nodesOf(
  path: string,
  node: ZarrArray | ZarrGroup,
  signal: AbortSignal | undefined,
  onFailed: FailureListener | undefined,
): AsyncGenerator<NamedNode> {
  yield { path, node };
  if (node.kind === "array") return;
  for (const name of await node.members()) {
    const below = joinKey(path, name);
    let member: ZarrArray | ZarrGroup;
    try {
      member = await node.open(name);
    } catch (error) {
      const source = node.store.describe(joinKey(node.path, name));
      const failure = failureAt({ path: below, source }, error, onFailed !== undefined, signal);
      onFailed?.(failure);
      continue;
    }
    yield* nodesOf(below, member, signal, onFailed);
  }
}
