/**
 * C2 tables, which python-blosc2 4 writes into stores: the frames of a table's columns as arrays of one group [BS-04].
 *
 * Knows which frames a table has; must not know chunks.
 */
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { parseJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { COLUMN_ORDER } from "../zarr/read/group.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { readFrame } from "./frame.ts";
import { frameStore } from "./open.ts";
import type { ColumnParts, FrameRows, Member, TextKind } from "./rows.ts";
import type { Blosc2Store } from "./zarr-view.ts";

const META = "_meta";
/** The other parts of a table, beside its columns. */
const PARTS = /^(?:_meta|_valid_rows|_vlmeta|_cols\/.*|_indexes\/.*)$/;
/** Columns of text or bytes of any length, with the suffix of their second frame. */
const TEXT: Readonly<Record<TextKind, string>> = {
  vlstring: "",
  vlbytes: "",
  utf8: ".utf8",
  dictionary: "_dict",
};
/** Columns whose values are neither items of one length nor text. */
const OBJECTS = new Set(["list", "struct", "object"]);
/** The suffix of the frame, and of the column here, that says which values are not null. */
const NOT_NULL = ".notnull";

/**
 * Replaces the frames of each table by its columns.
 *
 * @returns the attributes of each table: its schema, and the order of its columns
 * @throws UNSUPPORTED for later versions; BAD_FIELD, INCOMPLETE for damage
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
      throw new SuperchunkError("UNSUPPORTED", `a table of version ${String(version)}, but 1 is known`, {
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
    const order: string[] = [];
    for (const column of facts.columns)
      for (const [name, member] of columnsOf(column, { members, folder, store, path: where, rows })) {
        own.set(joinKey(folder, name), member);
        order.push(name);
      }
    for (const name of [...members.keys()])
      if (
        (folder === "" || name.startsWith(`${folder}/`)) &&
        PARTS.test(name.slice(folder === "" ? 0 : folder.length + 1))
      )
        members.delete(name);
    for (const [name, member] of own) members.set(name, member);
    tables.set(folder, { ...given?.attrs, [COLUMN_ORDER]: order, schema: facts.json });
  }
  refuseLeftRows(members);
  return tables;
}

/** Throws INCOMPLETE for columns that no table took: their deleted rows would be rows again. */
function refuseLeftRows(members: ReadonlyMap<string, Member>): void {
  const names = [...members.keys()];
  for (const [path, { store, key }] of members) {
    const [, folder] = /^((?:.*\/)?)_valid_rows$/.exec(path) ?? [];
    if (folder !== undefined && names.some((name) => name.startsWith(`${folder}_cols/`)))
      throw new SuperchunkError(
        "INCOMPLETE",
        `the table has no "${META}", which names its columns; the store is damaged`,
        { path: store.describe(key), field: META },
      );
  }
}

interface Column {
  readonly name: string;
  readonly kind: string;
  readonly unit: JsonValue | undefined;
  readonly isNullable: boolean;
}

interface Schema {
  readonly columns: readonly Column[];
  readonly json: JsonObject;
}

function schemaOf(text: unknown, path: string): Schema {
  const json = typeof text === "string" ? parseJson(new TextEncoder().encode(text), path) : undefined;
  const { columns } = (json ?? {}) as { readonly columns?: readonly JsonObject[] };
  const list = Array.isArray(columns) ? (columns as readonly JsonObject[]) : [];
  const found = list.flatMap(({ name, kind, unit, nullable }) =>
    typeof name === "string" && typeof kind === "string" && !/^\.*$|[/\0]/.test(name)
      ? [{ name, kind, unit, isNullable: nullable === true }]
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

/** Finds the rows of a table: others were deleted, or are room for more. */
async function validRows(
  member: Member | undefined,
  path: string,
  options: StoreOptions,
): Promise<FrameRows> {
  const frame = member && (await readFrame(member.store, member.key, options));
  if (member === undefined || frame === undefined)
    throw new SuperchunkError(
      "INCOMPLETE",
      "the table does not say which rows it has; the store is damaged",
      { path, field: "_valid_rows" },
    );
  const array = await openZarrArray(frameStore(member.store, frame), "", options);
  const walk = async (visit: (place: number) => void): Promise<void> => {
    let place = 0;
    for await (const { data } of array.chunks())
      for (const value of data as Iterable<unknown>) {
        if (value) visit(place);
        place++;
      }
  };
  let [count, last] = [0, -1];
  await walk((place) => {
    count++;
    last = place;
  });
  if (last + 1 === count) return { count };
  const places = new Uint32Array(count);
  let next = 0;
  await walk((place) => {
    places[next++] = place;
  });
  return { count, places };
}

interface Table {
  readonly members: ReadonlyMap<string, Member>;
  readonly folder: string;
  readonly store: ReadableStore;
  readonly path: string;
  readonly rows: FrameRows;
}

/** The key of a column's frame: a dot in its name, unless escaped, separates folders; other letters of paths are escaped. */
function keyOf(name: string): string {
  const parts = name.match(/(?:\\.|[^.\\])+/gs) ?? [];
  const stored = (part: string): string =>
    part
      .replace(/\\(.)/gs, "$1")
      .replace(/[%/.\\]/g, (letter) => encodeURIComponent(letter).replace(".", "%2E"));
  return joinKey("_cols", ...parts.map(stored));
}

/** A column, and the column that says which of its values are not null. */
function columnsOf(column: Column, { members, folder, store, path, rows }: Table): [string, Member][] {
  const { name, kind, unit, isNullable } = column;
  const find = (suffix: string): Member | undefined => members.get(joinKey(folder, keyOf(name)) + suffix);
  const main = find("");
  const refuse = (code: "UNSUPPORTED" | "INCOMPLETE", what: string): [string, Member][] => {
    const error = new SuperchunkError(code, `the column "${name}" ${what}`, {
      path,
      field: name,
      found: kind,
    });
    return [[name, { ...(main ?? { store, key: "" }), error }]];
  };
  if (OBJECTS.has(kind))
    return refuse(
      "UNSUPPORTED",
      `has values that are not items of one length (${kind}); read it with python-blosc2`,
    );
  if (main === undefined)
    return refuse("INCOMPLETE", `of ${rows.count} rows is missing; the store is damaged`);
  const textKind = isTextKind(kind) ? kind : undefined;
  const typed: Member =
    kind === "timestamp"
      ? { ...main, dtype: parseDType(`<M8[${typeof unit === "string" ? unit : "us"}]`, path) }
      : main;
  const show = (
    own: string,
    member: Member,
    more: Pick<ColumnParts, "isNotNull" | "textKind">,
  ): [string, Member] => {
    if (more.textKind === undefined && rows.places === undefined)
      return [own, { ...member, rows: rows.count }];
    const extra = textKind === undefined ? undefined : find(TEXT[textKind]);
    const parts = { name: own, main: member, extra, rows, path, ...more };
    const from = [...(member.from ?? []), ...(extra === undefined ? [] : [extra])];
    const make = async (): Promise<Blosc2Store> => {
      const isText = more.textKind !== undefined;
      const stored = isText ? await (await import("./text-rows.ts")).textRowsOf(parts) : undefined;
      return (await import("./rows.ts")).columnStore(parts, stored);
    };
    return [own, { ...member, from, make }];
  };
  const mask = find(NOT_NULL);
  const shown = [show(name, typed, { textKind })];
  if (mask !== undefined) shown.push(show(name + NOT_NULL, mask, { textKind: undefined }));
  else if (isNullable && textKind !== undefined && textKind !== "utf8")
    shown.push(show(name + NOT_NULL, main, { textKind, isNotNull: true }));
  return shown;
}

function isTextKind(kind: string): kind is TextKind {
  return Object.hasOwn(TEXT, kind);
}
