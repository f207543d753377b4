/** Object headers of HDF5: the facts of a dataset, the members of a group. Must not know Zarr. */
import { resultOr, SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import {
  type AttributeValue,
  attributesJson,
  type Hdf5Type,
  isHarmless,
  readAttribute,
  readDatatype,
  type ScaleUser,
  scalesOf,
  usersOf,
} from "./datatype.ts";
import { decodeText, type Fields, type Hdf5File } from "./file.ts";
import { Members, OF_GROUPS } from "./groups.ts";
import { FractalHeap, IN_SHARED_HEAP, MAX_DEPTH } from "./heaps.ts";

const DATASPACE = 0x01;
const DATATYPE = 0x03;
const OLD_FILL_VALUE = 0x04;
const FILL_VALUE = 0x05;
const EXTERNAL = 0x07;
const LAYOUT = 0x08;
const FILTERS = 0x0b;
const ATTRIBUTE = 0x0c;
const CONTINUATION = 0x10;
const ATTRIBUTE_INFO = 0x15;

/** Indexes of chunks by type, with the bytes of their settings. */
const INDEXES: Readonly<Record<number, readonly [ChunkIndex["kind"], number]>> = {
  1: ["single", 0],
  2: ["implicit", 0],
  3: ["fixed", 1],
  4: ["extensible", 5],
  5: ["tree-2", 6],
};

/** Most messages of a header. */
const MAX_MESSAGES = 100_000;
const MAX_RANK = 32;

interface Message {
  readonly type: number;
  /** True if the message is stored elsewhere. */
  readonly isShared: boolean;
  readonly fields: Fields;
}

/** A filter of the pipeline; a writer applies filters in this order. */
export interface Hdf5Filter {
  readonly id: number;
  readonly name: string;
  readonly values: readonly number[];
}

/** Storage of a dataset's values. */
export type Hdf5Layout =
  | { readonly kind: "compact"; readonly position: number; readonly length: number }
  | { readonly kind: "contiguous"; readonly address: number | undefined }
  | {
      readonly kind: "chunked";
      /** Items of a chunk along each dimension. */
      readonly chunks: readonly number[];
      readonly address: number | undefined;
      readonly index: ChunkIndex;
      /** True if chunks that reach past the array's end are not filtered. */
      readonly bareEdges: boolean;
    };

export interface ChunkIndex {
  readonly kind: "tree-1" | "tree-2" | "implicit" | "extensible" | "fixed" | "single";
  /** Of a single chunk with filters: its bytes, and the filters that are left out. */
  readonly size?: number | undefined;
  readonly mask: number;
}

export interface Hdf5Dataset {
  readonly kind: "dataset";
  readonly shape: readonly number[];
  /** The maximum shape; undefined for unlimited dimensions. */
  readonly maxShape: readonly (number | undefined)[];
  readonly type: Hdf5Type;
  readonly layout: Hdf5Layout;
  readonly filters: readonly Hdf5Filter[];
  /** One item; undefined for zeros. */
  readonly fill: Uint8Array | undefined;
  readonly attrs: JsonObject;
  /** Names of attributes that JSON cannot hold. */
  readonly attrsLeft: readonly string[];
  /** Addresses of the datasets that are the scales of its dimensions, as netCDF writes them. */
  readonly scales: readonly (number | undefined)[];
  /** The datasets that have it as a scale. */
  readonly users: readonly ScaleUser[];
  /** Offset of its header in the file. */
  readonly position: number;
}

export interface Hdf5Group {
  readonly kind: "group";
  readonly isDatatype: boolean;
  readonly members: Members;
  readonly attrs: JsonObject;
  readonly attrsLeft: readonly string[];
}

/** Reads the object whose header is at an address. Throws the codes of damage, and UNSUPPORTED. */
export async function readObject(file: Hdf5File, address: number): Promise<Hdf5Dataset | Hdf5Group> {
  const messages = await readMessages(file, address);
  const find = (type: number): Message | undefined => messages.find((each) => each.type === type);
  const attributes = await readAttributes(file, messages);
  const { attrs, left: attrsLeft } = await attributesJson(file, attributes);
  const layout = find(LAYOUT);
  const space = find(DATASPACE);
  const type = find(DATATYPE);
  if (layout === undefined || space === undefined || type === undefined) {
    // A named datatype, which has no values, can be opened as a group without members.
    const isDatatype = type !== undefined;
    const isGroup = isDatatype || messages.some((each) => OF_GROUPS.has(each.type));
    if (layout !== undefined || space !== undefined || !isGroup)
      throw new SuperchunkError(
        "BAD_FIELD",
        `the object header at byte ${file.positionOf(address)} has neither what a group has nor all that a dataset has. The file is damaged; look for another copy`,
        { path: file.path, offset: file.positionOf(address), field: "an object header" },
      );
    return { kind: "group", isDatatype, members: new Members(file, messages), attrs, attrsLeft };
  }
  const fill = find(FILL_VALUE) ?? find(OLD_FILL_VALUE);
  const filters = find(FILTERS);
  if (find(EXTERNAL) !== undefined)
    throw layout.fields.unsupported("a dataset whose values are in other files", "layout", "external files");
  const { dims: shape, most } = readDataspace((await unshare(file, space, DATASPACE)).fields);
  const [scales, users] = ["DIMENSION_LIST", "REFERENCE_LIST"].map(
    (name) => attributes.find((each) => each.name === name)?.value,
  );
  const isPytables = /^(?:[CE]?ARRAY|TABLE)$/.test(String(attrs["CLASS"])) && attrs["VERSION"] !== undefined;
  const parsed = readDatatype((await unshare(file, type, DATATYPE)).fields, { isPytables });
  return {
    kind: "dataset",
    shape: shape ?? [0],
    maxShape: most,
    type: parsed,
    layout: readLayout(layout.fields, (shape ?? [0]).length),
    filters: filters === undefined ? [] : readFilters((await unshare(file, filters, FILTERS)).fields),
    fill: fill && readFill(await unshare(file, fill, fill.type), parsed.size),
    attrs,
    attrsLeft,
    scales: scales === undefined ? [] : await resultOr([], isHarmless, () => scalesOf(file, scales)),
    users: users === undefined ? [] : usersOf(users),
    position: file.positionOf(address),
  };
}

/** All messages of a header, including those of its continuations. */
async function readMessages(file: Hdf5File, address: number): Promise<Message[]> {
  const start = await file.upTo(address, 64, "an object header");
  const isNew = decodeText(start.bytes(4, "an object header")) === "OHDR";
  start.at = 0;
  const messages: Message[] = [];
  const blocks: Fields[] = [];
  let hasOrder = false;
  if (isNew) {
    start.expect("OHDR");
    start.skip(1);
    const flags = start.uint8("flags of an object header");
    hasOrder = (flags & 4) !== 0;
    if ((flags & 0x20) !== 0) start.skip(16);
    if ((flags & 0x10) !== 0) start.skip(4);
    const length = start.uint(1 << (flags & 3), "length of an object header");
    const block = await file.fields(address, start.at + length + 4, "an object header");
    block.checkSum(start.at + length, "an object header");
    block.at = start.at;
    blocks.push(block.part(length, "an object header"));
  } else {
    const version = start.uint8("version of an object header");
    if (version !== 1) throw start.bad("version of an object header", 1, version);
    start.skip(7);
    const length = start.uint32("length of an object header");
    blocks.push(await file.fields(address + 16, length, "an object header"));
  }
  for (let block = blocks.shift(); block !== undefined; block = blocks.shift()) {
    const least = isNew ? 4 : 8;
    while (block.left >= least) {
      const type = isNew ? block.uint8("type of a message") : block.uint16("type of a message");
      const size = block.uint16("length of a message");
      const flags = block.uint8("flags of a message");
      block.skip(isNew ? (hasOrder ? 2 : 0) : 3);
      // The rest of a block can be shorter than a message.
      if (isNew && type === 0 && size > block.left) break;
      const fields = block.part(size, "a message");
      if (messages.length >= MAX_MESSAGES)
        throw fields.bad("messages of a header", `at most ${MAX_MESSAGES}`, messages.length);
      messages.push({ type, isShared: (flags & 2) !== 0, fields });
      if (type !== CONTINUATION) continue;
      const next = fields.someAddress("a continuation");
      const length = fields.size("length of a continuation");
      const more = await file.fields(next, length, "a continuation of an object header");
      if (isNew) {
        more.expect("OCHK");
        more.checkSum(length - 4, "a continuation of an object header");
        blocks.push(more.part(length - 8, "a continuation of an object header"));
      } else blocks.push(more);
    }
  }
  return messages;
}

/** The message itself, if a header only refers to it. */
async function unshare(file: Hdf5File, message: Message, type: number, depth = 0): Promise<Message> {
  if (!message.isShared) return message;
  const { fields } = message;
  const version = fields.uint8("version of a shared message");
  const kind = fields.uint8("type of a shared message");
  if (version === 3 && kind === 1) throw fields.unsupported(IN_SHARED_HEAP, "shared message", kind);
  if (version === 1) fields.skip(6);
  const found = (await readMessages(file, fields.someAddress("a shared message"))).find(
    (each) => each.type === type,
  );
  if (found === undefined || depth > MAX_DEPTH)
    throw fields.bad("a shared message", "a header that has it", "none");
  return unshare(file, found, type, depth + 1);
}

interface Dataspace {
  /** Lengths; undefined for an empty dataspace. */
  readonly dims: readonly number[] | undefined;
  readonly most: readonly (number | undefined)[];
}

function readDataspace(fields: Fields): Dataspace {
  const version = fields.uint8("version of a dataspace");
  const rank = fields.uint8("dimensions of a dataspace");
  const flags = fields.uint8("flags of a dataspace");
  if (rank > MAX_RANK) throw fields.bad("dimensions of a dataspace", `at most ${MAX_RANK}`, rank);
  if (version === 1) fields.skip(5);
  else if (fields.uint8("type of a dataspace") === 2) return { dims: undefined, most: [0] };
  const dims = Array.from({ length: rank }, () => fields.size("length of a dimension"));
  const most = (flags & 1) === 0 ? dims : dims.map(() => fields.sizeOrNone("longest dimension"));
  return { dims, most };
}

function compact(fields: Fields, length: number): Hdf5Layout {
  const { position } = fields;
  fields.bytes(length, "values in the header");
  return { kind: "compact", position, length };
}

function readLayout(fields: Fields, rank: number): Hdf5Layout {
  const version = fields.uint8("version of a layout");
  if (version < 1 || version > 5)
    throw fields.unsupported(
      `values laid out by version ${version}, but 1 to 5 are known`,
      "layout",
      version,
    );
  const isOld = version < 3;
  const dimensions = isOld ? fields.uint8("dimensions of a layout") : 0;
  const kind = fields.uint8("class of a layout");
  if (kind === 0 && !isOld) {
    return compact(fields, fields.uint16("length of the values"));
  }
  if (isOld) {
    fields.skip(5);
    const address = kind === 0 ? undefined : fields.address("address of the values");
    const dims = Array.from({ length: dimensions }, () => fields.uint32("length of a chunk"));
    if (kind === 1) return { kind: "contiguous", address };
    if (kind === 0) return compact(fields, fields.uint32("length of the values"));
    return chunked(fields, { dims: dims.slice(0, rank), address, rank });
  }
  if (kind === 1) return { kind: "contiguous", address: fields.address("address of the values") };
  if (kind !== 2)
    throw fields.unsupported("a virtual dataset, whose values are in other datasets", "layout", kind);
  if (version === 3) {
    const count = fields.uint8("dimensions of a layout");
    const address = fields.address("address of the chunks");
    const dims = Array.from({ length: count }, () => fields.uint32("length of a chunk"));
    return chunked(fields, { dims: dims.slice(0, -1), address, rank });
  }
  const flags = fields.uint8("flags of a layout");
  const count = fields.uint8("dimensions of a layout");
  const width = fields.uint8("bytes of a length");
  if (width < 1 || width > 8) throw fields.bad("bytes of a length", "1 to 8", width);
  const dims = Array.from({ length: count }, () => fields.uint(width, "length of a chunk")).slice(0, -1);
  const type = fields.uint8("index of the chunks");
  const [kindOf, settings = 0] = INDEXES[type] ?? [];
  if (kindOf === undefined)
    throw fields.unsupported(`an index of chunks of type ${type}`, "index of the chunks", type);
  fields.skip(settings);
  const isSized = kindOf === "single" && (flags & 2) !== 0;
  const size = isSized ? fields.size("length of the chunk") : undefined;
  const index = { kind: kindOf, size, mask: isSized ? fields.uint32("filters left out") : 0 };
  return chunked(fields, {
    dims,
    address: fields.address("address of the chunks"),
    rank,
    index,
    bareEdges: (flags & 1) !== 0,
  });
}

function chunked(
  fields: Fields,
  found: {
    dims: readonly number[];
    address: number | undefined;
    rank: number;
    index?: ChunkIndex;
    bareEdges?: boolean;
  },
): Hdf5Layout {
  const { dims, address, rank, index = { kind: "tree-1", mask: 0 }, bareEdges = false } = found;
  if (dims.length !== rank || dims.includes(0))
    throw fields.bad("lengths of a chunk", `${rank} lengths of 1 or more`, dims.join());
  return { kind: "chunked", chunks: dims, address, index, bareEdges };
}

function readFilters(fields: Fields): Hdf5Filter[] {
  const version = fields.uint8("version of the filters");
  const count = fields.uint8("number of filters");
  if (version === 1) fields.skip(6);
  return Array.from({ length: count }, () => {
    const id = fields.uint16("id of a filter");
    const length = version === 1 || id >= 256 ? fields.uint16("length of a filter's name") : 0;
    fields.skip(2);
    const values = fields.uint16("values of a filter");
    const name = decodeText(
      fields.bytes(version === 1 ? Math.ceil(length / 8) * 8 : length, "name of a filter"),
    );
    const list = Array.from({ length: values }, () => fields.uint32("a value of a filter"));
    if (version === 1 && values % 2 === 1) fields.skip(4);
    return { id, name, values: list };
  });
}

function readFill({ type, fields }: Message, itemSize: number): Uint8Array | undefined {
  if (type === FILL_VALUE) {
    const version = fields.uint8("version of the fill value");
    if (version < 3) fields.skip(1);
    const time = fields.uint8("time of filling");
    const flags = version < 3 ? fields.uint8("flags of the fill value") : time;
    const isDefined = version < 3 ? flags !== 0 || version === 1 : (flags & 0x20) !== 0;
    // What is never filled has zeros where nothing is stored, as h5py reads it.
    if (!isDefined || (version < 3 ? time : (time >> 2) & 3) === 1) return undefined;
  }
  if (fields.left < 4) return undefined;
  const size = fields.uint32("length of the fill value");
  return size === itemSize ? fields.bytes(size, "fill value") : undefined;
}

type Attribute = { readonly name: string; readonly value: AttributeValue };

async function readAttributes(file: Hdf5File, messages: readonly Message[]): Promise<Attribute[]> {
  const found: Attribute[] = [];
  const unshared = async (fields: Fields): Promise<Fields> =>
    (await unshare(file, { type: DATATYPE, isShared: true, fields }, DATATYPE)).fields;
  const add = async (fields: Fields): Promise<void> => {
    found.push(await readAttribute(fields, (part) => readDataspace(part).dims, unshared));
  };
  for (const message of messages) {
    const { type, fields } = message;
    if (type === ATTRIBUTE) await add((await unshare(file, message, ATTRIBUTE)).fields);
    if (type !== ATTRIBUTE_INFO) continue;
    fields.skip(1);
    const flags = fields.uint8("flags of the attributes");
    if ((flags & 1) !== 0) fields.skip(2);
    const heap = fields.address("heap of the attributes");
    const tree = fields.address("tree of the attributes");
    if (heap === undefined || tree === undefined) continue;
    for await (const each of (await FractalHeap.open(file, heap)).objectsOf(tree, 0)) await add(each);
  }
  return found;
}
