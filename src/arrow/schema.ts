/**
 * Arrow's schema of columns, as a message. Parquet files contain it too, so that readers can restore its types. @see
 * docs/parquet-format.md [PM]
 */
import { at } from "../bytes/arrays.ts";
import type { Leaf, SchemaNode } from "../parquet/schema.ts";
import {
  encodeFlatbuffer,
  int8,
  int16,
  int32,
  int64,
  type Node,
  refer,
  table,
  text,
  vector,
} from "./flatbuffer.ts";

/** Numbers of types in Arrow's union. */
export const TYPE = {
  dictionary: -1,
  int: 2,
  float: 3,
  binary: 4,
  utf8: 5,
  bool: 6,
  decimal: 7,
  date: 8,
  time: 9,
  timestamp: 10,
  interval: 11,
  list: 12,
  struct: 13,
  union: 14,
  fixedBinary: 15,
  fixedList: 16,
  duration: 18,
  largeBinary: 19,
  largeUtf8: 20,
  largeList: 21,
  binaryView: 23,
  utf8View: 24,
} as const;
export const TIME_UNITS = ["s", "ms", "us", "ns"] as const; // by their numbers
/** The number for version 5 of the metadata. */
export const VERSION = 4;
export const HEADER_SCHEMA = 1;

/** A schema table, for messages and for the footer of a file. */
export function schemaTable(
  columns: readonly SchemaNode[],
  notText: ReadonlySet<Leaf>,
  metadata: ReadonlyMap<string, string>,
): Node {
  const pairs = [...metadata].map(([key, value]) => table(text(key), text(value)));
  return table(int16(0), vector(columns.map((node) => fieldTable(node, notText))), vector(pairs));
}

/** The schema message, which begins a stream. */
export function schemaMessage(schema: Node): Uint8Array {
  return encapsulate(encodeFlatbuffer(messageTable(HEADER_SCHEMA, schema, 0)));
}

/** A message table, for a body of `bodyLength` bytes. */
export function messageTable(type: number, header: Node, bodyLength: number): Node {
  return table(int16(VERSION), int8(type), refer(header), int64(bodyLength));
}

/** A message, preceded by its length. */
export function encapsulate(message: Uint8Array): Uint8Array {
  const out = new Uint8Array(8 + message.length);
  const view = new DataView(out.buffer);
  view.setUint32(0, 0xffff_ffff, true);
  view.setInt32(4, message.length, true);
  out.set(message, 8);
  return out;
}

function fieldTable(node: SchemaNode, notText: ReadonlySet<Leaf>): Node {
  const field = (type: number, value: Node, children: readonly SchemaNode[] = []): Node => {
    const isNullable = "leaf" in node && node.leaf.nullable;
    const below = vector(children.map((child) => fieldTable(child, notText)));
    return table(text(node.name), int8(isNullable ? 1 : 0), int8(type), refer(value), undefined, below);
  };
  if ("leaf" in node) return field(...leafType(node.leaf, notText.has(node.leaf)));
  if (node.list !== "outer") return field(TYPE.struct, table(), node.children);
  const element = elementOf(node);
  return field(TYPE.fixedList, table(int32(listLength(node, element))), [element]);
}

/** The element of a list, which Parquet has two groups around. */
export function elementOf(list: SchemaNode): SchemaNode {
  const [inner] = "children" in list ? list.children : [];
  const [element] = inner !== undefined && "children" in inner ? inner.children : [];
  if (element === undefined) throw new RangeError("a list has no element");
  return element;
}

/** Length of a list: the leaves below have the lengths of all lists around them. */
export function listLength(list: SchemaNode, element: SchemaNode): number {
  const depth = depthOf(element);
  const leaf = firstLeaf(list);
  return at(leaf.lists, leaf.lists.length - depth - 1);
}

/** Number of lists on the way from a node to its first leaf. */
export function depthOf(node: SchemaNode): number {
  if ("leaf" in node) return 0;
  const [child] = node.children;
  return (node.list === "outer" ? 1 : 0) + (child === undefined ? 0 : depthOf(child));
}

export function firstLeaf(node: SchemaNode): Leaf {
  if ("leaf" in node) return node.leaf;
  const [child] = node.children;
  if (child === undefined) throw new RangeError("a group has no fields");
  return firstLeaf(child);
}

function leafType(leaf: Leaf, isBytes: boolean): readonly [type: number, value: Node] {
  const { logical, kind, width } = leaf;
  const unsigned = kind === "uint32" || kind === "uint64";
  switch (logical.kind) {
    case "string":
      return [isBytes ? TYPE.binary : TYPE.utf8, table()];
    case "date":
      return [TYPE.date, table(int16(0))];
    case "timestamp":
      return [TYPE.timestamp, table(int16(TIME_UNITS.indexOf(logical.unit)))];
    case "duration":
      return [TYPE.duration, table(int16(TIME_UNITS.indexOf(logical.unit)))];
    case "integer":
      return [TYPE.int, table(int32(logical.bits), int8(logical.signed ? 1 : 0))];
    case "decimal":
      return [TYPE.decimal, table(int32(logical.precision), int32(logical.scale), int32(128))];
    default:
  }
  if (kind === "bool") return [TYPE.bool, table()];
  if (kind === "half") return [TYPE.float, table(int16(0))];
  if (kind === "float") return [TYPE.float, table(int16(1))];
  if (kind === "double") return [TYPE.float, table(int16(2))];
  if (kind === "fixed") return [TYPE.fixedBinary, table(int32(width ?? 0))];
  return [TYPE.int, table(int32(8 * (width ?? 8)), int8(unsigned ? 0 : 1))];
}
