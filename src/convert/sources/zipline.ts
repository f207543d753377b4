/**
 * What zipline's bars mean: attributes that let xarray decode days and prices, and what the bundle's `metadata.json` says of
 * minute bars.
 */
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { isDailyBars } from "../../scan/daily-bars.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { StoreOptions } from "../../store/types.ts";
import type { SourceLocation } from "../pipeline.ts";

/** CF attributes, which xarray decodes: of a table, and of its columns by name. */
interface TableMeaning {
  readonly table: JsonObject;
  readonly columns: Readonly<Record<string, JsonObject>>;
}

export const PRICES: readonly string[] = ["open", "high", "low", "close"];
/** The meaning of columns of zipline's daily bars: the day in seconds, and the asset's number. */
const DAILY = {
  day: { standard_name: "time", units: "seconds since 1970-01-01", calendar: "proleptic_gregorian" },
  id: { long_name: "sid" },
} as const satisfies Record<string, JsonObject>;
const DAILY_TABLE = { coordinates: "day id" } as const;

/**
 * The meaning of the columns of zipline's bars. Daily bars are recognised by their attributes; prices get a factor if the
 * bundle gives one (`ohlcRatio` in its metadata.json). The stored numbers stay as they are.
 */
export function meaningOf(names: readonly string[], attrs: JsonObject, ohlcRatio?: number): TableMeaning {
  const isDaily = isDailyBars(names, attrs) && names.includes("id");
  const scaled = ohlcRatio === undefined ? [] : PRICES.map((name) => [name, { scale_factor: 1 / ohlcRatio }]);
  return {
    table: isDaily ? DAILY_TABLE : {},
    columns: { ...(isDaily ? DAILY : {}), ...Object.fromEntries(scaled) },
  };
}

/** The attributes without those that {@link meaningOf} adds, for conversions back to an archive. */
export function withoutMeaning(attrs: JsonObject, column?: string): JsonObject {
  const added: JsonObject =
    column === undefined ? DAILY_TABLE : { ...(DAILY as Record<string, JsonObject>)[column] };
  const isOurs = ([name, value]: [string, JsonValue]): boolean => attrs[name] === value;
  if (Object.keys(added).length === 0 || !Object.entries(added).every(isOurs)) return attrs;
  const rest = Object.entries(attrs).filter(([name]) => !Object.hasOwn(added, name));
  return keepFloats(Object.fromEntries(rest), attrs);
}

/** Zipline's minute bars have no other columns than these; a file above their folders gives the price factor. */
const MINUTE_NAMES = [...PRICES, "volume"].sort().join();
const BUNDLE_METADATA = "metadata.json";
const MOST_FOLDERS_ABOVE = 3;
const MOST_METADATA_BYTES = 64 << 20;

/** What a bundle says of one of its tables of minute bars. */
interface MinuteBars {
  /** How many units a price of 1 is. */
  readonly ratio: number | undefined;
  /** The first minute of each session, in minutes since 1970. */
  readonly opens: readonly number[] | undefined;
  /** Rows of a session. */
  readonly minutesPerDay: number;
}

/** Zipline's default, if `metadata.json` does not say. */
const MINUTES_PER_DAY = 390;

/** What the `metadata.json` of a bundle says of a table; undefined for other tables, and if none is found. */
export async function findMinuteBars(
  { store, path }: SourceLocation,
  names: readonly string[],
  options: StoreOptions,
): Promise<MinuteBars | undefined> {
  if ([...names].sort().join() !== MINUTE_NAMES) return undefined;
  let folder = path;
  for (let above = 0; above < MOST_FOLDERS_ABOVE && folder !== ""; above++) {
    folder = splitKey(folder).folder;
    const key = joinKey(folder, BUNDLE_METADATA);
    const info = await store.stat(key, options);
    if (info === undefined || info.size > MOST_METADATA_BYTES) continue;
    const bytes = await store.get(key, options);
    const found = bytes === undefined ? undefined : minuteBarsIn(bytes, splitKey(path).name);
    if (found?.ratio !== undefined || found?.opens !== undefined) return found;
  }
  return undefined;
}

/** Undefined for another kind of document. The ratio is the asset's own, else that of all assets. */
function minuteBarsIn(bytes: Uint8Array, table: string): MinuteBars | undefined {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
  if (typeof document !== "object" || document === null) return undefined;
  const said = document as Record<string, unknown>;
  const { ohlc_ratio: all, ohlc_ratios_per_sid: each, market_opens: opens, minutes_per_day: perDay } = said;
  const sid = /^0*(\d+)\.bcolz$/.exec(table)?.[1] ?? "";
  const own = typeof each === "object" && each !== null ? (each as Record<string, unknown>)[sid] : undefined;
  const ratio = own ?? all;
  const areOpens = Array.isArray(opens) && opens.every(Number.isSafeInteger);
  return {
    ratio: typeof ratio === "number" && Number.isFinite(ratio) && ratio > 0 ? ratio : undefined,
    opens: areOpens ? (opens as number[]) : undefined,
    minutesPerDay: Number.isSafeInteger(perDay) && Number(perDay) > 0 ? Number(perDay) : MINUTES_PER_DAY,
  };
}
