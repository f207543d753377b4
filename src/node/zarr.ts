/** Zarr nodes at paths and URLs: with worker threads that decode and encode. */
import * as fs from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { DOCUMENT } from "../zarr/document/metadata-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr as openIn } from "../zarr/read/open.ts";
import {
  type CreateZarrOptions,
  createZarr as createIn,
  openZarrWriter as openWriterIn,
  type ZarrSpecification,
} from "../zarr/write/create.ts";
import { refuseDual } from "../zarr/write/node-document.ts";
import type { WritableZarrArray } from "../zarr/write/writable-array.ts";
import { FileStore } from "./fs/fs-store.ts";
import { closeOnFailure, isS3Address, locate, locateTarget } from "./locate.ts";
import { useNativeDigests } from "./threads/native-digest.ts";
import { decoderOf, encoderOf, shardWriterOf, type ThreadOptions } from "./threads/threads.ts";

/** Options of {@link openZarr}. */
export interface OpenZarrPathOptions extends OpenZarrOptions, ThreadOptions {}

/** Options of {@link createZarr} and {@link openZarrWriter}. */
export interface ZarrWriterPathOptions extends CreateZarrOptions, ThreadOptions {}

/**
 * Opens the Zarr array or group in a folder, or at an `http(s):` or `s3:` address; worker threads decode where many
 * chunks are read (`threads: 0` turns that off). The node's `store.close()` releases what it holds open.
 *
 * @throws NOT_FOUND, UNSUPPORTED, BAD_ARGUMENT, and the codes of damage
 */
export async function openZarr(
  location: string,
  options: OpenZarrPathOptions = {},
): Promise<ZarrArray | ZarrGroup> {
  useNativeDigests();
  const { store, path } = await locate(location);
  return closeOnFailure(
    store,
    openIn(store, path, { ...options, decoder: options.decoder ?? decoderOf(options) }),
  );
}

/**
 * Makes a Zarr v3 array in a folder, which need not exist, or at an `s3:` address; worker threads encode its chunks. Its
 * `store.close()` releases what it holds open.
 *
 * @throws CONFLICT where something is there already, also an archive; BAD_FIELD for a specification that contradicts itself; UNSUPPORTED;
 * NO_SPACE, READ_ONLY, IO
 */
export function createZarr(
  location: string,
  specification: ZarrSpecification,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  const create = async (): Promise<WritableZarrArray> => {
    await refuseColumn(location, options);
    return createIn(store, path, specification, withThreads(options));
  };
  return closeOnFailure(store, create());
}

/**
 * Opens the Zarr array in a folder, or at an `s3:` address, to write to it.
 *
 * @throws as {@link openZarr}, and CONFLICT for an array that is an archive as well
 */
export function openZarrWriter(
  location: string,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  const openWriter = async (): Promise<WritableZarrArray> => {
    await refuseColumn(location, options);
    return openWriterIn(store, path, withThreads(options));
  };
  return closeOnFailure(store, openWriter());
}

/** Refuses a folder in an archive that is a Zarr group: the store of the folder alone does not see what is above it. */
async function refuseColumn(location: string, { signal }: ZarrWriterPathOptions): Promise<void> {
  if (isS3Address(location)) return;
  const folder = resolve(location);
  let root = folder;
  while (fs.existsSync(join(dirname(root), DOCUMENT)) && dirname(root) !== root) root = dirname(root);
  if (root === folder) return;
  const store = new FileStore(root);
  try {
    await refuseDual(store, relative(root, folder).split(sep).join("/"), { signal });
  } finally {
    await store.close();
  }
}

function withThreads(options: ZarrWriterPathOptions): CreateZarrOptions {
  return {
    ...options,
    decoder: options.decoder ?? decoderOf(options),
    encoder: options.encoder ?? encoderOf(options),
    // Threads would encode without an encoder that the caller chose.
    shardWriter: options.shardWriter ?? (options.encoder === undefined ? shardWriterOf(options) : undefined),
  };
}
