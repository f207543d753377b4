/**
 * Plans the conversion of each node of a Zarr hierarchy to Zarr v3: its document, how its chunks must be changed to match, and
 * which nodes are skipped.
 *
 * Reads documents only. Must not write.
 */

import { at, elementsOf, isEqual } from "../../bytes/arrays.ts";
import { SuperchunkError, valueOr } from "../../errors.ts";
import { objectOf } from "../../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import { attributesLeft } from "../../store/types.ts";
import { type ItemTransform, repeatItem } from "../../values/copy-items.ts";
import { toJsonValue, toValues } from "../../values/values.ts";
import { type Chain, leafOf } from "../../zarr/codecs/chain.ts";
import type { Stage } from "../../zarr/codecs/stage.ts";
import { countPositions } from "../../zarr/document/chunk-grid.ts";
import { parseFillValue } from "../../zarr/document/data-type.ts";
import { bloscCodec, groupDocument, shardingCodec } from "../../zarr/document/make-v3.ts";
import { nameNodes, type Renaming } from "../../zarr/document/node-names.ts";
import type { StructField } from "../../zarr/document/struct-fields.ts";
import { base64, mapDType, type ZarrType } from "../../zarr/document/zarr-dtype.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { isIndexGroup, type ZarrGroup } from "../../zarr/read/group.ts";
import {
  assertSkippable,
  type ConversionPlan,
  type ConvertOptions,
  type FailedNode,
  type PlannedArray,
} from "../pipeline.ts";
import {
  addAttributes,
  checkDimensionNames,
  moveNgff,
  type NgffNodes,
  nameDimensions,
  notesOnAttributes,
  PYTABLES_INDEX,
  takeNames,
} from "../sources/source-array.ts";
import { RECTILINEAR_READERS, SNAPPY, typesizeOf } from "./array-job.ts";
import {
  addGroup,
  hasSubArrays,
  type JobOptions,
  loadFields,
  type MadeGroups,
  noteOn,
} from "./conversion-jobs.ts";

type ZarrPlanOptions = Pick<ConvertOptions, "dimensionNames" | "recode" | "signal"> &
  Pick<JobOptions, "isMember"> & {
    /** The bytes-to-bytes codecs of an array, if its own have no names in Zarr v3 (default: its own). */
    readonly codecsOf?: ((array: ZarrArray) => readonly JsonObject[]) | undefined;
    /** Why the array's store encodes its chunks (default: not checked, because that reads a chunk). */
    readonly whyEncoded?: (array: ZarrArray) => Promise<string | undefined>;
  };

export interface ZarrArrayJob extends V3Plan {
  /** Path in the destination, relative to the conversion's own. */
  readonly path: string;
  readonly node: ZarrArray;
  /** Why the array's store encodes its chunks. */
  readonly whyEncoded?: string | undefined;
}

interface ZarrGroupJob {
  readonly path: string;
  readonly document: JsonObject;
}

/** The plan of a node and everything below it. */
interface ZarrJobs {
  readonly plan: ConversionPlan;
  readonly arrays: readonly ZarrArrayJob[];
  /** Groups before their members. */
  readonly groups: readonly ZarrGroupJob[];
  /** Nodes that cannot be opened or converted. */
  readonly failed: readonly FailedNode[];
  /** What readers of the result have to know of its groups, and what is left out. */
  readonly notes: readonly string[];
}

