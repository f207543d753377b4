/** `superchunk convert`: converts archives to another format. */

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { Option } from "commander";
import { type DamageReport, SuperchunkError } from "../../src/index.ts";
import type { ConvertFormat } from "../../src/zarr.ts";
import { convertTo } from "../actions/conversion.ts";
import type { Command, Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { damagedOption, printDamage, readingDamaged } from "../input/damaged.ts";
import { filesFromOption, readFilesFrom, splitPaths } from "../input/input.ts";
import { isAddress, parseCount, parseNames, parseShape, parseSize } from "../input/units.ts";
import type { ConvertFlags } from "../output/convert-report.ts";

export const TARGETS: readonly ConvertFormat[] = [
  "zarr",
  "zarr3-transformer",
  "npy",
  "bloscpack",
  "bcolz",
  "blz",
  "parquet",
  "arrow",
  "b2nd",
];

/** What the endings of names stand for. */
type ByEnding<T> = readonly (readonly [endings: string, meaning: T])[];

/** The formats other than Zarr that an ending chooses. */
const NAMED: ByEnding<ConvertFormat> = [
  ["parquet parq pq", "parquet"],
  ["arrow feather ipc", "arrow"],
  ["npy", "npy"],
  ["b2nd", "b2nd"],
  ["blp bloscpack", "bloscpack"],
  ["bcolz", "bcolz"],
  ["blz", "blz"],
];

/** One ending of each format. */
const ENDINGS = NAMED.map(([endings]) => `.${endings.split(" ")[0]}`).join(", ");

/** The options that decide what a conversion reads and writes. */
export function addConversionOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--to <format>",
        `format to write; the default follows from the name of DST (${ENDINGS}), else zarr`,
      )
        .choices(TARGETS)
        .default("zarr"),
    )
    .option(
      "--shard-size <size>",
      "uncompressed bytes per shard, in whole chunks (default: 128MiB), or per file of --partition rows (512MiB)",
      parseSize,
    )
    .addOption(
      new Option("--chunks-per-shard <n>", "chunks per shard").argParser(parseCount).conflicts("shardSize"),
    )
    .addOption(
      new Option(
        "--grid <kind>",
        "rectilinear keeps short chunks without padding, one object per chunk; few readers support it",
      ).choices(["regular", "rectilinear"]),
    )
    .option(
      "--portable",
      "only data types that every Zarr reader supports: dates as int64, strings and structs as bytes",
    )
    .option("--dtype <dtype>", 'for plain bytes: their dtype, such as "<f8" (default: uint8)')
    .option("--shape <n,n,...>", "for plain bytes: the shape of the array", parseShape)
    .option("--dimension-names <a,b,...>", "names of the dimensions", parseNames)
    .option("--column <name...>", "only these columns of a table (Parquet, Arrow: or fields of structs)")
    .option("--no-recode", "fail if chunks cannot be copied, instead of recompressing them")
    .addOption(
      new Option(
        "--statistics <kind>",
        "for Parquet: none copies streams without decoding their values (default: pages)",
      ).choices(["pages", "none"]),
    )
    .option("--compatible", "for Parquet: only encodings and types that older readers (Spark) support")
    .option(
      "--row-group-rows <n>",
      "for Parquet: rows of a row group, rounded to the nearest multiple of the longest chunk of any column, at least one chunk (default: 1048576)",
      parseCount,
    )
    .addOption(
      new Option(
        "--strings <kind>",
        "for Parquet and Arrow: strings as UTF-8, or as bytes of a fixed length (default: utf8)",
      ).choices(["utf8", "fixed"]),
    )
    .option(
      "--zipline",
      "for Parquet and Arrow: the table has zipline daily bars (default: detected by its attributes)",
    )
    .option("--no-zipline", "for Parquet and Arrow: leave days and prices of zipline as numbers")
    .addOption(
      new Option(
        "--prices <kind>",
        "for Parquet and Arrow: prices of zipline as thousandths, decimals or doubles (default: raw)",
      ).choices(["raw", "decimal", "double"]),
    )
    .addOption(
      new Option(
        "--partition <by>",
        "for Parquet: a folder of files with so many rows each (--shard-size); zipline daily bars also one per asset (id=24) or year (year=2014)",
      ).choices(["rows", "symbol", "year"]),
    )
    .addOption(damagedOption())
    .option("--concat", "join the archives along the first dimension into one array, or one group of arrays")
    .option("--verify", "read the whole result back and compare it with the source")
    .addAllowOption();
}

