import { Option } from "commander";
import {
  type BloscpackOptions,
  type BloscpackResult,
  type ChecksumName,
  type CountOrFactor,
  compressBytes,
  packBytes,
  type Reserve,
  SuperchunkError,
} from "../../src/index.ts";
import { locateTarget, threadsOf } from "../../src/node/index.ts";
import { type FileFlags, readMetadata } from "../actions/append-file.ts";
import type { Command, Context, Switches } from "../context.ts";
import {
  addBloscOptions,
  type BloscFlags,
  bloscSettings,
  CHECKSUMS,
  integerOf,
  parseChunkSize,
  parseCountOrFactor,
  parseReserve,
} from "../input/blosc-options.ts";
import { type Input, openInput, UnnamedFile } from "../input/input.ts";
import { closing } from "../input/opening.ts";
import { formatRatio, formatSize } from "../input/units.ts";
import { withProgress } from "../output/progress.ts";

interface CompressFlags
  extends BloscFlags,
    Switches<"stream" | "bytes" | "force">,
    Pick<FileFlags, "maxAppChunks" | "metadata" | "metaCodec" | "metaLevel"> {
  readonly chunkSize?: number | "max";
  readonly checksum?: ChecksumName;
  /** False for `--no-offsets`. */
  readonly offsets: boolean;
  readonly reserve?: Reserve;
  readonly metaChecksum?: ChecksumName;
  readonly maxMetaSize?: CountOrFactor;
}

export function addCompress(program: Command, context: Context): void {
  const command = program
    .command("compress")
    .alias("c")
    .description("compress a file into a Bloscpack file, as blpk does; a .npy file becomes an array")
    .argument("<file>", 'file; "-" is stdin')
    .argument("[out]", 'file to write (default: FILE with ".blp" appended); "-" is stdout')
    .option("-z, --chunk-size <size>", 'bytes of a chunk, such as 1M, or "max" (default: 1M)', parseChunkSize)
    .addOption(new Option("-k, --checksum <name>", "of each chunk (default: adler32)").choices(CHECKSUMS))
    .option("-o, --no-offsets", "do not write a table of chunk offsets")
    .option(
      "--max-app-chunks <n>",
      'room in the table for later chunks: a number, or a multiple of the present chunks (default: "10x")',
      parseCountOrFactor,
    )
    .option(
      "--reserve <size>",
      'room after each chunk for a longer one: bytes, or a share such as "10%"; Bloscpack refuses such a file',
      parseReserve,
    )
    .option(
      "--stream",
      "write each chunk as soon as it is compressed, without offsets; from stdin, unknown sizes in the header are -1",
    )
    .option("-m, --metadata <file>", "JSON file with metadata to store")
    .addOption(new Option("--meta-checksum <name>", "of the metadata (default: adler32)").choices(CHECKSUMS))
    .addOption(new Option("--meta-codec <name>", "of the metadata (default: zlib)").choices(["none", "zlib"]))
    .option("--meta-level <level>", "of zlib, 0 to 9 (default: 6)", integerOf(0, 9))
    .option(
      "--max-meta-size <bytes>",
      'room for metadata: bytes, or a multiple of their length (default: "10x")',
      parseCountOrFactor,
    )
    .option("--bytes", "take a .npy file as plain bytes, as blpk does")
    .option("-f, --force", "replace OUT if it exists")
    .notes(`
Examples:
  superchunk compress notes.txt
  superchunk compress prices.npy prices.blp --codec lz4 --checksum crc32
  mysqldump shop | superchunk compress - shop.sql.blp --codec zstd
  sensor | superchunk compress - - --stream | ssh host "cat > samples.blp"

Bloscpack 0.16 reads a file that was streamed from stdin as empty, because its
header does not say how many chunks there are. superchunk reads it.`);
  addBloscOptions(command, "8, or the item size of an array").action(
    (file: string, out: string | undefined, flags: CompressFlags) =>
      compress(file, out ?? (file === "-" ? "-" : `${file}.blp`), flags, context),
  );
}

async function compress(file: string, out: string, flags: CompressFlags, context: Context): Promise<void> {
  const input = await openInput(file, flags.bytes === true, context);
  const metadata = flags.metadata === undefined ? undefined : await readMetadata(flags.metadata);
  const options: BloscpackOptions = {
    ...bloscSettings(flags),
    chunkSize: flags.chunkSize,
    checksum: flags.checksum,
    offsets: flags.offsets,
    maxAppChunks: flags.maxAppChunks,
    reserve: flags.reserve,
    stream: flags.stream,
    metadata,
    metadataOptions: {
      checksum: flags.metaChecksum,
      codec: flags.metaCodec,
      level: flags.metaLevel,
      maxMetaSize: flags.maxMetaSize,
    },
    size: input.size,
    array: input.npy,
    force: flags.force,
    encoder: threadsOf().encoder,
    signal: context.signal,
  };
  const result = await withProgress(context.io, "compress", { name: input.name }, (onProgress) =>
    out === "-"
      ? print(input, { ...options, onProgress }, context)
      : write(input, out, { ...options, onProgress }),
  );
  if (result === undefined) return;
  const { nbytes, cbytes } = result;
  const ratio = formatRatio(nbytes, cbytes);
  context.message(`${input.name} -> ${out}, ${formatSize(nbytes)} to ${formatSize(cbytes)}, ratio ${ratio}`);
}

function write(input: Input, out: string, options: BloscpackOptions): Promise<BloscpackResult> {
  const { store, path: key } = locateTarget(out, "file");
  return closing(store, async () => {
    if (options.force !== true && (await store.stat(key)) !== undefined)
      throw new SuperchunkError("CONFLICT", "the file exists already; --force replaces it", { path: out });
    return compressBytes(input.pieces(), store, key, options);
  });
}

async function print(input: Input, options: BloscpackOptions, context: Context): Promise<undefined> {
  const store = new UnnamedFile("the output", "write to a file instead of stdout");
  const scratch = { store, key: "stdout" };
  for await (const piece of packBytes(input.pieces(), scratch, options)) await context.out.bytes(piece);
}
