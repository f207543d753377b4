/** Zarr nodes at paths and URLs: with worker threads that decode and encode. */
import type { ZarrArray } from "../zarr/array.ts";
import type { ZarrGroup } from "../zarr/group.ts";
import { type OpenZarrOptions, openZarr as openIn } from "../zarr/open.ts";
import {
  type CreateZarrOptions,
  createZarr as createIn,
  openZarrWriter as openWriterIn,
  type ZarrSpecification,
} from "../zarr/write/create.ts";
import type { WritableZarrArray } from "../zarr/write/writable-array.ts";
import { closeOnFailure, locate, locateTarget } from "./locate.ts";
import { useNativeDigests } from "./native-digest.ts";
import { decoderOf, encoderOf, shardWriterOf, type ThreadOptions } from "./threads.ts";

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
 * @throws CONFLICT where something is there already; BAD_FIELD for a specification that contradicts itself; UNSUPPORTED;
 * NO_SPACE, READ_ONLY, IO
 */
export function createZarr(
  location: string,
  specification: ZarrSpecification,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  return closeOnFailure(store, createIn(store, path, specification, withThreads(options)));
}

/**
 * Opens the Zarr array in a folder, or at an `s3:` address, to write to it.
 *
 * @throws as {@link openZarr}
 */
export function openZarrWriter(
  location: string,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  return closeOnFailure(store, openWriterIn(store, path, withThreads(options)));
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
