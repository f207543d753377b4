/**
 * Icechunk repositories with virtual references, through `@earthmover/icechunk`.
 *
 * The package is optional and has native code; it is loaded on first use. Knows its functions; must not know archives.
 */

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type * as Icechunk from "@earthmover/icechunk";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { type ContainerCredentials, noCredentials } from "../../references/containers/container-reader.ts";
import { type Container, Containers } from "../../references/containers/containers.ts";
import { isClosed } from "../../references/kerchunk/write-kerchunk.ts";
import { encodeKey } from "../../store/key.ts";
import { parseBucketAddress } from "../buckets/address.ts";
import { azureEndpoint } from "../buckets/azure.ts";
import { gcsEndpoint } from "../buckets/gcs.ts";
import { environmentOfS3 } from "../buckets/s3.ts";
import { isBucketAddress } from "../locate.ts";

type IcechunkModule = typeof Icechunk;

/** Loads the package. Throws `UNSUPPORTED` with advice if it is missing or does not run. */
async function loadIcechunk(): Promise<IcechunkModule> {
  try {
    return await import("@earthmover/icechunk");
  } catch (cause) {
    throw explainMissing(cause);
  }
}

/** Platforms that the package has a build for, named as in {@link process}. */
const BUILDS = ["linux x64", "darwin arm64", "win32 x64"];

/** The `UNSUPPORTED` error, with advice, if the package cannot be loaded. */
export function explainMissing(cause: unknown): SuperchunkError {
  const { platform, arch } = process;
  const here = `${platform} ${arch}`;
  const isInstalled = !(
    cause instanceof Error && /Cannot find package '@earthmover\/icechunk'/.test(cause.message)
  );
  const text = cause instanceof Error ? `${cause.message} ${causesOf(cause)}` : String(cause);
  const reason = !isInstalled
    ? 'needs the package "@earthmover/icechunk", which is not installed: npm install @earthmover/icechunk'
    : // An old C library shows in the missing version, or in a missing function of a newer one.
      /GLIBC|__isoc23_/i.test(text)
      ? `needs a newer C library than this system has (glibc 2.38 or later, as in Debian 13 and Ubuntu 24.04; here ${here})`
      : BUILDS.includes(here)
        ? `could not load the native code of "@earthmover/icechunk" for ${here}; install it again, with optional dependencies (npm install --include=optional @earthmover/icechunk)`
        : `has no build of "@earthmover/icechunk" for ${here}; there are ones for Linux x64 with glibc 2.38, macOS arm64 and Windows x64`;
  return new SuperchunkError(
    "UNSUPPORTED",
    `Icechunk ${reason}. Without it, write kerchunk references (--to kerchunk); VirtualiZarr writes them into Icechunk`,
    { field: "@earthmover/icechunk", expected: "a build for this platform", found: here, cause },
  );
}

/** Native packages try several builds, and report all failures in a chain of causes. */
function causesOf(error: Error): string {
  const texts: string[] = [];
  for (let each: unknown = error.cause; each instanceof Error && texts.length < 20; each = each.cause)
    texts.push(each.message);
  return texts.join(" ");
}

/**
 * Opens the repository at a folder or an address in a bucket for reading, creates one, or for an update opens or creates one.
 *
 * For writing, our containers are added to the session's configuration, and manifests are split if the repository does not say
 * how. Throws `NOT_FOUND` if there is nothing to read; `CONFLICT`, without a change, if one exists and must not be updated;
 * `UNSUPPORTED`, `BAD_ARGUMENT` for missing credentials.
 */
