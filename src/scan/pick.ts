/**
 * Selects items of an array as numpy does: by lists of indices, masks, backward slices, coordinates, and fields of a struct.
 * Decodes each chunk once, in stored order.
 *
 * Knows what arrays have in common. @see docs/library.md
 */
import { allocate, at, combine, elementsOf } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { notNamed, SuperchunkError } from "../errors.ts";
import type { DType, Field } from "../format/types.ts";
import { mapAhead } from "../store/pool.ts";
import type { StoreOptions } from "../store/types.ts";
import { type ArraySlice, resolveSelection, type Slice, stridesOf } from "../values/selection.ts";
import { assertReadable, fieldSize, toValues } from "../values/values.ts";
import type { ScanArray } from "./columns.ts";

/** Indices of one dimension, from 0, or from the end if negative; in any order, with repetition. */
export type Indices = readonly number[] | Int32Array | Uint32Array | Float64Array;

/**
 * One dimension of `oindex`: an index (drops the dimension), a slice (the step may be negative), null (all), indices, or a mask of all
 * items.
 */
export type OuterEntry = number | Slice | null | Indices | readonly boolean[];

/** Options of `oindex` and `vindex`. */
export interface PickOptions extends StoreOptions {
  /** Fields of a struct to return, in this order. Columns stored separately are read only if requested. */
  readonly fields?: readonly string[] | undefined;
}

/** Approximate bytes read in one step. */
const STEP_BYTES = 16 << 20;
/** Steps that are read ahead. */
const AHEAD = 2;

/** Items of one dimension that are in the same chunks. */
interface Group {
  readonly from: number;
  readonly to: number;
  /** For each item: its distance from `from`, and its index in the result. */
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  /** True if the items are consecutive in both. */
  readonly isRun: boolean;
}

/**
 * The items of the outer product of the entries, like `oindex` of numpy and Zarr.
 *
 * @throws BAD_ARGUMENT for entries that do not fit the shape, LIMIT for a result that does not fit in memory, and the codes
 * of reading
 */
export async function pickOuter(
  array: ScanArray,
  entries: readonly OuterEntry[] | null,
  options: PickOptions = {},
): Promise<ArraySlice> {
  checkOptions(options, "fields signal");
  const chosen = itemReader(array, options.fields);
  const given = entries ?? [];
  if (!Array.isArray(given) || given.length > array.shape.length)
    throw wrong(array, `oindex takes a list of at most ${array.shape.length} entries`, given);
  const dims = array.shape.map((length, d) => indicesOf(array, given[d] ?? null, d, length));
  const counts = dims.map(({ indices }) => indices.length);
  const size = chosen.itemSize;
  const out = allocate(elementsOf(counts) * size, { path: array.store.describe(array.path) });
  const strides = stridesOf(counts);
  const unit =
    array.shape.length === 0 ? 1 : Math.max(1, elementsOf(array.shape.slice(1)) * array.dtype.itemSize);
  const groups = dims.map(({ indices }, d) => groupsOf(indices, chunkNumberer(array, d), d === 0 ? unit : 1));
  for await (const { box, bytes } of chosen.readAll(combine(groups), options.signal)) {
    const inner = stridesOf(box.map(({ from, to }) => to - from));
    const copy = (d: number, source: number, target: number): void => {
      const group = box[d];
      if (group === undefined) {
        for (let b = 0; b < size; b++) out[target * size + b] = bytes[source * size + b] as number;
        return;
      }
      if (group.isRun && d === box.length - 1) {
        const from = source * size;
        out.set(
          bytes.subarray(from, from + group.sources.length * size),
          (target + at(group.targets, 0)) * size,
        );
        return;
      }
      const [step, stride] = [at(inner, d), at(strides, d)];
      for (let i = 0; i < group.sources.length; i++)
        copy(d + 1, source + at(group.sources, i) * step, target + at(group.targets, i) * stride);
    };
    copy(0, 0, 0);
  }
  const shape = dims.flatMap(({ indices, dropped }) => (dropped ? [] : [indices.length]));
  return { data: toValues(out, chosen.dtype, elementsOf(counts)), shape, stride: stridesOf(shape) };
}

/**
 * The items at the given coordinates, like `vindex` of Zarr and numpy's indexing with arrays: one list for each dimension, all of
 * the same length.
 *
 * @throws BAD_ARGUMENT for coordinates that do not fit the shape, LIMIT for a result that does not fit in memory, and the codes of
 * reading
 */
