/**
 * C2 tables, which python-blosc2 4 writes into stores: the frames of a table's columns as arrays of one group [BS-04].
 *
 * Knows which frames a table has; must not know chunks.
 */
import { at } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { parseJson } from "../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { COLUMN_ORDER } from "../zarr/read/group.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { readFrame } from "./frame.ts";
import { frameStore } from "./zarr-view.ts";

/** A frame: its store, and its key there. */
export interface Member {
  readonly store: ReadableStore;
  readonly key: string;
  /** Data type of its items, if the frame does not say. */
  readonly dtype?: DType;
  /** Error to throw when it is read. */
  readonly error?: SuperchunkError;
}

const META = "_meta";
/** The other parts of a table, beside its columns. */
const PARTS = /^(?:_meta|_valid_rows|_vlmeta|_cols\/.*|_indexes\/.*)$/;
/** Columns whose values are not items of one length in one frame. */
const VARIABLE = new Set(["vlstring", "vlbytes", "utf8", "dictionary", "list", "struct", "object"]);

/**
 * Replaces the frames of each table by its columns.
 *
 * @returns the attributes of each table: its schema, and the order of its columns
 * @throws UNSUPPORTED for later versions, and if rows were deleted; BAD_FIELD, INCOMPLETE for damage
 */
export async function showTables(
  members: Map<string, Member>,
  options: StoreOptions,
): Promise<ReadonlyMap<string, JsonObject>> {
  const tables = new Map<string, JsonObject>();
  for (const [path, { store, key }] of [...members]) {
    if (path !== META && !path.endsWith(`/${META}`)) continue;
    const { kind, version, schema } = (await readFrame(store, key, options))?.attrs ?? {};
    if (kind !== "ctable") continue;
    const folder = path.slice(0, -META.length).replace(/\/$/, "");
    const where = store.describe(key);
    if (version !== 1 && version !== "1")
      throw new SuperchunkError("UNSUPPORTED", `a table of version ${String(version)}, and 1 is known`, {
        path: where,
        field: "version",
        expected: 1,
        found: version,
      });
    const facts = schemaOf(schema, where);
    const own = new Map<string, Member>();
    const extra = members.get(joinKey(folder, "_vlmeta"));
    const given = extra && (await readFrame(extra.store, extra.key, options));
    const rows = await validRows(members.get(joinKey(folder, "_valid_rows")), where, options);
    for (const column of facts.columns) {
      const member = members.get(joinKey(folder, "_cols", column.name));
      own.set(joinKey(folder, column.name), columnOf(member, column, { store, path: where, rows }));
    }
    for (const name of [...members.keys()])
      if (
        (folder === "" || name.startsWith(`${folder}/`)) &&
        PARTS.test(name.slice(folder === "" ? 0 : folder.length + 1))
      )
        members.delete(name);
    for (const [name, member] of own) members.set(name, member);
    tables.set(folder, {
      ...given?.attrs,
      [COLUMN_ORDER]: facts.columns.map(({ name }) => name),
      schema: facts.json,
    });
  }
  return tables;
}

interface Column {
  readonly name: string;
  readonly kind: string;
  readonly unit: JsonValue | undefined;
}

interface Schema {
  readonly columns: readonly Column[];
  readonly json: JsonObject;
}

function schemaOf(text: unknown, path: string): Schema {
  const json = typeof text === "string" ? parseJson(new TextEncoder().encode(text), path) : undefined;
  const { columns } = (json ?? {}) as { readonly columns?: readonly JsonObject[] };
  const list = Array.isArray(columns) ? (columns as readonly JsonObject[]) : [];
  const found = list.flatMap(({ name, kind, unit }) =>
    typeof name === "string" && typeof kind === "string" && !/^\.*$|[/\0]/.test(name)
      ? [{ name, kind, unit }]
      : [],
  );
  if (json !== undefined && list.length > 0 && found.length === list.length)
    return { columns: found, json: json as JsonObject };
  throw new SuperchunkError(
    "BAD_FIELD",
    "the schema of the table does not name its columns; the store is damaged",
    { path, field: "schema" },
  );
}

/** Number of rows of a table. @throws UNSUPPORTED if any was deleted */
async function validRows(member: Member | undefined, path: string, options: StoreOptions): Promise<number> {
  const frame = member && (await readFrame(member.store, member.key, options));
  if (member === undefined || frame === undefined)
    throw new SuperchunkError(
      "INCOMPLETE",
      "the table does not say which rows it has; the store is damaged",
      { path, field: "_valid_rows" },
    );
  const array = await openZarrArray(frameStore(member.store, frame), "", options);
  let valid = 0;
  for await (const { data } of array.chunks())
    for (const value of data as Iterable<unknown>) valid += value ? 1 : 0;
  const rows = at(array.shape, 0);
  if (valid === rows) return rows;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `${rows - valid} of ${rows} rows of the table were deleted in place; write it again without them: blosc2.CTable.open(path).save(other)`,
    { path, field: "_valid_rows", expected: rows, found: valid },
  );
}

function columnOf(
  member: Member | undefined,
  { name, kind, unit }: Column,
  { store, path, rows }: { readonly store: ReadableStore; readonly path: string; readonly rows: number },
): Member {
  const refused = (error: SuperchunkError): Member => ({
    ...(member ?? { store, key: "" }),
    error,
  });
  if (VARIABLE.has(kind))
    return refused(
      new SuperchunkError(
        "UNSUPPORTED",
        `the column "${name}" has values of variable length (${kind}); open the other columns by their paths, or write it as blosc2.string`,
        { path, field: name, found: kind },
      ),
    );
  if (member === undefined)
    return refused(
      new SuperchunkError(
        "INCOMPLETE",
        `the column "${name}" of ${rows} rows is missing; the store is damaged`,
        { path, field: name },
      ),
    );
  if (kind !== "timestamp") return member;
  return { ...member, dtype: parseDType(`<M8[${typeof unit === "string" ? unit : "us"}]`, path) };
}