export async function openRepository(
  location: string,
  purpose: "read" | "create" | "update",
  options: RepositoryOptions,
): Promise<Icechunk.Repository> {
  const containers = new Containers(options.containers);
  const { Repository, Storage } = await loadIcechunk();
  const { credentials = {} } = options;
  // A writer of references need not be allowed to read the objects.
  const open = [...containers].filter(
    (each) => purpose === "read" || !isClosed(each) || credentials[each.credentials ?? ""] !== undefined,
  );
  const access = accessOf(open, credentials);
  const config = configOf(containers);
  try {
    const storage = await storageOf(Storage, location, options);
    const isThere = isBucketAddress(location)
      ? await Repository.exists(storage)
      : existsSync(resolve(location, "repo")) || (existsSync(location) && (await Repository.exists(storage)));
    if (purpose === "read") {
      if (!isThere)
        throw new SuperchunkError("NOT_FOUND", "no Icechunk repository is here", { path: location });
      return await Repository.open(storage, config, access);
    }
    if (isThere && purpose === "create")
      throw new SuperchunkError(
        "CONFLICT",
        "an Icechunk repository exists here; update it, or choose another folder",
        { path: location, field: "update", expected: "nothing", found: "a repository" },
      );
    if (isThere) {
      const kept = (await Repository.fetchConfig(storage))?.manifest as { splitting?: unknown } | undefined;
      const cut = (kept?.splitting ?? null) === null ? { ...config, manifest: MANIFESTS } : config;
      await (await Repository.open(storage, cut, access)).saveConfig();
    } else await Repository.create(storage, { ...config, manifest: MANIFESTS }, undefined, access);
    // What is only written need not be cached. A configuration that is not saved applies to this session only.
    const caching = { numChunkRefs: 1, numTransactionChanges: 1 };
    return await Repository.open(storage, { ...config, caching }, access);
  } catch (error) {
    throw explainIcechunk(error, location);
  }
}

async function storageOf(
  Storage: IcechunkModule["Storage"],
  location: string,
  { endpoint, region, anonymous }: RepositoryOptions,
): Promise<Icechunk.Storage> {
  if (!isBucketAddress(location)) return Storage.newLocalFilesystem(resolve(location));
  const address = parseBucketAddress(location);
  const { scheme, bucket, prefix } = address;
  const given = { endpoint: endpoint ?? address.endpoint, anonymous: anonymous ?? address.anonymous };
  const found = { type: given.anonymous ? "Anonymous" : "FromEnv" } as const;
  if (scheme === "s3") {
    const own = environmentOfS3();
    const server = given.endpoint ?? own.endpoint;
    const nearby = region ?? address.region ?? own.region;
    return Storage.newS3(bucket, prefix, found, s3Options({ ...given, endpoint: server, region: nearby }));
  }
  const { account, secret, config } = settingsInBucket(scheme, given);
  if (scheme === "gs") return Storage.newGcs(bucket, prefix, found, config);
  if (account === undefined)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "Icechunk needs the name of the account: set AZURE_STORAGE_ACCOUNT",
      { path: location, field: "AZURE_STORAGE_ACCOUNT" },
    );
  const type = secret === "AZURE_STORAGE_KEY" ? "AccessKey" : "SasToken";
  const field0 = { type, field0: process.env[secret ?? ""] ?? "" } as const;
  const own = secret === undefined ? found : ({ type: "Static", field0 } as const);
  return Storage.newAzureBlob(account, bucket, prefix, own, config);
}

/** What Icechunk's clients for Google and Azure cannot find in the variables of the providers' tools. */
export function settingsInBucket(
  scheme: "gs" | "az",
  { endpoint, anonymous }: Pick<RepositoryOptions, "endpoint" | "anonymous">,
): { account?: string | undefined; secret?: string | undefined; config: Record<string, string> } {
  const isAzure = scheme === "az";
  const server = endpoint ?? (isAzure ? azureEndpoint() : gcsEndpoint());
  const isPlain = server?.startsWith("http://") === true;
  const config: Record<string, string> =
    server === undefined
      ? {}
      : {
          [isAzure ? "azure_storage_endpoint" : "google_base_url"]: server,
          ...(isPlain ? { allow_http: "true" } : {}),
        };
  const variables = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"];
  const secret =
    isAzure && anonymous !== true ? variables.find((name) => Boolean(process.env[name])) : undefined;
  return { account: process.env["AZURE_STORAGE_ACCOUNT"] || undefined, secret, config };
}

function s3Options({
  endpoint,
  region,
  anonymous,
}: Pick<RepositoryOptions, "endpoint" | "region" | "anonymous">): Icechunk.S3Options {
  return {
    region: region ?? "us-east-1",
    anonymous: anonymous === true,
    ...(endpoint === undefined
      ? {}
      : { endpointUrl: endpoint, allowHttp: endpoint.startsWith("http://"), forcePathStyle: true }),
  };
}