export async function pickPoints(
  array: ScanArray,
  coordinates: readonly Indices[],
  options: PickOptions = {},
): Promise<ArraySlice> {
  const { shape } = array;
  if (shape.length === 0) return pickOuter(array, coordinates, options);
  checkOptions(options, "fields signal");
  const chosen = itemReader(array, options.fields);
  const count = coordinates?.[0]?.length ?? 0;
  if (
    coordinates?.length !== shape.length ||
    coordinates.some((each) => each?.length !== count || typeof each[0] === "boolean")
  )
    throw wrong(
      array,
      `vindex takes ${shape.length} lists of indices of one length, one for each dimension`,
      coordinates?.length,
    );
  const dims = shape.map((length, d) => indicesOf(array, at(coordinates, d), d, length).indices);
  const size = chosen.itemSize;
  const out = allocate(count * size, { path: array.store.describe(array.path) });
  const cells = new Map<string, { readonly place: readonly number[]; readonly points: number[] }>();
  const chunks = shape.map((_, d) => chunkNumberer(array, d));
  for (let i = 0; i < count; i++) {
    const place = dims.map((indices, d) => at(chunks, d)(at(indices, i)));
    const key = place.join();
    const cell = cells.get(key);
    if (cell === undefined) cells.set(key, { place, points: [i] });
    else cell.points.push(i);
  }
  const ordered = [...cells.values()].sort((a, b) => compare(a.place, b.place));
  const boxes = ordered.map(({ points }) => dims.map((indices) => groupOfPoints(indices, points)));
  for await (const { box, bytes } of chosen.readAll(boxes, options.signal)) {
    const inner = stridesOf(box.map(({ from, to }) => to - from));
    for (const [i, point] of at(box, 0).targets.entries()) {
      const source = box.reduce((sum, { sources }, d) => sum + at(sources, i) * at(inner, d), 0);
      out.set(bytes.subarray(source * size, (source + 1) * size), point * size);
    }
  }
  return { data: toValues(out, chosen.dtype, count), shape: [count], stride: [1] };
}

/** Reads the items of an array, or some fields of each. */
function itemReader(array: ScanArray, names: readonly string[] | undefined) {
  assertReadable(array.dtype, array.store.describe(array.path));
  const chosen = names === undefined ? undefined : fieldsOf(array, names);
  const dtype = chosen === undefined ? array.dtype : packed(chosen);
  const { itemSize } = dtype;

  /** The items of a box in C order. */
  async function read(box: readonly Group[], signal: AbortSignal): Promise<Uint8Array> {
    const selection = box.map(({ from, to }) => ({ start: from, stop: to, step: 1 }));
    if (chosen === undefined) return array.getBytes(selection, { signal });
    const count = elementsOf(box.map(({ from, to }) => to - from));
    const out = new Uint8Array(count * itemSize);
    const isApart = array.columnNames.length > 0;
    const whole = isApart ? undefined : await array.getBytes(selection, { signal });
    let target = 0;
    for (const field of chosen) {
      const size = fieldSize(field);
      const bytes = whole ?? (await array.column(field.name).getBytes(selection, { signal }));
      const [step, offset] = isApart ? [size, 0] : [array.dtype.itemSize, field.offset];
      for (let i = 0; i < count; i++)
        for (let b = 0; b < size; b++)
          out[i * itemSize + target + b] = bytes[i * step + offset + b] as number;
      target += size;
    }
    return out;
  }

  /** The items of each box, in the order of the boxes; some are read ahead. */
  const readAll = (boxes: Iterable<readonly Group[]>, signal: AbortSignal | undefined) =>
    mapAhead(boxes, AHEAD, async (box, call) => ({ box, bytes: await read(box, call) }), signal);
  return { dtype, itemSize, readAll };
}

function fieldsOf(array: ScanArray, names: readonly string[]): readonly Field[] {
  const { dtype, store, path } = array;
  if (dtype.kind !== "struct") throw wrong(array, "fields are for arrays of structs", dtype.kind);
  return names.map((name) => {
    const field = dtype.fields.find((each) => each.name === name);
    if (field !== undefined) return field;
    const known = dtype.fields.map((each) => each.name);
    throw notNamed("field", name, known, store.describe(path));
  });
}

/** A struct of the fields, one directly after the other. */
function packed(fields: readonly Field[]): DType {
  let itemSize = 0;
  const placed = fields.map((field) => {
    itemSize += fieldSize(field);
    return { ...field, offset: itemSize - fieldSize(field) };
  });
  return { kind: "struct", byteOrder: "none", fields: placed, itemSize };
}

