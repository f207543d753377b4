/** Options for chunks, compression, places, attributes and values of an array of superchunks. Knows text only. */
import { InvalidArgumentError, Option } from "commander";
import {
  type ChecksumName,
  type ChunkSettings,
  type DType,
  isSuperchunkError,
  type JsonInput,
  type JsonValue,
  type MoveChoice,
  parseDType,
  parseJson,
  type StoredPlace,
} from "../../src/index.ts";
import type { PublishPolicy } from "../../src/node/index.ts";
import type { Command } from "../context.ts";
import { wrongUse } from "../failure.ts";
import {
  addCompression,
  type BloscFlags,
  bloscSettings,
  CHECKSUMS,
  type CompressionDefaults,
} from "./blosc-options.ts";
import { parseCount } from "./units.ts";

/** The options; a member is absent if the user did not set it. */
export interface CutFlags extends Omit<BloscFlags, "typesize"> {
  readonly chunklen?: number;
  readonly superchunklen?: number;
  readonly checksum?: ChecksumName;
}

/** Defaults that `--help` shows. */
interface CutDefaults extends CompressionDefaults {
  readonly chunklen: string;
  readonly superchunklen: string;
  readonly checksum: string;
}

export function addCutOptions(command: Command, defaults: CutDefaults): Command {
  command
    .option("--chunklen <rows>", `rows per chunk (default: ${defaults.chunklen})`, parseCount)
    .option(
      "--superchunklen <chunks>",
      `chunks per full superchunk (default: ${defaults.superchunklen})`,
      parseCount,
    )
    .addOption(
      new Option("-k, --checksum <name>", `of each chunk (default: ${defaults.checksum})`).choices(CHECKSUMS),
    );
  return addCompression(command, defaults);
}

/** The same as library settings; undefined for options that the user did not set. */
export function cutSettings(flags: CutFlags): ChunkSettings {
  const { clevel, cname, shuffle } = bloscSettings(flags);
  const isChosen = clevel !== undefined || cname !== undefined || shuffle !== undefined;
  const { chunklen, superchunklen, checksum } = flags;
  const compressor = isChosen ? { clevel, cname, shuffle } : undefined;
  return { chunkLength: chunklen, superchunkLength: superchunklen, checksum, compressor };
}

/** A shape such as `1000,3`; the rows may be -1. Throws commander's `InvalidArgumentError`. */
export function parseRowsAndShape(text: string): readonly number[] {
  const parts = text.split(",").map((part) => part.trim());
  const isShape = parts.every((part, i) => /^\d+$/.test(part) || (i === 0 && part === "-1"));
  const shape = parts.map(Number);
  if (isShape && shape.every(Number.isSafeInteger)) return shape;
  throw new InvalidArgumentError(
    'Expected whole numbers with commas between, for example "1000,3", or "-1,3" for as many rows as there are.',
  );
}

/** A number of rows, or a shape. Throws commander's `InvalidArgumentError`. */
export function parseRowsOrShape(text: string): readonly number[] {
  if (/^\s*\d+\s*(?:,\s*\d+\s*)*$/.test(text)) return parseRowsAndShape(text);
  throw new InvalidArgumentError("Expected a whole number of rows, 0 or more, or a shape such as 1000,3.");
}

/** A dtype in numpy's notation: `<f8`, `int32`, or the list of fields as JSON. Throws commander's `InvalidArgumentError`. */
export function parseDTypeText(text: string): DType {
  try {
    return parseDType(text.trimStart().startsWith("[") ? parseJson(text, "--dtype") : text, "--dtype");
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    throw new InvalidArgumentError(
      `Expected a dtype as numpy spells it, such as "<f8", int32 or [["id","<i4"],["price","<f8"]].`,
    );
  }
}

export const PUBLISH_HELP =
  "make rows of a stream visible before its end: flush (as they come), full (with each full superchunk), or at most every SECONDS";

/** `flush`, `full`, or a number of seconds. Throws commander's `InvalidArgumentError`. */
export function parsePublish(text: string): PublishPolicy {
  if (text === "flush" || text === "full") return text;
  const everySeconds = Number(text);
  if (/^\d+(?:\.\d+)?$/.test(text) && everySeconds > 0) return { everySeconds };
  throw new InvalidArgumentError("Expected flush, full, or a number of seconds above 0.");
}

// Places of arrays.

/** An address, with or without a name. */
export type GivenPlace = string | StoredPlace;

/** Adds a typed `[NAME=]ADDRESS`, or the path of a folder. */
export function collectPlace(text: string, before: readonly GivenPlace[] = []): readonly GivenPlace[] {
  const [, name, prefix] = /^([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)$/.exec(text) ?? [];
  return [...before, name === undefined || prefix === undefined ? text : { name, prefix }];
}

export function addressIn(place: GivenPlace): string {
  return typeof place === "string" ? place : place.prefix;
}

/** The option `--place-by`; `front` precedes its description. */
export function placeByOption(front = ""): Option {
  return new Option(
    "--place-by <rule>",
    `${front}new superchunks go to ROOT and the places in turn (round), to the one with the fewest bytes (size), or to ROOT, from which older ones are moved later (tier)`,
  ).choices(["round", "size", "tier"]);
}

/** Milliseconds of the units in {@link parseAge}. */
const UNITS: ReadonlyMap<string, number> = new Map([
  ["s", 1000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
  ["w", 604_800_000],
]);

/** A number of superchunks, or a time such as `30d`. Throws commander's `InvalidArgumentError`. */
export function parseAge(text: string): MoveChoice {
  const [, digits = "", unit] = /^(\d{1,9})([smhdw])?$/.exec(text) ?? [];
  if (digits === "")
    throw new InvalidArgumentError("Expected a number of superchunks, or a time such as 12h, 30d or 8w.");
  if (unit === undefined) return { keepLast: Number(digits) };
  return { writtenBefore: Date.now() - Number(digits) * (UNITS.get(unit) ?? 0) };
}

/** An attribute as typed: `1.0` stays a float. */
export type Attribute = readonly [name: string, value: JsonInput];

/** Adds a typed `NAME=JSON`. Throws commander's `InvalidArgumentError`. */
export function collectAttribute(text: string, before: readonly Attribute[] = []): readonly Attribute[] {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected NAME=JSON, such as scale=0.01.");
  return [...before, [text.slice(0, at), orText(text.slice(at + 1), text.slice(0, at))]];
}

/** A JSON value; other text is taken as a string. Throws `BAD_ARGUMENT` for a float beyond the largest. */
export function parseValue(text: string): JsonValue {
  const value = orText(text, "value");
  return typeof value === "string" ? value : parseJson(text, "value");
}

function orText(text: string, field: string): JsonInput {
  try {
    return parseJson(text, field, { floats: "typed" });
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    if (error.isDamage) return text;
    throw wrongUse(field, error.summary, { cause: error });
  }
}
