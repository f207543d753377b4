/** `superchunk chunks`: where every chunk of an archive lies and how it is compressed. */
import type { Command } from "commander";
import type { Archive, ChunkedArchive, ChunkInfo } from "../../src/array/types.ts";
import { open } from "../../src/node/index.ts";
import { columnNamesOf, noColumns } from "../columns.ts";
import type { Context } from "../context.ts";
import { JsonArray } from "../json-array.ts";
import { formatRatio, ratioOf } from "../units.ts";
import { printable } from "../values/cell-text.ts";

interface ChunksOptions {
  readonly column?: string;
  readonly json?: boolean;
}

/** Adds `chunks PATH`. */
export function addChunks(program: Command, context: Context): void {
  program
    .command("chunks")
    .description("list every chunk: file, offset, bytes, ratio, codec, checksum")
    .argument("<path>", "file, folder or URL of one archive")
    .option("--column <name>", "one column of a table (default: all, one after another)")
    .option("--json", "print a JSON array, one chunk to a line")
    .addHelpText(
      "after",
      `
Examples:
  superchunk chunks prices.blp
  superchunk chunks daily_equities.bcolz --column close --json`,
    )
    .action(async (path: string, options: ChunksOptions) => {
      const archive = await open(path, { signal: context.signal });
      try {
        if (options.json === true) await printJson(archive, options, context);
        else await printLines(archive, options, context);
      } finally {
        await archive.close();
      }
    });
}

interface Part {
  readonly column: string | undefined;
  readonly archive: ChunkedArchive;
}

/** The archive itself, or its columns, which have the chunks. Throws `BAD_ARGUMENT` for a column of what has none. */
function partsOf(archive: Archive, column: string | undefined): Part[] {
  const names = columnNamesOf(archive);
  if (archive.kind === "bytes" || (archive.kind === "array" && names.length === 0)) {
    if (column !== undefined) throw noColumns(archive);
    return [{ column: undefined, archive }];
  }
  const chosen = column === undefined ? names : [column];
  return chosen.map((name) => ({ column: name, archive: archive.column(name) }));
}

async function printJson(archive: Archive, options: ChunksOptions, context: Context): Promise<void> {
  const list = new JsonArray(context.out);
  for (const part of partsOf(archive, options.column)) {
    for await (const chunk of part.archive.listChunks({ signal: context.signal })) {
      const { index, key, offset, nbytes, ctbytes, typesize, blocksize, compressor, shuffle, memcpyed } =
        chunk;
      const waiting = list.add({
        ...(part.column === undefined ? {} : { column: part.column }),
        index,
        file: key,
        offset,
        nbytes,
        cbytes: ctbytes,
        ratio: ratioOf(nbytes, ctbytes),
        cname: compressor,
        shuffle,
        typesize,
        blocksize,
        memcpyed,
        checksum: chunk.checksum === "None" ? null : chunk.checksum,
        digest: chunk.digest ?? null,
      });
      if (waiting !== undefined) await waiting;
    }
  }
  await list.end();
}

/** Widths that are known before the first chunk is, so that a million chunks can be printed as they come. */
interface Widths {
  readonly index: number;
  readonly file: number;
}

async function printLines(archive: Archive, options: ChunksOptions, context: Context): Promise<void> {
  for (const { column, archive: part } of partsOf(archive, options.column)) {
    if (column !== undefined) await context.out.line(`column ${printable(column)}`);
    let widths: Widths | undefined;
    for await (const chunk of part.listChunks({ signal: context.signal })) {
      if (widths === undefined) {
        widths = widthsFor(part, chunk);
        await context.out.line(headerLine(widths));
      }
      const waiting = context.out.line(chunkLine(chunk, widths));
      if (waiting !== undefined) await waiting;
    }
    if (widths === undefined) await context.out.line("no chunks");
  }
}

function widthsFor(archive: ChunkedArchive, first: ChunkInfo): Widths {
  const digits = String(archive.nchunks).length;
  return { index: Math.max(5, digits), file: Math.max(4, printable(first.key).length + digits - 1) };
}

function headerLine({ index, file }: Widths): string {
  const columns = ["chunk".padStart(index), "file".padEnd(file), "offset".padStart(12), "bytes".padStart(11)];
  return [
    ...columns,
    "stored".padStart(11),
    "ratio".padStart(7),
    "codec".padEnd(8),
    "filter".padEnd(10),
    "checksum",
  ].join("  ");
}

function chunkLine(chunk: ChunkInfo, { index, file }: Widths): string {
  const { nbytes, ctbytes, compressor, shuffle, memcpyed, checksum, digest } = chunk;
  return [
    String(chunk.index).padStart(index),
    printable(chunk.key).padEnd(file),
    String(chunk.offset).padStart(12),
    String(nbytes).padStart(11),
    String(ctbytes).padStart(11),
    formatRatio(nbytes, ctbytes).padStart(7),
    (memcpyed ? "stored" : compressor).padEnd(8),
    (memcpyed ? "-" : shuffle).padEnd(10),
    checksum === "None" ? "none" : `${checksum} ${digest ?? ""}`,
  ]
    .join("  ")
    .trimEnd();
}