/** Plans a node and everything below it. Nodes that cannot be opened or converted are listed, not thrown. */
export async function planZarrJobs(root: ZarrArray | ZarrGroup, options: ZarrPlanOptions): Promise<ZarrJobs> {
  const arrays: ZarrArrayJob[] = [];
  const made: MadeGroups = { groups: new Map(), renamed: [], notes: [] };
  const failed: FailedNode[] = [];
  const planned: PlannedArray[] = [];
  const images: NgffNodes = { moved: new Map(), axes: new Map() };
  const refuse = (path: string, source: string, error: unknown, node?: ZarrArray): void => {
    options.signal?.throwIfAborted();
    const refused = assertSkippable(error);
    failed.push({ path, source, error: refused });
    const facts =
      node === undefined
        ? { node: path, source, nbytes: 0, chunks: 0, shards: 0 }
        : factsOf(path, node, node);
    planned.push({ ...facts, notes: [], action: "refuse", code: refused.code, reason: refused.summary });
  };
  const add = async (path: string, source: string, node: ZarrArray, field?: StructField): Promise<void> => {
    try {
      if (field === undefined && hasSubArrays(node.dtype)) return await addParts(path, source, node);
      const type = field && (await loadFields()).mapField(node.dtype, field, source);
      const job = {
        path,
        node,
        ...(await planV3(node, options, type)),
        whyEncoded: await options.whyEncoded?.(node),
      };
      if (job.whyEncoded !== undefined && options.recode === false) throw notCopied(node, job.whyEncoded, {});
      arrays.push(job);
      planned.push(describeArray(job));
    } catch (failure) {
      refuse(path, source, failure, node);
    }
  };
  /** The fields of a struct as members of a group. */
  const addParts = async (
    path: string,
    source: string,
    node: ZarrArray,
    within?: StructField,
  ): Promise<void> => {
    const { FIELDS_APART, fieldsIn } = await loadFields();
    if (options.recode === false) throw notCopied(node, FIELDS_APART, { field: "data_type" });
    const whole = { offset: 0, shape: [], strides: [], fillValue: undefined };
    const fields = fieldsIn(within?.dtype ?? node.dtype, within ?? whole);
    if (within === undefined) made.notes.push(noteOn(path, FIELDS_APART));
    const group = { path: node.path, attrs: within === undefined ? node.attrs : {}, added: {} };
    const members = addGroup(
      made,
      { node: path },
      group,
      fields.map(({ name }) => name),
    );
    for (const [i, [name, { node: below }]] of members.entries()) {
      const [field, own] = [at(fields, i), `${source}/${name}`];
      if (field.dtype.kind === "struct") await addParts(below, own, node, field);
      else await add(below, own, node, field);
    }
  };
  for await (const { path, source, node, error } of nodesOf("", root, made.renamed)) {
    if (error === PYTABLES_INDEX) made.notes.push(noteOn(path, error));
    else if (node === undefined) refuse(path, source, error);
    if (node === undefined) continue;
    const left = await attributesLeft(node.store, node.path);
    if (left.length > 0)
      made.notes.push(noteOn(path, `attributes that JSON cannot hold are left out: ${left.join(", ")}`));
    if (node.kind === "array") await add(path, source, node);
    else {
      const image = node.dialect === "zarr2" ? moveNgff(node.attrs, path, images) : undefined;
      if (image !== undefined) made.notes.push(noteOn(path, MOVED));
      made.groups.set(path, groupDocument(image ?? node.attrs));
      made.notes.push(...notesOnAttributes(node.attrs).map((note) => noteOn(path, note)));
    }
  }
  const groups = [...made.groups].map(([path, document]) => ({ path, document }));
  const plan: ConversionPlan = {
    source: root.store.describe(root.path),
    kind: root.kind,
    arrays: planned,
    groups: groups.map(({ path }) => path),
    renamed: made.renamed,
    nbytes: planned.reduce((total, { nbytes }) => total + nbytes, 0),
  };
  const { dimensionNames, isMember = false } = options;
  const shapes = arrays.map(({ document }) => document["shape"] as readonly number[]);
  made.notes.push(...checkDimensionNames(dimensionNames, shapes, plan.source, isMember));
  const given = arrays.map((job, i) => {
    const names = [dimensionNames, images.axes.get(job.path)].find(
      (each) => each?.length === at(shapes, i).length,
    );
    return names === undefined ? job : { ...job, document: { ...job.document, dimension_names: names } };
  });
  const named = nameArrays(given, groups, isMember);
  return { plan, arrays: named, groups, failed, notes: made.notes };
}

