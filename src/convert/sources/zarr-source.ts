/** Zarr nodes as sources of the way back: an array as it is, a group of arrays as a table. */
import { SuperchunkError } from "../../errors.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject } from "../../format/types.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { COLUMN_ORDER, orderNames, type ZarrGroup } from "../../zarr/read/group.ts";
import type { ColumnArray, ColumnTable } from "../pipeline.ts";
import { assertSkippable } from "../run/failure.ts";

/**
 * A Zarr array or group to be converted back. Columns are in the order of the attribute `column_order`, else of their names.
 *
 * @throws UNSUPPORTED for a group without arrays, or with groups in it
 */
export async function zarrSource(node: ZarrArray | ZarrGroup): Promise<ColumnArray | ColumnTable> {
  if (node.kind === "array") return node;
  const path = node.store.describe(node.path);
  const columns = new Map<string, ZarrArray>();
  for (const name of orderNames(await node.members(), node.attrs)) {
    const member = await node.open(name);
    if (member.kind === "group") {
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the group has a group "${name}" in it, and a table has only columns; convert each group by itself`,
        { path, field: name },
      );
    }
    columns.set(name, member);
  }
  if (columns.size === 0)
    throw new SuperchunkError("UNSUPPORTED", "the group has no arrays to be columns of a table", { path });
  return {
    kind: "table",
    store: node.store,
    path: node.path,
    attrs: withoutOrder(node.attrs),
    names: [...columns.keys()],
    column(name) {
      const column = columns.get(name);
      if (column !== undefined) return column;
      throw new SuperchunkError(
        "NOT_FOUND",
        `no column "${name}"; there are ${[...columns.keys()].join(", ")}`,
        {
          path,
          field: name,
        },
      );
    },
  };
}

/**
 * True for a group of nothing but arrays of one length, at least one: it can be a table. One of whose arrays cannot be opened is
 * none, so that the others are not lost with it.
 */
export async function isTableGroup(group: ZarrGroup): Promise<boolean> {
  const lengths = new Set<number | undefined>();
  for (const name of await group.members()) {
    try {
      const member = await group.open(name);
      lengths.add(member.kind === "group" ? undefined : member.shape[0]);
    } catch (error) {
      assertSkippable(error);
      return false;
    }
  }
  return lengths.size === 1 && !lengths.has(undefined);
}

function withoutOrder(attrs: JsonObject): JsonObject {
  const { [COLUMN_ORDER]: _, ...others } = attrs;
  return keepFloats(others, attrs);
}