function configOf(containers: Containers): Icechunk.RepositoryConfig {
  const entries = [...containers].map((container) => {
    const urlPrefix = toIcechunkPrefix(container);
    return [urlPrefix, { name: container.name, urlPrefix, store: storeConfig(container) }] as const;
  });
  return { virtualChunkContainers: Object.fromEntries(entries) };
}

function storeConfig({ prefix, store, region, endpoint, anonymous }: Container): Icechunk.ObjectStoreConfig {
  switch (store) {
    case "local":
      return { type: "LocalFileSystem", field0: prefix.slice("file://".length) };
    case "http":
      return {
        type: "Http",
        field0: { opts: prefix.startsWith("http://") ? { allow_http: "true" } : {}, headers: {} },
      };
    case "s3":
      return {
        type: endpoint === undefined ? "S3" : "S3Compatible",
        field0: s3Options({ endpoint, region, anonymous }),
      };
    case "gcs":
      return { type: "Gcs", field0: {} };
    case "azure":
      return { type: "Azure", field0: {} };
  }
}

/** Access to every given container, with its credentials. */
function accessOf(
  containers: readonly Container[],
  credentials: Readonly<Record<string, ContainerCredentials>>,
): Record<string, Icechunk.Credentials | null> {
  const access: Record<string, Icechunk.Credentials | null> = {};
  for (const container of containers)
    access[toIcechunkPrefix(container)] = credentialsOf(container, credentials);
  return access;
}

function credentialsOf(
  { name, store, credentials, anonymous }: Container,
  given: Readonly<Record<string, ContainerCredentials>>,
): Icechunk.Credentials | null {
  const own = credentials === undefined ? undefined : given[credentials];
  if (credentials !== undefined && anonymous !== true && own === undefined)
    throw noCredentials(name, credentials);
  switch (store) {
    case "local":
    case "http":
      return null;
    case "s3": {
      const { accessKeyId, secretAccessKey, sessionToken } = own ?? {};
      if (accessKeyId !== undefined && secretAccessKey !== undefined) {
        const session = sessionToken === undefined ? {} : { sessionToken };
        return {
          type: "S3",
          field0: { type: "Static", field0: { accessKeyId, secretAccessKey, ...session } },
        };
      }
      return { type: "S3", field0: { type: anonymous === true ? "Anonymous" : "FromEnv" } };
    }
    case "gcs":
      return { type: "Gcs", field0: { type: anonymous === true ? "Anonymous" : "FromEnv" } };
    case "azure":
      return { type: "Azure", field0: { type: anonymous === true ? "Anonymous" : "FromEnv" } };
  }
}

/** Advice for an object that is not the referenced one. */
export const REFER_AGAIN: string =
  'refer to it again ("superchunk virtualize --update", with --overwrite for files that no append changed)';

/** Converts an error of the package to one of ours; ours are returned unchanged. */
export function explainIcechunk(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof SuperchunkError) return error;
  const [first = ""] = error.message.split("\n");
  const text = error.message;
  if (/checksum of the object owning the virtual chunk has changed/.test(text))
    return new SuperchunkError(
      "STALE",
      `an object has changed since it was referenced (${first}); ${REFER_AGAIN}`,
      { path, cause: error },
    );
  if (/no virtual chunk container|not authorized|authorize/i.test(text)) {
    const [, place = "a chunk"] = /chunk location \((\S+?)\)/.exec(text) ?? [];
    const summary = `no container that may be read has ${place}; open the references with {allow: "PLACE"}, where PLACE is a folder or a bucket above it`;
    return new SuperchunkError("UNSAFE_PATH", summary, { path, field: "container", cause: error });
  }
  // Icechunk 2.2 gives JavaScript no more details.
  if (/error fetching virtual reference/.test(text))
    return new SuperchunkError(
      "IO",
      "the object that a chunk refers to cannot be read: it no longer exists, or access to it is refused",
      { path, cause: error },
    );
  return new SuperchunkError("IO", `Icechunk failed: ${first}`, { path, cause: error });
}

// A commit of any size: written in parts on a separate branch, and published on the branch at once.
//
// Icechunk's session keeps unwritten references in memory, some 700 bytes each, and twice that during a commit. Parts limit
// this. Knows Icechunk's branches and snapshots; must not know references.

