/**
 * Record batches: rows of columns in Arrow's memory layout, and the messages that carry them.
 *
 * Knows columns by their schemas; must not know where rows come from. Assumes a little-endian machine, as Arrow's default is.
 * @see docs/parquet-format.md [PA]
 */
import { at, elementsOf, roundUp } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { Leaf, SchemaNode } from "../parquet/schema.ts";
import { bytesOf, isText, leafItems, leafValues, packBits, presentOf } from "../parquet/values.ts";
import { encodeFlatbuffer, int16, int64, type Node, refer, table } from "./flatbuffer.ts";
import {
  depthOf,
  elementOf,
  encapsulate,
  firstLeaf,
  messageTable,
  schemaMessage,
  schemaTable,
} from "./schema.ts";

/** One column of a batch: its schema, its rows in numpy's layout, and the bytes of a row. */
export interface BatchColumn {
  readonly node: SchemaNode;
  readonly rows: Uint8Array;
  readonly rowBytes: number;
}

/** Buffers begin at multiples of this, so that readers need not copy them. */
const ALIGNMENT = 64;
const HEADER_BATCH = 3;
const MAGIC = new TextEncoder().encode("ARROW1");
/** A message of length 0, which marks the end. */
const END = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/** Place of a message in a file. */
interface Block {
  readonly offset: number;
  readonly metadata: number;
  readonly body: number;
}

/**
 * Writes a stream or a file: a beginning, a piece for each batch, and an end. A file is a stream between two magics, with a list
 * of its batches.
 */
export class ArrowWriter {
  readonly #schema: Node;
  readonly #isFile: boolean;
  readonly #notText: ReadonlySet<Leaf>;
  readonly #blocks: Block[] = [];
  #length = 0;

  /** @param notText string leaves with values that are not UTF-8, which are stored as bytes */
  constructor(
    columns: readonly SchemaNode[],
    form: "stream" | "file",
    metadata: ReadonlyMap<string, string> = new Map(),
    notText: ReadonlySet<Leaf> = new Set(),
  ) {
    this.#schema = schemaTable(columns, notText, metadata);
    this.#notText = notText;
    this.#isFile = form === "file";
  }

