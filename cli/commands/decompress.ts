/** `superchunk decompress`: like `blpk decompress`, for every dialect. */

import {
  type BytesArchive,
  type DamageReport,
  encodeNpyHeader,
  type LongOptions,
  open as openIn,
  type Readable,
  type ReadableArray,
  SuperchunkError,
} from "../../src/index.ts";
import { locateTarget, open, threadsOf } from "../../src/node/index.ts";
import type { Command, Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { type Damaged, damagedOption, printDamage, readingDamaged } from "../input/damaged.ts";
import { UnnamedFile } from "../input/input.ts";
import { closing } from "../input/opening.ts";
import { formatSize } from "../input/units.ts";
import { withProgress } from "../output/progress.ts";

interface DecompressOptions {
  readonly force?: boolean;
  readonly damaged?: Damaged;
}

export function addDecompress(program: Command, context: Context): void {
  program
    .command("decompress")
    .alias("d")
    .description(
      "write the decoded bytes to a file, as blpk does; if OUT ends in .npy, an array becomes a .npy file",
    )
    .argument("<file>", 'archive; "-" is stdin')
    .argument("[out]", 'file to write (default: FILE without ".blp"); "-" is stdout')
    .addOption(damagedOption())
    .option("-f, --force", "replace OUT if it exists")
    .notes(`
Examples:
  superchunk decompress notes.txt.blp
  superchunk decompress prices.blp prices.npy
  curl -s https://example.org/notes.txt.blp | superchunk decompress - - | wc`)
    .action(async (file: string, out: string | undefined, options: DecompressOptions) => {
      const target = out ?? deriveOut(file);
      const reports: DamageReport[] = [];
      const settings = { signal: context.signal, ...readingDamaged(options.damaged, reports) };
      const work = (archive: Readable, name: string): Promise<void> =>
        closing(archive, () => decompress(archive, name, target, options, context));
      try {
        if (file !== "-") return await work(await open(file, settings), file);
        // Offsets point back and forth in the file, so all of stdin must be stored before it can be read.
        await closing(new UnnamedFile("stdin", "give a file instead of stdin"), async (store) => {
          await store.put("stdin", context.io.stdin);
          await work(await openIn(store, "stdin", { ...settings, ...threadsOf() }), "stdin");
        });
      } finally {
        printDamage(reports, options.damaged, context);
      }
    });
}

function deriveOut(file: string): string {
  if (file === "-") return "-";
  if (/\.blp$/i.test(file) && !/^https?:\/\//i.test(file)) return file.slice(0, -".blp".length);
  throw wrongUse(
    "out",
    'the name does not end in ".blp", so the output has no name; give OUT, or "-" for stdout',
    { path: file },
  );
}

async function decompress(
  archive: Readable,
  name: string,
  out: string,
  options: DecompressOptions,
  context: Context,
): Promise<void> {
  const { io, signal } = context;
  const bytes = withBytes(archive, name);
  if (out === "-") {
    for await (const piece of bytes.streamBytes({ signal })) await context.out.bytes(piece);
    return;
  }
  await withProgress(io, "decompress", { name }, (onProgress) =>
    publish(bytes, out, options, { signal, onProgress }),
  );
  context.message(`${name} -> ${out}, ${formatSize(bytes.nbytes)}`);
}

function withBytes(archive: Readable, shown: string): ReadableArray | BytesArchive {
  if (archive.kind === "array" || archive.kind === "bytes") return archive;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `a ${archive.kind} is not one run of bytes; use "superchunk cat --column NAME --format raw" or npy`,
    { path: shown },
  );
}

/** Writes `out` completely or not at all. */
async function publish(
  archive: ReadableArray | BytesArchive,
  out: string,
  options: DecompressOptions,
  long: LongOptions,
): Promise<void> {
  const { store, path: key } = locateTarget(out, "file");
  const force = options.force === true;
  await closing(store, async () => {
    if (!force && (await store.stat(key)) !== undefined)
      throw new SuperchunkError("CONFLICT", "the file exists already; --force replaces it", { path: out });
    const size = archive.nbytes;
    await store.put(key, contents(archive, out, long), { ifAbsent: !force, size, signal: long.signal });
  });
}

async function* contents(
  archive: ReadableArray | BytesArchive,
  out: string,
  long: LongOptions,
): AsyncIterable<Uint8Array> {
  if (archive.kind === "array" && /\.npy$/i.test(out)) yield encodeNpyHeader(archive.dtype, archive.shape);
  yield* archive.streamBytes(long);
}
