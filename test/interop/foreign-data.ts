/** Data and settings with which bloscpack and bcolz are tested. */
import { createHash } from "node:crypto";
import { parseDType } from "../../src/format/dtype.ts";
import type { DType, JsonValue } from "../../src/format/types.ts";
import type { BloscpackOptions } from "../../src/write/bloscpack/bloscpack-options.ts";
import type { FixtureDType } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";

/** Settings of a Bloscpack file, as bloscpack names them, with its defaults. */
export function settingsOf(options: BloscpackOptions): NonNullable<Job["settings"]> {
  return {
    typesize: options.typesize ?? 8,
    clevel: options.clevel ?? 7,
    shuffle: options.shuffle !== "noshuffle",
    cname: options.cname ?? "blosclz",
    chunk_size: options.chunkSize === "max" ? 2 ** 31 - 17 : (options.chunkSize ?? 1 << 20),
    offsets: options.offsets ?? true,
    checksum: options.checksum ?? "adler32",
    max_app_chunks: options.maxAppChunks ?? "10x",
  };
}

export function dtypeOf(spelled: FixtureDType): DType {
  return parseDType(spelled as unknown as JsonValue, "interop");
}

/** Bytes without zeros, which strings would lose at their ends; small, so that none of them is a NaN. */
export function someBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => 1 + ((i * 7 + (i >> 6) * 3) % 60));
}

export function someText(characters: number): Uint8Array {
  const points = Uint32Array.from({ length: characters }, (_, i) => 97 + (i % 26));
  return new Uint8Array(points.buffer);
}

export const hash: (bytes: Uint8Array) => string = (bytes) =>
  createHash("sha256").update(bytes).digest("hex");
export const hex: (bytes: Uint8Array) => string = (bytes) => Buffer.from(bytes).toString("hex");
