/** A Zarr group with the face of a table: the arrays below it by name. Knows groups; must not know chunks. */
import type { LongOptions, VerifyReport } from "../archive/kinds/types.ts";
import { joinReports } from "../archive/kinds/verify.ts";
import { orderNames } from "../convert/sources/zarr-source.ts";
import { SuperchunkError } from "../errors.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import type { ReadableArray, ReadableGroup } from "./readable.ts";
import { ZarrReadable } from "./zarr-readable.ts";

/** Opens all arrays below a group. `release` is called by `close`. Throws what opening them throws. */
export async function describeGroup(
  group: ZarrGroup,
  release: () => Promise<void> = async () => undefined,
): Promise<ReadableGroup> {
  const arrays = new Map<string, ReadableArray>();
  await collect(group, "", arrays);
  const { store, path, dialect, attrs } = group;
  const all = [...arrays.values()];
  const sumOf = async (measure: (array: ReadableArray) => Promise<number>): Promise<number> => {
    let total = 0;
    for (const array of all) total += await measure(array);
    return total;
  };
  return {
    kind: "group",
    dialect,
    store,
    path,
    attrs,
    warnings: [],
    names: [...arrays.keys()],
    length: commonLength(arrays),
    nbytes: all.reduce((total, { nbytes }) => total + nbytes, 0),
    column(name) {
      const found = arrays.get(name);
      if (found !== undefined) return found;
      throw new SuperchunkError(
        "NOT_FOUND",
        `no array "${name}"; there are ${[...arrays.keys()].slice(0, 12).join(", ")}`,
        { path: store.describe(path), field: name },
      );
    },
    storedBytes: (options) => sumOf((array) => array.storedBytes(options)),
    verify: (options) => verifyAll(all, options),
    close: release,
  };
}

/** Arrays in the order of the attribute `column_order`, else of their names. */
async function collect(group: ZarrGroup, prefix: string, arrays: Map<string, ReadableArray>): Promise<void> {
  for (const name of orderNames(await group.members(), group.attrs)) {
    const node = await group.open(name);
    if (node.kind === "array") arrays.set(`${prefix}${name}`, new ZarrReadable(node));
    else await collect(node, `${prefix}${name}/`, arrays);
  }
}

function commonLength(arrays: ReadonlyMap<string, ReadableArray>): number | undefined {
  const lengths = new Set([...arrays.values()].map(({ shape }) => shape[0]));
  const isFlat = [...arrays.keys()].every((name) => !name.includes("/"));
  const [length] = lengths;
  return isFlat && lengths.size === 1 ? length : undefined;
}

async function verifyAll(arrays: readonly ReadableArray[], options?: LongOptions): Promise<VerifyReport> {
  const reports: VerifyReport[] = [];
  for (const array of arrays) reports.push(await array.verify(options));
  return joinReports(reports);
}