/** Said of a group with an image. */
const MOVED =
  'its OME-NGFF metadata of version 0.4 are in the attribute "ome", as those of version 0.5, which Zarr v3 has';

/** The arrays with names for all dimensions. Columns of a table share their rows. */
function nameArrays(
  arrays: readonly ZarrArrayJob[],
  groups: readonly ZarrGroupJob[],
  isMember: boolean,
): ZarrArrayJob[] {
  const isTable = ({ document }: ZarrGroupJob): boolean =>
    Array.isArray((document["attributes"] as JsonObject)["column_order"]);
  const tables = new Set(groups.filter(isTable).map(({ path }) => path));
  return arrays.map((job) => {
    const isColumn = job.path !== "" && tables.has(splitKey(job.path).folder);
    const [document = job.document] = nameDimensions(
      [{ document: job.document, isColumn }],
      isMember || groups.length > 0,
    );
    return { ...job, document };
  });
}

function describeArray(job: ZarrArrayJob): PlannedArray {
  const { path, node, document, recoding, whyEncoded, nbytes, itemShape } = job;
  const { shape, chunkShape, shardShape } = node;
  const target = {
    nbytes,
    shape: [...shape, ...itemShape],
    chunkShape: [...chunkShape, ...itemShape],
    shardShape: shardShape && [...shardShape, ...itemShape],
  };
  const facts = { ...factsOf(path, node, target), notes: notesOnArray(job) };
  const dataType: JsonValue = document["data_type"] ?? null;
  if (nbytes === 0) return { ...facts, action: "empty", dataType };
  const all = { first: 0, count: facts.chunks };
  const reason = recoding?.reason ?? whyEncoded;
  if (reason === undefined) return { ...facts, action: "copy", dataType, runs: [{ ...all, action: "copy" }] };
  return { ...facts, action: "recode", reason, dataType, runs: [{ ...all, action: "recode", reason }] };
}

/** Which programs open structs: others do not open a group either whose document repeats theirs. */
export const STRUCT_READERS =
  "its items are structs: zarr-python opens it, and the groups above it, from version 3.2 (Python 3.12)";
/** What readers of the resulting array should know. */
export function notesOnArray({
  node: { model },
  document,
}: Pick<ZarrArrayJob, "node" | "document">): readonly string[] {
  const isUnequal = model.axes.some(({ lengths }) => lengths.length > 1);
  const { name } = objectOf(document["data_type"]);
  return [
    ...notesOnAttributes(objectOf(document["attributes"])),
    ...(name === "struct" || name === "structured" ? [STRUCT_READERS] : []),
    ...(isUnequal ? [`its grid is rectilinear: ${RECTILINEAR_READERS}`] : []),
  ];
}

function factsOf(
  node: string,
  array: ZarrArray,
  target: Pick<ZarrArray, "shape" | "nbytes" | "chunkShape" | "shardShape">,
): Omit<PlannedArray, "action" | "notes"> {
  const { shape, nbytes, chunkShape, shardShape } = target;
  return {
    node,
    source: array.store.describe(array.path),
    nbytes,
    chunks: elementsOf(shape.map((extent, d) => Math.ceil(extent / at(chunkShape, d)))),
    shards: countPositions(array.model.axes),
    shape,
    chunkShape,
    ...(shardShape === undefined ? {} : { shardShape }),
  };
}

/** A node with its path below the root, or why it cannot be opened. */
interface NamedNode {
  readonly path: string;
  /** Name in messages. */
  readonly source: string;
  readonly node?: ZarrArray | ZarrGroup;
  readonly error?: unknown;
}

