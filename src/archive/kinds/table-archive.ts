/** A table: named columns of one length. */
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { sizeOfObjects } from "../open/stored-size.ts";
import type { ArrayArchive, Finding, LongOptions, OpenOptions, TableArchive, VerifyReport } from "./types.ts";
import { joinReports, verifyParts } from "./verify.ts";

export interface TableParts {
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  /** Those of the warnings that name columns which an interrupted writer left longer than the table. [FT-03] */
  readonly unfinished?: readonly string[];
  readonly metadataKeys: readonly string[];
  readonly columns: ReadonlyMap<string, ArrayArchive>;
  readonly length: number;
}

export class ColumnTable implements TableArchive {
  readonly kind = "table";
  readonly dialect = "ctable";
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  readonly names: readonly string[];
  readonly length: number;
  readonly nbytes: number;
  readonly #parts: TableParts;

  constructor(parts: TableParts) {
    this.#parts = parts;
    this.store = parts.store;
    this.path = parts.path;
    this.attrs = parts.attrs;
    this.metadata = parts.metadata;
    this.warnings = parts.warnings;
    this.names = [...parts.columns.keys()];
    this.length = parts.length;
    this.nbytes = [...parts.columns.values()].reduce((sum, column) => sum + column.nbytes, 0);
  }

  column(name: string): ArrayArchive {
    const column = this.#parts.columns.get(name);
    if (column !== undefined) return column;
    throw noColumn(name, this.names, this.store.describe(this.path));
  }

  async storedBytes(options: OpenOptions = {}): Promise<number> {
    let total = await sizeOfObjects(this.store, this.#parts.metadataKeys, options.signal);
    for (const column of this.#parts.columns.values()) total += await column.storedBytes(options);
    return total;
  }

  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    const report = await verifyParts(this.#parts.columns.values(), this.nbytes, options);
    const path = this.store.describe(this.path);
    const { unfinished = [] } = this.#parts;
    const own = this.warnings.map((message): Finding => {
      if (unfinished.includes(message)) return { severity: "error", code: "INCOMPLETE", message, path };
      return { severity: "warning", code: "WARNING", message, path };
    });
    const ok = unfinished.length === 0;
    return joinReports([{ ok, chunks: 0, nbytes: 0, cbytes: 0, digests: 0, findings: own }, report]);
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }
}

/** The error for a column that a table does not have. */
export function noColumn(name: string, names: readonly string[], path: string): SuperchunkError {
  const message = `no column "${name}"; there are ${names.join(", ")}`;
  return new SuperchunkError("NOT_FOUND", message, { path, field: name });
}