  start(): Uint8Array {
    const message = schemaMessage(this.#schema);
    if (!this.#isFile) return this.#count(message);
    const out = new Uint8Array(8 + message.length);
    out.set(MAGIC);
    out.set(message, 8);
    return this.#count(out);
  }

  /** The message for a batch. @throws UNSUPPORTED for a value that the type cannot hold */
  batch(columns: readonly BatchColumn[], rows: number): Uint8Array {
    const body = new Body(this.#notText);
    for (const { node, rows: bytes, rowBytes } of columns) addNode(body, node, bytes, rowBytes, rows);
    const header = table(int64(rows), refer(body.nodes()), refer(body.places()));
    const message = encapsulate(encodeFlatbuffer(messageTable(HEADER_BATCH, header, body.length)));
    const out = new Uint8Array(message.length + body.length);
    out.set(message);
    body.writeTo(out.subarray(message.length));
    this.#blocks.push({ offset: this.#length, metadata: message.length, body: body.length });
    return this.#count(out);
  }

  end(): Uint8Array {
    if (!this.#isFile) return END;
    const blocks = new Uint8Array(24 * this.#blocks.length);
    const view = new DataView(blocks.buffer);
    for (const [i, { offset, metadata, body }] of this.#blocks.entries()) {
      view.setBigInt64(24 * i, BigInt(offset), true);
      view.setInt32(24 * i + 8, metadata, true);
      view.setBigInt64(24 * i + 16, BigInt(body), true);
    }
    const list: Node = { kind: "structs", bytes: blocks, length: this.#blocks.length };
    const none: Node = { kind: "structs", bytes: new Uint8Array(0), length: 0 };
    const footer = encodeFlatbuffer(table(int16(4), refer(this.#schema), refer(none), refer(list)));
    const out = new Uint8Array(END.length + footer.length + 4 + MAGIC.length);
    out.set(END);
    out.set(footer, END.length);
    new DataView(out.buffer).setInt32(END.length + footer.length, footer.length, true);
    out.set(MAGIC, END.length + footer.length + 4);
    return out;
  }

  #count(bytes: Uint8Array): Uint8Array {
    this.#length += bytes.length;
    return bytes;
  }
}

/** The buffers of a batch, and their description. */
class Body {
  readonly #buffers: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  readonly #nodes: (readonly [length: number, nulls: number])[] = [];
  readonly notText: ReadonlySet<Leaf>;
  length = 0;

  constructor(notText: ReadonlySet<Leaf>) {
    this.notText = notText;
  }

  node(length: number, nulls = 0): void {
    this.#nodes.push([length, nulls]);
  }

  add(bytes: Uint8Array): void {
    this.#buffers.push({ offset: this.length, bytes });
    this.length = roundUp(this.length + bytes.length, ALIGNMENT);
  }

  nodes(): Node {
    return pairs(this.#nodes);
  }

  places(): Node {
    return pairs(this.#buffers.map(({ offset, bytes }) => [offset, bytes.length]));
  }

  writeTo(out: Uint8Array): void {
    for (const { offset, bytes } of this.#buffers) out.set(bytes, offset);
  }
}

/** Structs of two eight-byte numbers. */
function pairs(items: readonly (readonly [number, number])[]): Node {
  const numbers = BigInt64Array.from(items.flat(), (value) => BigInt(value));
  return { kind: "structs", bytes: bytesOf(numbers), length: items.length };
}

const NO_VALIDITY = new Uint8Array(0);

/** Adds a column, or a part of one, with `length` values. */
function addNode(body: Body, node: SchemaNode, rows: Uint8Array, rowBytes: number, length: number): void {
  if ("leaf" in node) {
    addLeaf(body, node.leaf, rows, rowBytes);
    return;
  }
  body.node(length);
  body.add(NO_VALIDITY);
  if (node.list === "outer") {
    const element = elementOf(node);
    const values = (rows.length / rowBytes) * firstLeaf(element).offsets.length;
    addNode(body, element, rows, rowBytes, values / innerValues(element));
    return;
  }
  for (const child of node.children) addNode(body, child, rows, rowBytes, length);
}

/** Number of the first leaf's values in one value of a node. */
function innerValues(node: SchemaNode): number {
  const { lists } = firstLeaf(node);
  return elementsOf(lists.slice(lists.length - depthOf(node)));
}

function addLeaf(body: Body, leaf: Leaf, rows: Uint8Array, rowBytes: number): void {
  const { conversion, itemSize, nullable } = leaf;
  if (conversion.kind === "direct" || conversion.kind === "widen") {
    const items = leafItems(leaf, rows, rowBytes);
    addValues(body, items, items.length / itemSize, nullable ? presentOf(items) : undefined);
    return;
  }
  const values = leafValues(leaf, rows, rowBytes);
  if (conversion.kind === "text") {
    addTexts(body, leaf, values.texts ?? []);
    return;
  }
  if (conversion.kind === "bool") {
    addValues(body, values.bytes, values.count, undefined);
    return;
  }
  const width = leaf.width ?? 1;
  const { present } = values;
  const spread = present === undefined ? values.bytes : spreadOut(values.bytes, width, present);
  const items = leaf.logical.kind === "decimal" ? wideDecimals(spread) : spread;
  addValues(body, items, present?.length ?? values.count, present);
}

function addValues(body: Body, values: Uint8Array, count: number, present: Uint8Array | undefined): void {
  const nulls = present === undefined ? 0 : present.reduce((sum, flag) => sum + 1 - flag, 0);
  body.node(count, nulls);
  body.add(present === undefined ? NO_VALIDITY : packBits(present));
  body.add(values);
}

/** Adds the strings, and the offset of each. */
function addTexts(body: Body, leaf: Leaf, texts: readonly Uint8Array[]): void {
  const isUtf8 = !body.notText.has(leaf);
  const name = at(leaf.path, 0);
  const offsets = new Int32Array(texts.length + 1);
  for (let i = 0; i < texts.length; i++) offsets[i + 1] = at(offsets, i) + at(texts, i).length;
  const bytes = new Uint8Array(at(offsets, texts.length));
  for (const [i, text] of texts.entries()) {
    if (isUtf8 && !isText(text))
      throw new SuperchunkError(
        "UNSUPPORTED",
        `column "${name}" has a string that is not UTF-8, and the type of an Arrow stream is written before its values; strings: "fixed" keeps the bytes, as do files of convert and --format parquet`,
        { field: name },
      );
    bytes.set(text, at(offsets, i));
  }
  body.node(texts.length);
  body.add(NO_VALIDITY);
  body.add(bytesOf(offsets));
  body.add(bytes);
}

/** Puts values at their positions, and zeros at those of nulls. */
function spreadOut(values: Uint8Array, width: number, present: Uint8Array): Uint8Array {
  const out = new Uint8Array(width * present.length);
  let from = 0;
  for (const [i, flag] of present.entries()) {
    if (flag === 0) continue;
    out.set(values.subarray(from, from + width), i * width);
    from += width;
  }
  return out;
}

/** 16-byte decimals from non-negative 8-byte numbers. */
function wideDecimals(values: Uint8Array): Uint8Array {
  const out = new Uint8Array(2 * values.length);
  for (let i = 0; i < values.length; i += 8) out.set(values.subarray(i, i + 8), 2 * i);
  return out;
}
