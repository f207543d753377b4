/** Inputs of commands that write into an archive: a file or stdin, bytes or a `.npy` file. */

import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { access, constants, type FileHandle, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { Option } from "commander";
import {
  type ByteRange,
  type JsonInput,
  type NpyHeader,
  type ObjectInfo,
  type PutSource,
  type ReadableStore,
  SuperchunkError,
} from "../../src/index.ts";
import { type CarryTarget, locate, type NpyFile, openNpy, type StreamCarrier } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { closing } from "./opening.ts";

export interface Input {
  /** Name in messages. */
  readonly name: string;
  /** Header of a `.npy` file; undefined for plain bytes. */
  readonly npy: NpyHeader | undefined;
  /** Bytes of the values, if known. */
  readonly size: number | undefined;
  /** The bytes of the values. May be called repeatedly for a file. */
  pieces(): AsyncIterable<Uint8Array>;
  /** All notes on the types of a table. */
  readonly notes?: readonly string[];
  /** User attributes, which only tables that this library wrote have. */
  readonly attrs?: Readonly<Record<string, JsonInput>>;
  /** For a table with separate columns: the input of one column. */
  field?(name: string): Input;
  /** For a table: takes over its compressed streams for the target that is created or appended to. */
  carry?(target?: CarryTarget): Promise<StreamCarrier | undefined>;
}

const READ_BYTES = 1 << 20;

/**
 * The paths of a command of which the last one is the destination. Throws `BAD_ARGUMENT` if there are fewer than two; `needs` says what the
 * command needs, and how it is called.
 */
export function splitPaths(
  paths: readonly string[],
  needs: string,
): { readonly sources: readonly string[]; readonly destination: string } {
  const sources = paths.slice(0, -1);
  const destination = paths.at(-1);
  if (destination === undefined || sources.length === 0) throw wrongUse("dst", needs);
  return { sources, destination };
}

export function filesFromOption(): Option {
  return new Option("--files-from <list>", "read paths from a file, one per line; - is stdin");
}

/** The paths in the list of `--files-from`, without empty lines; none without the option. Throws `NOT_FOUND`. */
export async function readFilesFrom(list: string | undefined, context: Context): Promise<string[]> {
  if (list === undefined) return [];
  const pieces: Uint8Array[] = [];
  for await (const piece of (await openInput(list, true, context)).pieces())
    pieces.push(Uint8Array.from(piece));
  const text = Buffer.concat(pieces)
    .toString("utf8")
    .replace(/^\ufeff/, "");
  // `find -print0` ends names with a zero byte, because they may contain line breaks.
  const paths = text.split(text.includes("\0") ? "\0" : /\r?\n/).filter((path) => path !== "");
  if (paths.length === 0) throw wrongUse("files-from", "the list names no path", { path: list });
  return paths;
}

/**
 * Opens a file, or stdin for `-`. A `.npy` file is read as an array, unless `asBytes`. Throws `NOT_FOUND`, `BAD_ARGUMENT` for what is not
 * a file, and the codes of damage.
 */
export async function openInput(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name === "-") return { name: "stdin", npy: undefined, size: undefined, pieces: () => context.io.stdin };
  if (name === "")
    throw wrongUse("path", "the path is empty; give one, or . for the current folder", { found: name });
  let size: number;
  try {
    const info = await stat(name);
    if (info.isDirectory())
      throw new SuperchunkError("BAD_ARGUMENT", "the input is a folder; give a file", { path: name });
    // A pipe has no length and can be read only once, from its beginning.
    if (!info.isFile())
      throw wrongUse(
        "input",
        "this is a pipe or a device, not a file; send it to stdin, and give - instead",
        { path: name },
      );
    size = info.size;
  } catch (cause) {
    if (cause instanceof SuperchunkError) throw cause;
    throw new SuperchunkError("NOT_FOUND", "no such file", { path: name, cause });
  }
  if (!asBytes && /\.npy$/i.test(name))
    return inputOf(await openNpy(name, { signal: context.signal }), "stored");
  return { name, npy: undefined, size, pieces: () => createReadStream(name, { highWaterMark: READ_BYTES }) };
}

