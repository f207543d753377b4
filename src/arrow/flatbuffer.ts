/** Writes FlatBuffers, as far as Arrow's messages need them: each table before what it refers to. Must not know Arrow. */

/** A value that a field refers to. */
export type Node =
  | { readonly kind: "table"; readonly fields: readonly (Slot | undefined)[] }
  | { readonly kind: "string"; readonly text: string }
  | { readonly kind: "vector"; readonly items: readonly Node[] }
  /** Consecutive structs of numbers, `length` of them. */
  | { readonly kind: "structs"; readonly bytes: Uint8Array; readonly length: number };

/** A field of a table; undefined for an absent one. */
export type Slot =
  | { readonly size: 1 | 2 | 4; readonly value: number }
  | { readonly size: 8; readonly value: bigint }
  | { readonly node: Node };

export const table = (...fields: readonly (Slot | undefined)[]): Node => ({ kind: "table", fields });
export const refer = (node: Node): Slot => ({ node });
export const text = (value: string): Slot => refer({ kind: "string", text: value });
export const vector = (items: readonly Node[]): Slot => refer({ kind: "vector", items });
export const int8 = (value: number): Slot => ({ size: 1, value });
export const int16 = (value: number): Slot => ({ size: 2, value });
export const int32 = (value: number): Slot => ({ size: 4, value });
export const int64 = (value: number): Slot => ({ size: 8, value: BigInt(value) });

const TEXT = new TextEncoder();

/** The bytes of a buffer whose root is a table. The length is a multiple of 8. */
export function encodeFlatbuffer(root: Node): Uint8Array {
  const out = new Builder();
  const place = out.reserve(4, 8);
  out.point(place, writeNode(out, root));
  out.align(8);
  return out.take();
}

function writeNode(out: Builder, node: Node): number {
  switch (node.kind) {
    case "string": {
      const bytes = TEXT.encode(node.text);
      const at = out.reserve(4 + bytes.length + 1, 4);
      out.view.setUint32(at, bytes.length, true);
      out.bytes.set(bytes, at + 4);
      return at;
    }
    case "structs": {
      // Aligned so that eight-byte numbers, which follow a four-byte count, are aligned too.
      out.align(8);
      const at = out.reserve(8 + node.bytes.length, 8) + 4;
      out.view.setUint32(at, node.length, true);
      out.bytes.set(node.bytes, at + 4);
      return at;
    }
    case "vector": {
      const at = out.reserve(4 + 4 * node.items.length, 4);
      out.view.setUint32(at, node.items.length, true);
      for (const [i, item] of node.items.entries()) out.point(at + 4 + 4 * i, writeNode(out, item));
      return at;
    }
    case "table":
      return writeTable(out, node.fields);
  }
}

/** Writes the table of offsets, then the table: its distance to that, and its fields, widest first. */
function writeTable(out: Builder, fields: readonly (Slot | undefined)[]): number {
  const offsets = out.reserve(4 + 2 * fields.length, 8);
  const at = out.reserve(4, 8);
  out.view.setInt32(at, at - offsets, true);
  const sizeOf = (slot: Slot): number => ("node" in slot ? 4 : slot.size);
  const present = [...fields.entries()].flatMap(([i, slot]) => (slot === undefined ? [] : [{ i, slot }]));
  present.sort((a, b) => sizeOf(b.slot) - sizeOf(a.slot));
  const places = present.map(({ i, slot }) => {
    const place = out.reserve(sizeOf(slot), sizeOf(slot));
    out.view.setUint16(offsets + 4 + 2 * i, place - at, true);
    return { place, slot };
  });
  out.view.setUint16(offsets, 4 + 2 * fields.length, true);
  out.view.setUint16(offsets + 2, out.length - at, true);
  for (const { place, slot } of places) {
    if ("node" in slot) out.point(place, writeNode(out, slot.node));
    else if (slot.size === 8) out.view.setBigInt64(place, slot.value, true);
    else if (slot.size === 4) out.view.setInt32(place, slot.value, true);
    else if (slot.size === 2) out.view.setInt16(place, slot.value, true);
    else out.view.setInt8(place, slot.value);
  }
  return at;
}

/** A growing buffer, zero at first. */
class Builder {
  bytes = new Uint8Array(1024);
  view: DataView = new DataView(this.bytes.buffer);
  length = 0;

  align(to: number): void {
    this.reserve(0, to);
  }

  /** Room that starts at a multiple of `alignment`. */
  reserve(size: number, alignment: number): number {
    const at = Math.ceil(this.length / alignment) * alignment;
    this.length = at + size;
    if (this.length > this.bytes.length) {
      const next = new Uint8Array(Math.max(2 * this.bytes.length, this.length));
      next.set(this.bytes);
      this.bytes = next;
      this.view = new DataView(next.buffer);
    }
    return at;
  }

  /** Makes the reference at `place` point to `target`. */
  point(place: number, target: number): void {
    this.view.setUint32(place, target - place, true);
  }

  take(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }
}