export type TypedConvertFlags = Omit<ConvertFlags, "reading" | "gone">;

/** The sources, the destination, and the flags, completed from the destination's name. Throws `BAD_ARGUMENT` if one is missing. */
export function readConversion(
  paths: readonly string[],
  typed: TypedConvertFlags,
  command: Command,
): { readonly sources: readonly string[]; readonly destination: string; readonly flags: ConvertFlags } {
  const name = command.name();
  const needs = `${name} needs what to convert and where to: superchunk ${name} SRC... DST`;
  const { sources, destination } = splitPaths(paths, needs);
  const gone: DamageReport[] = [];
  const isImplied = command.getOptionValueSource("to") === "default";
  const to = isImplied ? formatNamed(destination) : typed.to;
  // Members of a group on this machine may be named like the archives that they were.
  const isInGroup = !isAddress(destination) && existsSync(join(dirname(destination), "zarr.json"));
  if (isImplied && to !== "zarr" && isInGroup)
    throw wrongUse(
      "dst",
      `the name chooses ${to}, but the folder is a Zarr group: give --to zarr for a member of the group, or --to ${to} for a file or folder that the group does not list`,
      { path: destination },
    );
  const reading = { ...readingDamaged(typed.damaged, gone), allow: typed.allow };
  return { sources, destination, flags: { ...typed, to, reading, gone } };
}

export function addConvert(program: Command, context: Context): void {
  const command = program
    .command("convert")
    .description(
      "convert archives, or whole folders of them, to Zarr v3 by copying their compressed chunks; convert archives, Zarr arrays and groups to other formats",
    )
    .usage("[options] <src...> <dst>")
    .argument(
      "<paths...>",
      "archives (files, folders, URLs), Zarr arrays or groups, or folders of them; the last path is the destination",
    );
  addConversionOptions(command)
    .option(
      "--dry-run",
      "show what would happen in an empty place, or with --resume what is left; write nothing",
    )
    .addOption(
      new Option(
        "--resume",
        "continue an unfinished conversion of the same source and options; of several archives, also try again those that failed, and keep those that are there",
      ).conflicts("overwrite"),
    )
    .option("--overwrite", "replace an earlier conversion to DST")
    .addOption(
      new Option(
        "--verify-only",
        "compare an earlier conversion to DST with its source, value by value; write nothing",
      ).conflicts(["verify", "dryRun", "resume", "overwrite"]),
    )
    .option(
      "--break-lock",
      "take DST from a conversion that has certainly died, on another host or in a container",
    )
    .addOption(filesFromOption())
    .option("--jobs <n>", "for Zarr: archives to convert at the same time (default: 4)", parseCount)
    .option("--report <file>", "write the result of each archive to a file, as JSON")
    .option("--json", "print JSON")
    .notes(`
Several sources, or folders of many archives, become one hierarchy below DST. If
one of many is damaged or missing, it is reported at the end, and the others are
converted. Arrays and groups of Zarr v2, or of the older sharding transformer,
become Zarr v3 with the same chunks; chunks in zlib are recompressed with Blosc.

Examples:
  superchunk convert daily_equities.bcolz daily_equities.zarr
  superchunk convert 2024.bcolz 2025.bcolz all.zarr --concat --verify
  superchunk convert 2024.bcolz 2025.bcolz all.zarr --concat --dry-run
  superchunk convert /data/bundles /data/bundles.zarr --verify --report report.json
  superchunk convert /data/bundles /data/bundles.zarr --verify-only
  superchunk convert /data/bundles.zarr --files-from list.txt --jobs 8
  superchunk convert signal.blp signal.zarr --dtype "<f4" --shape 1000,256
  superchunk convert prices prices.zarr --grid rectilinear
  superchunk convert old.zarr new.zarr
  superchunk convert prices.zarr prices --to blz
  superchunk convert bundles.zarr bundles --to bcolz --verify --report report.json
  superchunk convert prices prices.npy --to npy
  superchunk convert daily_equities.bcolz daily_equities.parquet --verify
  superchunk convert daily_equities.bcolz bars --to parquet --partition year
  superchunk convert daily_equities.bcolz daily_equities.arrow
  superchunk convert prices prices.b2nd --verify
  superchunk convert signal.blp signal.zr3 --to zarr3-transformer`)
    .action(async (typedPaths: string[], typed: TypedConvertFlags & { readonly filesFrom?: string }) => {
      const paths = [...(await readFilesFrom(typed.filesFrom, context)), ...typedPaths];
      const { sources, destination, flags } = readConversion(paths, typed, command);
      await convertTo(sources, destination, flags, context);
      printDamage(flags.gone, flags.damaged, context);
    });
}