/** A node and everything below it, groups before their members. Adds to `renamed` those whose names the destination cannot have. */
async function* nodesOf(
  path: string,
  node: ZarrArray | ZarrGroup,
  renamed: Renaming[],
): AsyncGenerator<NamedNode> {
  const source = node.store.describe(node.path);
  if (isIndexGroup(node) && path !== "") return yield { path, source, error: PYTABLES_INDEX };
  yield { path, source, node };
  if (node.kind === "array") return;
  for (const [name, to] of nameNodes(await node.members())) {
    const below = joinKey(path, to);
    if (to !== name) renamed.push({ from: joinKey(node.path, name), to: below });
    let member: ZarrArray | ZarrGroup;
    try {
      member = await node.open(name);
    } catch (error) {
      yield { path: below, source: node.store.describe(joinKey(node.path, name)), error };
      continue;
    }
    yield* nodesOf(below, member, renamed);
  }
}

/** How an array becomes Zarr v3. */
interface V3Plan {
  readonly document: JsonObject;
  /** Undefined if chunks are copied as stored. */
  readonly recoding: Recoding | undefined;
  /** Dimensions after those of the array: of a field that is a sub-array. */
  readonly itemShape: readonly number[];
  /** Uncompressed bytes. */
  readonly nbytes: number;
}

/** Why chunks are decoded and recompressed, and how their items change in between. */
export interface Recoding {
  readonly reason: string;
  readonly transform: ItemTransform | undefined;
}

/**
 * The array's document in Zarr v3: its own if it is v3 already. Codecs without a name in v3 become Blosc with zstd. `field`: the type of
 * the only field of its items that is taken.
 * @throws UNSUPPORTED for data types and fill values that Zarr v3 cannot express and, with `recode: false`, for codecs
 */
async function planV3(
  array: ZarrArray,
  { recode = true, codecsOf }: ZarrPlanOptions,
  field: ZarrType | undefined,
): Promise<V3Plan> {
  const { model, store } = array;
  if (model.dialect === "zarr3" && model.isRaw !== true)
    return { document: model.document, recoding: undefined, itemShape: [], nbytes: array.nbytes };
  const path = store.describe(array.path);
  const known = field ?? mapDType(array.dtype, { path, fillValue: array.fillValue });
  const { variable, order, stages: own } = storedCodecs(array);
  const type =
    variable?.dataType === undefined
      ? known
      : { ...known, dataType: variable.dataType, bytesCodec: variable.v3 ?? {} };
  const { itemShape } = type;
  const codecs = codecsOf?.(array);
  const isNamed = (stage: Stage): boolean => stage.v3 !== undefined && !(recode && isSnappy(stage));
  const nameless = codecs === undefined ? own.find((stage) => !isNamed(stage)) : undefined;
  const recoding = whyRecoded(type, nameless);
  if (recoding !== undefined && !recode)
    throw notCopied(
      array,
      recoding.reason,
      nameless === undefined ? { field: "data_type" } : { field: "compressor", found: nameless.name },
    );
  const transpose: JsonValue[] =
    order === undefined
      ? []
      : [
          {
            name: "transpose",
            configuration: { order: [...order, ...itemShape.map((_, d) => model.shape.length + d)] },
          },
        ];
  const typesize = typesizeOf(variable === undefined ? type : { ...type, itemSize: 1 });
  const zstd = bloscCodec({ cname: "zstd", clevel: 5, shuffle: "shuffle", typesize });
  const stages = codecs ?? (nameless === undefined ? own.map((stage) => stageFor(stage, type)) : [zstd]);
  const chain: JsonValue[] = [...transpose, type.bytesCodec, ...stages];
  // In these versions, shards are never nested.
  const { serializer } = model.chain;
  const { attributes } = addAttributes(model.attributes, {});
  const names = takeNames(attributes, model.shape.length);
  const document = {
    zarr_format: 3,
    node_type: "array",
    shape: [...model.shape, ...itemShape],
    data_type: type.dataType,
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: [...model.axes.map((axis) => axis.lengthOf(0)), ...itemShape] },
    },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: fillFor(array, type, path) ?? (await unusedFill(array, type, path)),
    codecs:
      serializer.kind === "bytes" ? chain : [shardingCodec([...serializer.chunkShape, ...itemShape], chain)],
    attributes: field === undefined ? attributes : {},
    ...(names === undefined ? {} : { dimension_names: [...names, ...itemShape.map(() => null)] }),
    storage_transformers: [],
  };
  return { document, recoding, itemShape, nbytes: (array.nbytes / array.dtype.itemSize) * type.itemSize };
}

