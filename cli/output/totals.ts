/** Sums over many archives: by dialect, by dtype, by codec. Knows the entries of `ls --json`; must not know archives. */
import { type JsonValue, stringifyJson } from "../../src/index.ts";
import { formatCount, formatPlural, formatRatio, formatSize, ratioOf } from "../input/units.ts";
import { alignRows } from "./layout.ts";

/** An entry of `ls --json`. */
export interface ListedFacts {
  readonly path: string;
  readonly dialect?: string;
  readonly kind?: string;
  readonly dtype?: JsonValue;
  readonly shape?: readonly number[] | null;
  readonly nbytes?: number | null;
  readonly cbytes?: number | null;
  readonly ratio?: number | null;
  readonly codec?: string | null;
  readonly error?: { readonly code: string };
  readonly notFollowed?: { readonly code: string };
}

interface Sum {
  archives: number;
  nbytes: number;
  cbytes: number;
}

const KEYS = ["dialect", "dtype", "codec"] as const;
type Key = (typeof KEYS)[number];

/** Adds up entries. Groups are not counted, but the arrays in them are. */
export class Totals {
  readonly #all: Sum = { archives: 0, nbytes: 0, cbytes: 0 };
  readonly #by: Readonly<Record<Key, Map<string, Sum>>> = {
    dialect: new Map(),
    dtype: new Map(),
    codec: new Map(),
  };
  readonly #errors = new Map<string, number>();
  #same = 0;

  /** Counts an archive that was already added by another path. */
  addSame(): void {
    this.#same++;
  }

  add(facts: ListedFacts): void {
    const { error, notFollowed, kind, dialect = "", dtype, codec } = facts;
    const code = (error ?? notFollowed)?.code;
    if (code !== undefined) {
      this.#errors.set(code, (this.#errors.get(code) ?? 0) + 1);
      return;
    }
    if (kind === "group") return;
    const type = dtype == null ? (kind ?? "") : typeof dtype === "string" ? dtype : stringifyJson(dtype);
    const places = [
      sumOf(this.#by.dialect, dialect),
      sumOf(this.#by.dtype, type),
      sumOf(this.#by.codec, codec ?? "none"),
    ];
    for (const sum of [this.#all, ...places]) {
      sum.archives++;
      sum.nbytes += facts.nbytes ?? 0;
      sum.cbytes += facts.cbytes ?? 0;
    }
  }

  /** `{archives, nbytes, cbytes, ratio, same, dialect: {…}, dtype: {…}, codec: {…}, errors: {…}}`. */
  toJson(): JsonValue {
    const parts = KEYS.map((key) => [
      key,
      Object.fromEntries(this.#sorted(key).map(([name, sum]) => [name, jsonOf(sum)])),
    ]);
    return {
      ...jsonOf(this.#all),
      same: this.#same,
      ...Object.fromEntries(parts),
      errors: Object.fromEntries(this.#errors),
    };
  }

  lines(columns: number | undefined): string[] {
    const rows = KEYS.flatMap((key) => [
      [key, "archives", "size", "stored", "ratio"],
      ...this.#sorted(key).map(([name, sum]) => cellsOf(name, sum)),
      ["", "", "", "", ""],
    ]);
    const right = new Set([1, 2, 3, 4]);
    const errors = [...this.#errors].map(
      ([code, count]) => `${formatPlural(count, "archive")} not counted: ${code}`,
    );
    const same =
      this.#same > 0 ? [`${formatPlural(this.#same, "archive")} reached by a second path, counted once`] : [];
    return [...alignRows([...rows, cellsOf("all", this.#all)], right, columns), ...same, ...errors];
  }

  /** Largest first. */
  #sorted(key: Key): (readonly [string, Sum])[] {
    return [...this.#by[key]].sort(([, a], [, b]) => b.nbytes - a.nbytes);
  }
}

function sumOf(sums: Map<string, Sum>, name: string): Sum {
  const sum = sums.get(name) ?? { archives: 0, nbytes: 0, cbytes: 0 };
  sums.set(name, sum);
  return sum;
}

function jsonOf({ archives, nbytes, cbytes }: Sum): { readonly [name: string]: JsonValue } {
  return { archives, nbytes, cbytes, ratio: ratioOf(nbytes, cbytes) };
}

function cellsOf(name: string, { archives, nbytes, cbytes }: Sum): string[] {
  return [name, formatCount(archives), formatSize(nbytes), formatSize(cbytes), formatRatio(nbytes, cbytes)];
}