/** A `.npy` file as an input, with its values in stored order or in C order. */
export function inputOf(file: NpyFile, order: "stored" | "C", signal?: AbortSignal): Input {
  const { name, nbytes: size, dtype, shape, dataAt } = file;
  return {
    name,
    npy: { dtype, shape, dataAt, order: order === "C" ? "C" : file.order },
    size,
    pieces: () => (order === "C" ? file.rows({ signal }) : file.values({ signal })),
  };
}

/** Reads a small file. Throws `NOT_FOUND`, and `BAD_ARGUMENT` for what is not a file. */
export async function readWhole(name: string): Promise<Uint8Array> {
  const { store, path } = await locate(name);
  const bytes = await closing(store, () => store.get(path));
  if (bytes !== undefined) return bytes;
  throw new SuperchunkError("NOT_FOUND", "no such file", { path: name });
}

/**
 * Holds one object in a file of the system that loses its name at once, so that nothing is left of it if this process is killed. `held`
 * and `advice` are for the message if that fails.
 */
export class UnnamedFile implements ReadableStore {
  readonly #held: string;
  readonly #advice: string;
  #key: string | undefined;
  #file: FileHandle | undefined;

  constructor(held: string, advice: string) {
    this.#held = held;
    this.#advice = advice;
  }

  async put(key: string, source: PutSource): Promise<ObjectInfo> {
    const path = join(tmpdir(), `superchunk-${randomUUID()}.tmp`);
    const explain = (cause: NodeJS.ErrnoException): never => {
      throw new SuperchunkError(
        cause.code === "ENOSPC" ? "NO_SPACE" : "IO",
        `the temporary file for ${this.#held} cannot be written (${cause.code}); name another folder in TMPDIR, or ${this.#advice}`,
        { path, found: `${cause.code}`, cause },
      );
    };
    this.#file = await open(path, "wx+", 0o600).catch(explain);
    await rm(path).catch(explain);
    this.#key = key;
    for await (const piece of source instanceof Uint8Array ? [source] : source)
      await this.#file.appendFile(piece).catch(explain);
    return { size: (await this.#file.stat()).size, version: key };
  }

  async stat(key: string): Promise<ObjectInfo | undefined> {
    if (this.#file === undefined || key !== this.#key) return undefined;
    return { size: (await this.#file.stat()).size, version: key };
  }

  async getRange(key: string, range: ByteRange): Promise<Uint8Array | undefined> {
    const size = (await this.stat(key))?.size;
    if (this.#file === undefined || size === undefined) return undefined;
    const offset = "offset" in range ? range.offset : Math.max(0, size - range.suffixLength);
    const length = "offset" in range ? range.length : range.suffixLength;
    const room = new Uint8Array(Math.max(0, Math.min(length, size - offset)));
    const { bytesRead } = await this.#file.read(room, 0, room.length, offset);
    return room.subarray(0, bytesRead);
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.getRange(key, { offset: 0, length: Number.POSITIVE_INFINITY });
  }

  async *list(): AsyncGenerator<never> {}

  delete(): Promise<void> {
    return this.close();
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  describe(key: string): string {
    return key;
  }
}

/**
 * Refuses to write a report over a folder, or a file that is not one: with the name left out, `--report` takes the first path for it. Refuses
 * a place that cannot be written too, because the report is written after hours of work.
 * @throws BAD_ARGUMENT, or the system's error; the file is not changed
 */
export async function refuseOther(path: string): Promise<void> {
  const info = await stat(path).catch(() => undefined);
  await access(info === undefined ? dirname(resolve(path)) : path, constants.W_OK);
  if (info?.isDirectory() === true)
    throw wrongUse("report", "the path is a folder; give --report the name of a file", { path });
  if (info?.isFile() !== true || info.size === 0) return;
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0);
    if (!/^\{\s*"(?:path|archives)"/.test(buffer.toString("latin1", 0, bytesRead))) throw notReport(path);
  } finally {
    await file.close();
  }
}

/** The error for a file that is not a report. */
export function notReport(path: string): SuperchunkError {
  return wrongUse("report", "the file exists, is not a report, and is not changed; give another --report", {
    path,
  });
}