/** The indices of an entry, counted from 0, and whether its dimension is dropped. */
function indicesOf(
  array: ScanArray,
  entry: OuterEntry,
  dimension: number,
  length: number,
): { readonly indices: Float64Array; readonly dropped: boolean } {
  if (Array.isArray(entry) && entry.length > 0 && entry.every((each) => typeof each === "boolean")) {
    if (entry.length !== length)
      throw wrong(
        array,
        `the mask of dimension ${dimension} has ${entry.length} items, not ${length}`,
        entry.length,
      );
    const indices = entry.flatMap((isTaken, i) => (isTaken === true ? [i] : []));
    return { indices: Float64Array.from(indices), dropped: false };
  }
  if (Array.isArray(entry) || ArrayBuffer.isView(entry)) {
    const given = entry as Indices;
    const indices = Float64Array.from(given, (index) => {
      const found = typeof index === "number" && index < 0 ? index + length : index;
      if (Number.isInteger(found) && found >= 0 && found < length) return found;
      const kind = typeof index;
      const reason =
        kind === "number"
          ? `outside of dimension ${dimension}, of length ${length}`
          : `not a number (${kind})`;
      throw wrong(array, `index ${String(index)} is ${reason}`, index);
    });
    return { indices, dropped: false };
  }
  const step = typeof entry === "object" && entry !== null ? ((entry as Slice).step ?? 1) : 1;
  const isBackward = step < 0 && Number.isInteger(step);
  const forward = isBackward ? { ...(entry as Slice), step: -step } : (entry as Slice);
  const entries = Array.from({ length: dimension + 1 }, (_, d) => (d === dimension ? forward : null));
  const { start, count, step: own, dropped } = at(resolveSelection(entries, array.shape), dimension);
  if (isBackward) {
    // As in numpy: the default start is the last item, the default stop is before the first.
    const bound = (value: number): number =>
      Math.min(length - 1, Math.max(-1, value < 0 ? value + length : value));
    const [from, end] = [bound(forward.start ?? length - 1), forward.stop == null ? -1 : bound(forward.stop)];
    const taken = Math.max(0, Math.ceil((from - end) / -step));
    return { indices: Float64Array.from({ length: taken }, (_, i) => from + i * step), dropped: false };
  }
  return { indices: Float64Array.from({ length: count }, (_, i) => start + i * own), dropped };
}

/** Returns a function for the chunk of an item along a dimension. */
function chunkNumberer(array: ScanArray, dimension: number): (item: number) => number {
  const axis = array.model?.axes[dimension];
  if (axis !== undefined) return (item) => axis.chunkOf(item);
  const { chunkLength } = array;
  if (dimension > 0 || chunkLength === undefined || chunkLength === 0) return () => 0;
  return (item) => Math.floor(item / chunkLength);
}

/** Groups items by chunk, in the order of chunks. Adjacent chunks are read together, up to a limit. */
function groupsOf(indices: Float64Array, chunk: (item: number) => number, itemBytes: number): Group[] {
  const order = Uint32Array.from(indices, (_, i) => i).sort(
    (a, b) => at(indices, a) - at(indices, b) || a - b,
  );
  const groups: Group[] = [];
  for (let first = 0; first < order.length; ) {
    const from = at(indices, at(order, first));
    let end = first + 1;
    for (; end < order.length; end++) {
      const [before, item] = [at(indices, at(order, end - 1)), at(indices, at(order, end))];
      const apart = chunk(item) - chunk(before);
      if (apart > 1 || (apart === 1 && (item - from) * itemBytes > STEP_BYTES)) break;
    }
    const members = order.subarray(first, end);
    const sources = Int32Array.from(members, (member) => at(indices, member) - from);
    const targets = Int32Array.from(members);
    const isRun = sources.every((source, i) => source === i && at(targets, i) === at(targets, 0) + i);
    groups.push({ from, to: at(indices, at(order, end - 1)) + 1, sources, targets, isRun });
    first = end;
  }
  return groups;
}

/** The points of one chunk in one dimension, in their order. */
function groupOfPoints(indices: Float64Array, points: readonly number[]): Group {
  const own = points.map((point) => at(indices, point));
  const from = own.reduce((least, index) => Math.min(least, index), Number.POSITIVE_INFINITY);
  const to = own.reduce((most, index) => Math.max(most, index + 1), 0);
  const sources = Int32Array.from(own, (index) => index - from);
  return { from, to, sources, targets: Int32Array.from(points), isRun: false };
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [d, place] of a.entries()) if (place !== b[d]) return place - at(b, d);
  return 0;
}

function wrong({ store, path }: ScanArray, message: string, found: unknown): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", message, {
    path: store.describe(path),
    field: "selection",
    found,
  });
}
