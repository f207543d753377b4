/** The containers of references that are to be written: those of a file, or one for what the sources have in common. */
import { isSuperchunkError, SuperchunkError } from "../../src/index.ts";
import { readPlain } from "../../src/node/fs/fs-open.ts";
import { environmentOfS3 } from "../../src/node/s3/s3-client.ts";
import { parseS3Address } from "../../src/node/s3/s3-store.ts";
import {
  type Container,
  commonFolder,
  defaultContainer,
  parseContainers,
  toLocation,
  type ViewEntry,
} from "../../src/zarr.ts";

/** One container for all: the folder that the sources have in common. */
export function commonContainer(entries: readonly ViewEntry[], sources: readonly string[]): Container {
  const folder = commonFolder(entries.map(({ source }) => toLocation(source)));
  if (folder !== undefined) return containerAt(folder, sources);
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "the sources have no folder in common; give containers for them with --containers",
    { field: "containers" },
  );
}

/** The container of a folder, in S3 reached as the sources are: by what their addresses say, and by the environment. */
export function containerAt(folder: string, sources: readonly string[]): Container {
  const source = sources.find((typed) => /^s3:\/\//i.test(typed));
  if (source === undefined || !folder.startsWith("s3://")) return defaultContainer(folder);
  const told = parseS3Address(source);
  const found = environmentOfS3();
  const endpoint = told.endpoint ?? found.endpoint;
  return {
    name: "s3",
    prefix: folder,
    store: "s3",
    region: told.region ?? found.region ?? "us-east-1",
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(told.anonymous === true ? { anonymous: true } : {}),
  };
}

/** The containers of a file. Throws `NOT_FOUND`, and as `parseContainers`. */
export async function readContainers(path: string): Promise<Iterable<Container>> {
  let text: string;
  try {
    text = readPlain(path, { follows: true }).toString("utf8");
  } catch (cause) {
    if (isSuperchunkError(cause)) throw cause;
    throw new SuperchunkError("NOT_FOUND", "the file with containers cannot be read", { path, cause });
  }
  return parseContainers(text, path);
}
