/** The options of a call: unknown names and wrong types are refused by name. Separate, because pages that only read do not need it. */
import { badArgument, SuperchunkError } from "../errors.ts";

/** Options that are true or false, numbers of 0 or more, numbers of chunks, or lists, in every call that has them. */
const BOOLEANS = /* @__PURE__ */ words(
  "breakLock concat digests directMemory discard dryRun grow guard ifPresent immutable inPlace keep live measureText oneFile overwrite portable readOnly recode rectilinear resume retryFailed shards skipFailed skipUnreadable update verify verifyOnly withoutFailed writeEmptyChunks zarr",
);
const COUNTS = /* @__PURE__ */ words("cachedEntries concurrency jobs maxGap threads");
const INDEXES = /* @__PURE__ */ words("end first");
const LISTS = /* @__PURE__ */ words("add allow places");

/** The options of opening, of what is read of an archive, and of other calls that check them late. */
export const LATE = {
  open: "columns damaged decoder onDamage openPlace signal verify",
  openAny:
    "allow authorize cachedEntries columns concurrency containers credentials customCodecs damaged decoder encoder immutable maxGap measureText onDamage openContainer openPlace shardWriter signal verify",
  link: "breakLock dimensionNames dtype kind live onProgress shape signal",
  openColumns: "signal",
  find: "columns damaged decoder measureText onDamage onPacked onUnfinished openPlace signal verify",
  refresh: "signal",
  arrays: "skipUnreadable",
  read: "onProgress shared signal",
  chunks: "keep onProgress signal",
  long: "onProgress signal",
  encoded: "buffers onProgress signal",
  list: "digests end first onObject onProgress signal",
  listStored: "digests end first onProgress signal",
} as const;

/** The names in a text that are separated by spaces. */
type NamesIn<Text extends string, Before = never> = Text extends `${infer Name} ${infer Rest}`
  ? NamesIn<Rest, Before | Name>
  : Before | Text;

/** The keys of a type, also of each one in a union. */
type KeysOf<Options> = Options extends unknown ? keyof Options & string : never;

/** A type of everything if a list names each option of a type and nothing else; otherwise one that no argument has, which shows the difference. */
export type Exactly<Options, List extends string> = [
  Exclude<KeysOf<Options>, NamesIn<List>> | Exclude<NamesIn<List>, KeysOf<Options>>,
] extends [infer Different]
  ? [Different] extends [never]
    ? unknown
    : { readonly differs: Different }
  : never;

/**
 * Refuses options that are not among `known`, names separated by spaces, and values of another type: without types, a slip would pass.
 * Throws `BAD_ARGUMENT`.
 */
export function checkOptions<Options, const Known extends string>(
  options: Options,
  known: Known & Exactly<Options, Known>,
): void {
  if (typeof options !== "object" || options === null || "throwIfAborted" in options)
    throw badArgument("options", options, "an object, such as { signal }");
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!words(known).includes(name)) throw unknownOption(name, value, words(known).sort());
    if (BOOLEANS.includes(name) && typeof value !== "boolean")
      throw badArgument(name, value, "true or false");
    if (COUNTS.includes(name) && !(typeof value === "number" && value >= 0))
      throw badArgument(name, value, "a number of 0 or more");
    const isText = (each: unknown): boolean => typeof (Object(each).prefix ?? each) === "string";
    if (LISTS.includes(name) && !(Array.isArray(value) && value.every(isText)))
      throw badArgument(name, value, "a list of paths or addresses");
    if (INDEXES.includes(name) && !(Number.isSafeInteger(value) && value >= 0))
      throw badArgument(name, value, "the number of a chunk, 0 or more");
    if (name === "shared" && typeof value !== "boolean" && typeof value !== "object")
      throw badArgument(name, value, "true or false");
    if (name === "signal" && typeof value?.throwIfAborted !== "function")
      throw badArgument(name, value, "an AbortSignal");
    if (/^on[A-Z]/.test(name) && typeof value !== "function") throw badArgument(name, value, "a function");
  }
}

function words(text: string): string[] {
  return text.split(" ");
}

/** Names that numpy, zarr, h5py, bcolz and Blosc give to an option. */
const SYNONYMS: Readonly<Record<string, string>> = {
  compressor:
    "bitshuffle blosc clevel cname codec complevel compression compressionlevel compressionopts compressors cparams filters level shuffle",
  codecs: "codec compressors filters",
  chunkLength: "chunklen chunks chunksize",
  chunkShape: "chunks chunksize",
  shardShape: "shards",
  shardSize: "shards",
  chunksPerShard: "chunks shards",
  superchunkLength: "superchunklen",
  chunkSize: "chunklen chunklength chunks",
  cname: "codec compressor compression",
  clevel: "complevel compressionlevel level",
  expectedLength: "expectedlen expectedrows",
  fillValue: "default dflt",
  attrs: "metadata userattrs",
  columns: "fields names usecols",
  data: "array obj values",
  dimensionNames: "dims",
  shape: "length",
  kind: "as",
  to: "as format",
  format: "to zarrformat",
  readOnly: "mode",
  overwrite: "force mode",
  places: "rootdirs",
  threads: "nthreads numthreads",
};

/** The letters in order: a name with two letters swapped has the same. */
function lettersOf(name: string): string {
  return [...name.toLowerCase()].sort().join("");
}

function unknownOption(name: string, found: unknown, known: readonly string[]): SuperchunkError {
  const plain = name.toLowerCase().replaceAll("_", "");
  const same = known.filter(
    (each) => each.toLowerCase() === plain || words(SYNONYMS[each] ?? "").includes(plain),
  );
  const near =
    same.length > 0
      ? same
      : known.filter(
          (each) => each.toLowerCase().startsWith(plain.slice(0, 3)) || lettersOf(each) === lettersOf(plain),
        );
  const meant = near.join(" or ").replace("compressor", "compressor: { cname, clevel, shuffle }");
  const advice = meant === "" ? `expected ${known.join(", ")}` : `did you mean ${meant}?`;
  return new SuperchunkError("BAD_ARGUMENT", `unknown option "${name}"; ${advice}`, { field: name, found });
}