/** The codecs of chunks: the serializer of values of variable length, which stay as it stores them, and those after it. */
export function storedCodecs({
  model,
}: ZarrArray): Pick<Chain, "order" | "stages"> & { readonly variable?: Stage } {
  const { order, stages } = leafOf(model.chain);
  const [variable, ...others] = stages;
  return variable?.dataType === undefined ? { order, stages } : { order, stages: others, variable };
}

function isSnappy({ v3 }: Stage): boolean {
  return (v3?.["configuration"] as JsonObject | undefined)?.["cname"] === "snappy";
}

function notCopied({ store, path }: ZarrArray, reason: string, details: object): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `the chunks cannot be copied as they are, and recoding is not allowed: ${reason}; "superchunk convert" without --no-recode recodes them`,
    { path: store.describe(path), ...details },
  );
}

function whyRecoded({ transform }: ZarrType, nameless: Stage | undefined): Recoding | undefined {
  const reasons = [
    ...(nameless === undefined
      ? []
      : [isSnappy(nameless) ? SNAPPY : `the codec "${nameless.name}" has no name in Zarr v3`]),
    ...(transform === undefined ? [] : [transform.reason]),
  ];
  return reasons.length === 0 ? undefined : { reason: reasons.join("; "), transform };
}

/** A codec that v3 has a name for. If items lose their padding, they are shuffled by their new size. */
function stageFor({ v3 = {} }: Stage, type: ZarrType): JsonObject {
  if (type.transform === undefined || v3["name"] !== "blosc") return v3;
  return { ...v3, configuration: { ...(v3["configuration"] as JsonObject), typesize: typesizeOf(type) } };
}

/** The fill value as v3 spells it, proven to be the same item; undefined if there is none. */
function fillFor(array: ZarrArray, { fill, transform }: ZarrType, path: string): JsonValue | undefined {
  const { fillItem } = array.model;
  const expected = transform === undefined ? fillItem : transform.apply(fillItem);
  const target = transform?.target ?? array.dtype;
  const first = expected.subarray(0, target.itemSize);
  // A field has no fill value of its own: that of the struct is base64.
  const [value] = toValues(first.slice(), target);
  const own = typeof value === "bigint" ? value : toJsonValue(value, target);
  for (const json of [fill.json, array.fillValue, 0, base64(first), own]) {
    const item = json === null ? undefined : parseFillItem(target, json, path);
    // A sub-array has one fill value for all of its values.
    if (item !== undefined && isEqual(repeatItem(item, new Uint8Array(expected.length)), expected))
      return json;
  }
  return undefined;
}

/** Another fill value, if no value depends on it. Throws `UNSUPPORTED` if a chunk is not stored. */
async function unusedFill(array: ZarrArray, { fill }: ZarrType, path: string): Promise<JsonValue> {
  const missing = await array.countMissing();
  if (missing === 0) return fill.json;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `Zarr v3 cannot express this fill value, and chunks that are not stored (${missing}) have it; write all chunks, or set another fill value`,
    { path, field: "fill_value", found: array.fillValue },
  );
}

function parseFillItem(dtype: DType, json: JsonValue, path: string): Uint8Array | undefined {
  return valueOr(undefined, "any", () => parseFillValue(dtype, json, { path, field: "fill_value" }));
}