/** References of a part, and of a manifest: parts that fill whole manifests write no manifest twice. */
export const PART: number = 25_000;

/** How Icechunk splits manifests. Readers fetch and decode a chunk's whole manifest. */
const MANIFESTS: JsonObject = {
  splitting: { split_sizes: [[{ path_matches: { regex: ".*" } }, [{ condition: "Any", num_chunks: PART }]]] },
};

/** Changes to a branch that readers do not see until {@link CommitDraft.publish}. */
export class CommitDraft {
  readonly #repository: Icechunk.Repository;
  readonly #branch: string;
  readonly #base: string;
  #session: Icechunk.Session;
  /** The branch of the parts written so far; undefined before the first. */
  #own: string | undefined;
  #parts = 0;

  private constructor(repository: Icechunk.Repository, branch: string, session: Icechunk.Session) {
    this.#repository = repository;
    this.#branch = branch;
    this.#base = session.snapshotId;
    this.#session = session;
  }

  static async begin(repository: Icechunk.Repository, branch: string): Promise<CommitDraft> {
    return new CommitDraft(repository, branch, await repository.writableSession(branch));
  }

  /** The store to change: a new one after every part. */
  get store(): Icechunk.Store {
    return this.#session.store;
  }

  /** Writes the changes so far, and frees their memory. */
  async endPart(): Promise<void> {
    const message = `Part ${++this.#parts} of references, more follow`;
    if (this.#own === undefined) {
      const snapshot = await this.#session.flush(message);
      const name = `superchunk-draft-${randomUUID()}`;
      await this.#repository.createBranch(name, snapshot);
      this.#own = name;
    } else await this.#session.commit(message);
    this.#session = await this.#repository.writableSession(this.#own);
  }

  /** Writes the last part. Resolves with the complete snapshot, which the branch does not show yet. */
  finish(message: string): Promise<string> {
    return this.#session.flush(message);
  }

  /** Publishes a snapshot of {@link finish} on the branch. Throws `CONFLICT` if another writer was faster. */
  async publish(snapshot: string): Promise<void> {
    try {
      await this.#repository.resetBranch(this.#branch, snapshot, this.#base);
    } catch (cause) {
      const found = await this.#repository.lookupBranch(this.#branch);
      // The answer to our own success was lost, and the repeated request found the branch moved.
      if (found === snapshot) return;
      if (found === this.#base) throw cause;
      throw new SuperchunkError(
        "CONFLICT",
        `another writer committed to the branch "${this.#branch}" meanwhile; nothing was changed, run it again`,
        { field: "branch", expected: this.#base, found, cause },
      );
    }
  }

  /** Removes what the branch does not need. Must always be called. */
  async end(): Promise<void> {
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined) await this.#repository.deleteBranch(own);
  }
}

// Access to Icechunk repositories, and Icechunk's form of locations. Must not know the package.

/** Access to a repository. */
export interface RepositoryOptions {
  /** Containers that may be read. A new repository is created with them. */
  readonly containers: Iterable<Container>;
  /** By container name. Passed to Icechunk, never written into a repository. */
  readonly credentials?: Readonly<Record<string, ContainerCredentials>> | undefined;
  /** For repositories in buckets: another server than the provider's, its region (S3), and reading without credentials. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly anonymous?: boolean | undefined;
}

/**
 * A location in Icechunk's form. Icechunk 2.2 decodes the part after `file://`, and fsspec does not, so paths of local files
 * are encoded here.
 */
export function toIcechunkLocation(location: string): string {
  if (!location.startsWith("file://")) return location;
  return `file://${encodeKey(location.slice("file://".length))}`;
}

/** The reverse: the location as references store it elsewhere. */
export function fromIcechunkLocation(location: string): string {
  if (!location.startsWith("file://")) return location;
  return `file://${location.slice("file://".length).split("/").map(decodeURIComponent).join("/")}`;
}

/** Icechunk 2.2 finds no container whose prefix has encoded characters, so the prefix of a parent folder is used. */
export function toIcechunkPrefix({ prefix }: Pick<Container, "prefix">): string {
  let plain = prefix;
  while (toIcechunkLocation(plain) !== plain && plain !== "file:///")
    plain = plain.slice(0, plain.lastIndexOf("/", plain.length - 2) + 1);
  return plain;
}