/** Advice for names with the endings of formats that cannot be written. */
const ADVICE: ByEnding<string> = [
  ["csv xls xlsx", "superchunk cat SRC --format csv prints it"],
  ["tsv", "superchunk cat SRC --format csv prints it with commas"],
  ["json", "superchunk cat SRC --format json prints it"],
  ["ndjson jsonl", "superchunk cat SRC --format ndjson prints it"],
  ["arrows", "superchunk cat SRC --format arrow prints it"],
  ["raw bin", "superchunk cat SRC --format raw prints it"],
  ["txt", "superchunk cat SRC prints it"],
  ["npz", "write an .npy file for each array"],
  ["icechunk", "superchunk virtualize SRC DST writes references into one"],
  [
    "orc avro duckdb lance",
    'write Parquet (a DST that ends in ".parquet"), which the programs that read it take too',
  ],
  ["h5 hdf5 hdf nc nc4 n5", 'write Zarr (a DST that ends in ".zarr"), from which xarray writes it'],
  ["b2frame b2z b2e b2d", 'write .b2nd (a DST that ends in ".b2nd"), which python-blosc2 opens'],
  ["zip", 'write Zarr (a DST that ends in ".zarr"), and pack it: zip -0 -r DST.zip DST'],
  ["tar", 'write Zarr (a DST that ends in ".zarr"), and pack it'],
  ["gz tgz bz2 xz zst lz4 7z rar", 'write Zarr (a DST that ends in ".zarr"), whose chunks are compressed'],
  // Other endings that everybody takes for a kind of file. A name such as data.v2 or bars.old says nothing about the format.
  ...[
    "carray ctable db db3 sqlite sqlite3 mdb accdb dbf sql dat pkl pickle joblib pt pth safetensors tfrecord",
    "mat rds rda rdata sas7bdat dta sav fst fits root tdms grib grib2 grb grb2 tif tiff png jpg jpeg gif bmp svg pdf",
    "xml html htm yaml yml toml ini log md ods geojson msgpack pb kerchunk",
  ].map((endings) => [endings, `end DST in .zarr, or ${ENDINGS}, or in nothing`] as const),
];

/** The format that a destination's name implies. Throws `UNSUPPORTED` for one that cannot be written. */
function formatNamed(destination: string): ConvertFlags["to"] {
  if (destination === "-")
    throw wrongUse("dst", 'convert writes files and folders; "superchunk cat" prints to stdout');
  const ending = /\.([a-z0-9]+)\/*(?:\?.*)?$/i.exec(destination)?.[1]?.toLowerCase() ?? "";
  const find = <T>(list: ByEnding<T>): T | undefined =>
    list.find(([endings]) => endings.split(" ").includes(ending))?.[1];
  const advice = find(ADVICE);
  if (advice === undefined) return find(NAMED) ?? "zarr";
  throw new SuperchunkError(
    "UNSUPPORTED",
    `convert does not write .${ending}: ${advice}. To write Zarr with that name, give --to zarr`,
    { path: destination, field: "dst", found: ending },
  );
}
