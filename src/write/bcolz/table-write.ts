/** Makes tables of carrays that bcolz 1.2 and bcolz-zipline open. @see FORMAT.md [FT-05] */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { MAX_COLUMNS, tooManyColumns } from "../../format/folder.ts";
import { memberText } from "../../format/json.ts";
import { checkStoredName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { checkLengths, utf8 } from "./carray-steps.ts";
import { type CarrayOptions, type CarraySource, createCarray } from "./carray-write.ts";

/** A column to be made. */
export interface NewTableColumn extends CarraySource {
  readonly name: string;
  /** Its own settings, where they differ from the table's. */
  readonly options?:
    | Pick<CarrayOptions, "cparams" | "chunklen" | "expectedlen" | "dflt" | "attrs">
    | undefined;
}

/** What was done to a table. */
export interface TableResult {
  readonly rows: number;
  readonly rowsAppended: number;
}

/**
 * Makes a table in a folder that has none. It is there once `__rootdirs__` is.
 *
 * @throws CONFLICT where there is something; BAD_ARGUMENT for columns of different lengths; LIMIT, UNSUPPORTED
 */
export async function createTable(
  store: WritableStore,
  path: string,
  columns: readonly NewTableColumn[],
  options: CarrayOptions = {},
): Promise<TableResult> {
  const rootdirs = joinKey(path, "__rootdirs__");
  for (const key of [rootdirs, joinKey(path, "meta/sizes")]) {
    if ((await store.stat(key, options)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "there is a table or an array in the folder already", {
      path: store.describe(path),
    });
  }
  checkNames(columns.map(({ name }) => name));
  const { attrs, ...settings } = options;
  const lengths: number[] = [];
  for (const { name, options: own, ...source } of columns) {
    const { rows } = await createCarray(store, joinKey(path, name), source, { ...settings, ...own });
    lengths.push(rows);
  }
  checkLengths(
    columns.map(({ name }) => name),
    lengths,
  );
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(attrs ?? {})}\n`));
  await store.put(rootdirs, utf8(`${memberText({ names: columns.map(({ name }) => name) })}\n`), {
    ifAbsent: true,
  });
  const rows = at(lengths, 0);
  return { rows, rowsAppended: rows };
}

/** Names that bcolz takes: Python identifiers that do not begin with an underscore. Throws `BAD_ARGUMENT`. */
export function checkNames(names: readonly string[]): void {
  if (names.length > MAX_COLUMNS) throw tooManyColumns(undefined, names.length);
  for (const [i, name] of names.entries()) {
    const isPlain = /^[\p{L}][\p{L}\p{N}_]*$/u.test(name);
    if (isPlain && names.indexOf(name) === i) {
      checkStoredName(name, name, "names");
      continue;
    }
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      isPlain
        ? `there are two columns "${name}"`
        : `"${name}" cannot name a column: bcolz takes letters, digits and underscores, a letter first`,
      { field: "names", found: name },
    );
  }
  if (names.length === 0)
    throw new SuperchunkError("BAD_ARGUMENT", "a table has one column at least", { field: "names" });
}
