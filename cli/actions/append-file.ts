/** Appends to a Bloscpack file, like `blpk append`. */

import {
  type ArrayArchive,
  type BloscpackAppendOptions,
  type BloscpackAppendResult,
  type BytesArchive,
  type CountOrFactor,
  type JsonInput,
  parseJson,
} from "../../src/index.ts";
import { edit } from "../../src/node/index.ts";
import type { Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { type BloscFlags, bloscSettings } from "../input/blosc-options.ts";
import { type Input, openInput, readWhole } from "../input/input.ts";
import { drawnRows, openAppendedRows } from "../input/rows-input.ts";
import { formatPlural, formatSize } from "../input/units.ts";

/** Options of an append to a file. */
export interface FileFlags
  extends BloscFlags,
    Switches<"inPlace" | "grow" | "bytes" | "breakLock" | "dryRun" | "json"> {
  readonly maxAppChunks?: CountOrFactor;
  readonly metadata?: string;
  readonly metaCodec?: "none" | "zlib";
  readonly metaLevel?: number;
}

/** Appends an input to the file at a path, or says what that would do, and prints the result. */
export async function appendToFile(
  archive: ArrayArchive | BytesArchive,
  path: string,
  name: string,
  flags: FileFlags,
  context: Context,
): Promise<void> {
  const isBytes = archive.kind === "bytes";
  const input = isBytes
    ? await openInput(name, true, context)
    : await openAppendedRows(name, flags.bytes === true, context);
  const options = await toOptions(input, flags, context);
  const dryRun = flags.dryRun === true;
  const { breakLock } = flags;
  const file = await edit(path, { format: "bloscpack", breakLock, readOnly: dryRun, signal: context.signal });
  let result: BloscpackAppendResult;
  try {
    const target = { rowBytes: 1, verb: "append to", name: path, outcome: "nothing was appended" };
    result = dryRun
      ? await file.planAppend(lengthOf(input), options)
      : await file.appendBytes(drawnRows(input, target, context), options);
  } finally {
    await file.abandon();
  }
  await context.tell(flags.json, { path, dryRun, ...result }, `${path}: ${describe(result, dryRun)}`);
}

/** Bytes of an input. Throws `BAD_ARGUMENT` for a stream, whose length is unknown. */
export function lengthOf({ name, size }: Input): number {
  if (size !== undefined) return size;
  throw wrongUse("dryRun", "--dry-run needs an input whose length is known; give a file", { path: name });
}

async function toOptions(input: Input, flags: FileFlags, context: Context): Promise<BloscpackAppendOptions> {
  const { metadata, metaCodec, metaLevel, inPlace, grow, maxAppChunks } = flags;
  return {
    ...bloscSettings(flags),
    inPlace,
    grow,
    maxAppChunks,
    metadataOptions: { codec: metaCodec, level: metaLevel },
    ...(metadata === undefined ? {} : { metadata: await readMetadata(metadata) }),
    ...(input.npy === undefined ? {} : { array: input.npy }),
    signal: context.signal,
  };
}

/** Reads metadata from a JSON file. Throws `NOT_FOUND`, and the codes of damage. */
export async function readMetadata(file: string): Promise<JsonInput> {
  return parseJson(await readWhole(file), file, { floats: "typed" });
}

function describe(result: BloscpackAppendResult, dryRun: boolean): string {
  const { bytesAppended, chunksAdded, nbytes, chunksCopied, bytesCopied } = result;
  const added = formatPlural(chunksAdded, "new chunk");
  return dryRun
    ? `${formatSize(bytesAppended)} would be appended, ${added}, ${formatSize(nbytes)} then; ${formatPlural(chunksCopied, "chunk")} (${formatSize(bytesCopied)}) would be copied`
    : `${formatSize(bytesAppended)} appended, ${added}, ${formatSize(nbytes)} now`;
}
