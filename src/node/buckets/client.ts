/**
 * What a client of an object store does for `BucketStore`: six verbs, and the words for its failures.
 *
 * S3, Google Cloud Storage and Azure Blob Storage each have one file with these verbs. Must not know archives.
 */
import { SuperchunkError } from "../../errors.ts";
import type { ByteRange, ObjectInfo } from "../../store/types.ts";

/** Access to a bucket, or a container of Azure. Missing settings are found as the tools of the provider find them. */
export interface BucketAccess {
  readonly bucket: string;
  /** Address of a server other than the provider's. */
  readonly endpoint?: string | undefined;
  /** Does not sign requests: for public buckets. */
  readonly anonymous?: boolean | undefined;
}

/** Present settings of every request. */
export interface Call {
  readonly abortSignal?: AbortSignal;
}

/** An object and the mark of its put. */
export interface MarkedInfo extends ObjectInfo {
  readonly mark?: string | undefined;
}

/** The answer to a read, before its body has arrived. */
export interface Answer {
  /** The version of the bytes; undefined if the server does not say. */
  readonly version: string | undefined;
  /** The whole object, if the answer has its size. */
  readonly info: ObjectInfo | undefined;
  /** Bytes of the body, if the answer has their number. */
  readonly length: number | undefined;
  /** The bytes of the body, in memory of their own. */
  body(): Promise<Uint8Array>;
}

/** A part of a listing: keys and prefixes as the server has them. */
interface ListPage {
  readonly objects: readonly { readonly key: string; readonly size: number | undefined }[];
  readonly prefixes: readonly string[];
  /** Requests the next page; undefined after the last. */
  readonly token: string | undefined;
}

/** How an object is put: its condition, and a mark by which a writer recognizes its own put. */
export interface Putting {
  readonly mark: string;
  readonly ifAbsent?: boolean | undefined;
  readonly ifVersion?: string | undefined;
}

/** An object that is put in parts, and appears with `finish`. */
interface Upload {
  /** Sends a part. Parts have numbers from 1, and are begun in order. */
  part(number: number, bytes: Uint8Array): Promise<void>;
  /** Resolves with the version. */
  finish(): Promise<string | undefined>;
  /** Removes the parts. */
  abort(): Promise<void>;
}

/** The verbs. All throw the client's own errors. */
export interface BucketClient {
  get(key: string, range: ByteRange | undefined, call: Call): Promise<Answer>;
  stat(key: string, call: Call): Promise<MarkedInfo | undefined>;
  list(prefix: string, token: string | undefined, call: Call): Promise<ListPage>;
  /** Resolves with the version. */
  put(key: string, bytes: Uint8Array, putting: Putting, call: Call): Promise<string | undefined>;
  upload(key: string, putting: Putting, call: Call): Promise<Upload>;
  /** Deletes an object, with `version` only if it is this one. */
  delete(key: string, version: string | undefined, call: Call): Promise<void>;
  close(): void;
}

export interface ClientFailure {
  /** The server's or the client's name for it: `NoSuchKey`, `AccessDenied`, `ECONNREFUSED`. */
  readonly name: string;
  /** Undefined if there was no answer. */
  readonly status: number | undefined;
  readonly isNoBucket?: boolean;
  /** Text that says more than the status does. */
  readonly advice?: string | undefined;
}

/** A kind of object store. */
export interface Provider {
  readonly scheme: string;
  /** What holds the objects: a bucket or a container. */
  readonly holder: string;
  /** Where an endpoint can be set. */
  readonly endpointAt: string;
  /** Name of the server in messages. */
  server(): string;
  /** True if the server may ignore conditions of puts: one that only imitates the provider's. */
  mayIgnoreConditions?(): boolean;
  /** Loads the client's package. Throws `UNSUPPORTED` if it is not installed, `BAD_ARGUMENT` for bad settings. */
  connect(): Promise<BucketClient>;
  failureOf(error: unknown): ClientFailure;
}

/** The metadata key by which a writer recognizes its own put. Azure allows no hyphen in it. */
export const MARK = "superchunkput";

/** Facts of an object; undefined without its size. */
export function describeObject(
  size: number | undefined,
  version: string | undefined,
  modified: Date | undefined,
  etag: string | undefined = version,
): ObjectInfo | undefined {
  if (size === undefined) return undefined;
  return {
    size,
    version: version ?? String(size),
    ...(etag === undefined ? {} : { etag }),
    ...(modified === undefined ? {} : { modified: modified.getTime() }),
  };
}

/** Imports an optional package that `what` need. Throws `UNSUPPORTED` if it is not installed. */
export async function loadPackage<T>(name: string, what: string, more = ""): Promise<T> {
  try {
    return (await import(name)) as T;
  } catch (cause) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `${what} need the package "${name}", which is not installed: npm install ${name}${more}`,
      { field: name, cause },
    );
  }
}

/** Size of the object that `Content-Range` gives; undefined if there is none. */
export function totalOf(contentRange: string | undefined): number | undefined {
  const total = /\/(\d+)$/.exec(contentRange ?? "")?.[1];
  return total === undefined ? undefined : Number(total);
}
