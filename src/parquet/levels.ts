/** Repetition and definition levels: which values begin a list, and which are not null. @see docs/parquet-format.md [PL] */
import { at, elementsOf, joinBytes } from "../bytes/arrays.ts";
import { varint } from "./join-streams.ts";
import type { Leaf } from "./schema.ts";

/**
 * The levels before the values of a page; empty for plain columns. All lists have the lengths in `leaf.lists`, and a page
 * begins with a row.
 *
 * @param count number of values, including nulls
 * @param present 1 for each value that is not null; undefined if none is null
 */
export function pageLevels(
  leaf: Pick<Leaf, "lists" | "nullable">,
  count: number,
  present: Uint8Array | undefined,
): Uint8Array {
  const depth = leaf.lists.length;
  const most = depth + (leaf.nullable ? 1 : 0);
  if (most === 0) return new Uint8Array(0);
  // One level, repeated: it has less than eight bits.
  const definitions =
    present === undefined
      ? Uint8Array.from([...varint(2 * count), most])
      : packed(
          present.map((flag) => most - 1 + flag),
          most,
        );
  return depth === 0
    ? sized(definitions)
    : joinBytes([sized(packed(repetitions(leaf.lists, count), depth)), sized(definitions)]);
}

/** For each value the depth of the innermost list that it does not begin. */
function repetitions(lists: readonly number[], count: number): Uint8Array {
  const levels = new Uint8Array(count);
  const sizes = lists.map((_, depth) => elementsOf(lists.slice(depth)));
  for (let i = 0; i < count; i++) {
    let level = 0;
    while (level < sizes.length && i % at(sizes, level) !== 0) level++;
    levels[i] = level;
  }
  return levels;
}

function sized(levels: Uint8Array): Uint8Array {
  const out = new Uint8Array(4 + levels.length);
  new DataView(out.buffer).setUint32(0, levels.length, true);
  out.set(levels, 4);
  return out;
}

/** Packs levels in groups of eight, each in as many bits as the highest level needs. */
function packed(levels: Uint8Array, most: number): Uint8Array {
  const width = 32 - Math.clz32(most);
  const groups = Math.ceil(levels.length / 8);
  const head = varint(2 * groups + 1);
  const out = new Uint8Array(head.length + groups * width);
  out.set(head);
  for (let i = 0; i < levels.length; i++) {
    const bits = at(levels, i);
    for (let bit = 0; bit < width; bit++) {
      const place = i * width + bit;
      if (((bits >> bit) & 1) === 1)
        out[head.length + (place >> 3)] = at(out, head.length + (place >> 3)) | (1 << (place & 7));
    }
  }
  return out;
}
