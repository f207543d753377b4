/** What every way of `convert` shares: flags as options, the line it ends with, the report. */
import { writeFile } from "node:fs/promises";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { stringifyJson } from "../../src/format/json.ts";
import type { DType, JsonValue } from "../../src/format/types.ts";
import { encoderOf } from "../../src/node/index.ts";
import type { ConvertOptions, ConvertResult } from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { formatCount, formatDuration, formatExactSize, formatPlural } from "../input/units.ts";

/** The library's options. Throws `BAD_ARGUMENT` for a dtype that is none. */
export function toOptions(flags: ConvertFlags, context: Context): ConvertOptions {
  return {
    signal: context.signal,
    shardSize: flags.shardSize,
    chunksPerShard: flags.chunksPerShard,
    grid: flags.grid,
    portable: flags.portable,
    dtype: flags.dtype === undefined ? undefined : readDType(flags.dtype),
    shape: flags.shape,
    dimensionNames: flags.dimensionNames,
    columns: flags.column,
    recode: flags.recode,
    verify: flags.verify,
    resume: flags.resume,
    overwrite: flags.overwrite,
    encoder: encoderOf(),
  };
}

function readDType(text: string): DType {
  try {
    return parseDType(text, "--dtype");
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${error.summary}; give for example "<f8", ">i4" or "datetime64[ns]"`,
      {
        path: "--dtype",
        field: "dtype",
        found: text,
        cause: error,
      },
    );
  }
}

/** `8 chunks copied, 0 recoded, 13,204 bytes (12.9 KiB), 1 shard, 0.12 seconds`. */
export function resultLine(result: Omit<ConvertResult, "notes" | "renamed">): string {
  const { chunksCopied, chunksPadded, chunksRecoded, bytesWritten, shards, shardsKept, seconds, verified } =
    result;
  const words = [
    `${formatPlural(chunksCopied, "chunk")} copied`,
    ...(chunksPadded > 0 ? [`${formatCount(chunksPadded)} padded`] : []),
    `${formatCount(chunksRecoded)} recoded`,
    formatExactSize(bytesWritten),
    `${formatPlural(shards, "shard")}${shardsKept > 0 ? ` (${formatCount(shardsKept)} kept)` : ""}`,
    formatDuration(seconds),
    ...(verified ? ["verified"] : []),
  ];
  return words.join(", ");
}

/** Writes what became of each archive. */
export async function writeReport(path: string, archives: readonly unknown[]): Promise<void> {
  await writeFile(path, `${stringifyJson({ archives } as unknown as JsonValue, { indent: 2 })}\n`);
}
