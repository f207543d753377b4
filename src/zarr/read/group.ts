/** An opened Zarr group: attributes, and the nodes below it. */
import type { LongOptions, OpenOptions, ReadableTable, VerifyReport } from "../../archive/kinds/types.ts";
import { isUnreadable, SuperchunkError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { arrowBatches, scan } from "../../scan/begin.ts";
import { checkLater } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { GroupModel } from "../document/model.ts";
import { type ZarrArray, ZarrNode } from "./array.ts";

/** The attribute in which conversions store the order of columns. */
export const COLUMN_ORDER = "column_order";

/** How a group finds the nodes below it. */
export interface GroupAccess {
  members(): AsyncIterable<string>;
  open(name: string): Promise<ZarrArray | ZarrGroup>;
}

/** A Zarr group of any version. */
export class ZarrGroup extends ZarrNode {
  readonly kind: "group" = "group";
  readonly #model: GroupModel;
  readonly #access: GroupAccess;

  constructor(
    store: ReadableStore,
    model: GroupModel,
    access: GroupAccess,
    warnings: readonly string[] = [],
  ) {
    super(store, model, warnings);
    this.#model = model;
    this.#access = access;
  }

  /** Lists the names of the nodes directly below, sorted. Throws `UNSUPPORTED` if the store cannot list and nothing is consolidated. */
  async members(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of this.#access.members()) names.push(name);
    return names.sort();
  }

  /** Opens a node below, by name or relative path. Throws `NOT_FOUND`, and the errors of opening it. */
  open(name: string): Promise<ZarrArray | ZarrGroup> {
    return this.#access.open(name);
  }

  /**
   * Opens all arrays below, including those of groups below. Throws the errors of opening them; with `skipUnreadable`, unreadable arrays
   * are left out, and `warnings` say why.
   */
  async arrays(options: { readonly skipUnreadable?: boolean | undefined } = {}): Promise<GroupArrays> {
    await checkLater(options, "arrays");
    const found = new Map<string, ZarrArray>();
    const unreadable = new Map<string, SuperchunkError>();
    const indexes = new Set<string>();
    await collect(
      this,
      "",
      { arrays: found, indexes },
      options.skipUnreadable === true ? unreadable : undefined,
    );
    const parts = { store: this.store, model: this.#model, access: this.#access, unreadable, indexes };
    return new GroupArrays(parts, found).ownStore(this);
  }

  /** Bytes that all arrays below take in their store. */
  async storedBytes(options: OpenOptions = {}): Promise<number> {
    return (await this.arrays()).storedBytes(options);
  }

  /** Reads and decodes every stored chunk of all arrays below. Findings are returned, not thrown. */
  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    return (await this.arrays()).verify(options);
  }
}

interface GroupParts {
  readonly store: ReadableStore;
  readonly model: GroupModel;
  readonly access: GroupAccess;
  /** Why arrays and groups were left out, by path. */
  readonly unreadable: ReadonlyMap<string, SuperchunkError>;
  /** Paths of the groups with indexes of PyTables. */
  readonly indexes: ReadonlySet<string>;
}

/** A group with all arrays below it open, by their paths. */
export class GroupArrays extends ZarrGroup {
  /** Paths of the arrays, relative to the group, without those in indexes of PyTables, which only PyTables reads. */
  readonly names: readonly string[];
  /** Rows, if the arrays are directly below and of equal length, as in a table; else undefined. */
  readonly length: number | undefined;
  /** Uncompressed bytes, without those of arrays that were not measured. */
  readonly nbytes: number;
  readonly #arrays: ReadonlyMap<string, ZarrArray>;
  readonly #unreadable: ReadonlyMap<string, SuperchunkError>;

  constructor(group: GroupParts, arrays: ReadonlyMap<string, ZarrArray>) {
    super(
      group.store,
      group.model,
      group.access,
      [...group.unreadable.values()].map(({ message }) => message),
    );
    this.#unreadable = group.unreadable;
    this.#arrays = arrays;
    const isInIndex = (name: string): boolean =>
      [...group.indexes].some((index) => name.startsWith(`${index}/`));
    this.names = [...arrays.keys()].filter((name) => !isInIndex(name));
    this.length = commonLength(arrays);
    this.nbytes = this.names.reduce((total, name) => total + (this.column(name).nbytes || 0), 0);
  }

  /** Throws `NOT_FOUND`, or for an array that was left out the reason. */
  column(name: string): ZarrArray {
    const found = this.#arrays.get(name);
    if (found !== undefined) return found;
    throw (
      this.#unreadable.get(name) ??
      new SuperchunkError(
        "NOT_FOUND",
        `no array "${name}"; expected one of ${this.names.slice(0, 12).join(", ")}`,
        { path: this.store.describe(this.path), field: name },
      )
    );
  }

  /** Scans as in a table. @throws BAD_ARGUMENT if the arrays are not all directly in the group and of equal length */
  readonly scan: ReadableTable["scan"] = scan;
  readonly arrowBatches: ReadableTable["arrowBatches"] = arrowBatches;

  override async storedBytes(options: OpenOptions = {}): Promise<number> {
    await checkLater(options, "open");
    let total = 0;
    for (const name of this.names) total += await this.column(name).storedBytes(options);
    return total;
  }

  override async verify(options: LongOptions = {}): Promise<VerifyReport> {
    const { joinReports } = await import("../../archive/kinds/verify.ts");
    const { whileUnchanged } = await import("../../archive/kinds/unchanged.ts");
    const { identitiesOf } = await import("./verify.ts");
    const arrays = [...this.#arrays.values()];
    const verifyEach = async (): Promise<VerifyReport> => {
      const reports: VerifyReport[] = [];
      for (const array of arrays) reports.push(await array.verify(options));
      return joinReports(reports);
    };
    // Each array looks at its own; one that is checked last must not have been replaced since the first.
    const documents =
      this.store.pinsVersions === true ? [] : arrays.flatMap(({ model }) => identitiesOf(model));
    return whileUnchanged(this.store, documents, verifyEach, options);
  }
}

/** True for a group of PyTables with the indexes of a table. */
export function isIndexGroup({ dialect, attrs }: Pick<ZarrArray | ZarrGroup, "dialect" | "attrs">): boolean {
  return dialect === "hdf5" && attrs["CLASS"] === "TINDEX";
}

/** Arrays in the order of the attribute `column_order`, else in name order. Unreadable ones go to `unreadable`, if given. */
async function collect(
  group: ZarrGroup,
  prefix: string,
  found: { readonly arrays: Map<string, ZarrArray>; readonly indexes: Set<string> },
  unreadable?: Map<string, SuperchunkError>,
): Promise<void> {
  const { arrays, indexes } = found;
  for (const name of orderNames(await group.members(), group.attrs)) {
    try {
      const node = await group.open(name);
      if (node.kind === "array") arrays.set(`${prefix}${name}`, node);
      else {
        if (isIndexGroup(node)) indexes.add(`${prefix}${name}`);
        await collect(node, `${prefix}${name}/`, found, unreadable);
      }
    } catch (error) {
      if (!isUnreadable(error) || unreadable === undefined) throw error;
      unreadable.set(`${prefix}${name}`, error);
    }
  }
}

function commonLength(arrays: ReadonlyMap<string, ZarrArray>): number | undefined {
  const lengths = new Set([...arrays.values()].map(({ shape }) => shape[0]));
  const isFlat = [...arrays.keys()].every((name) => !name.includes("/"));
  const [length] = lengths;
  return isFlat && lengths.size === 1 ? length : undefined;
}

/** Names in the order of a group's attribute `column_order`; others follow. */
export function orderNames(names: readonly string[], attrs: JsonObject): readonly string[] {
  const order: JsonValue | undefined = attrs[COLUMN_ORDER];
  if (!Array.isArray(order)) return names;
  const known = (order as readonly JsonValue[]).filter(
    (name): name is string => typeof name === "string" && names.includes(name),
  );
  return [...new Set([...known, ...names])];
}
