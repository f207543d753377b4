/**
 * Google Cloud Storage by its client, which is loaded on first use.
 *
 * Knows the client's settings, verbs and failures. Needs the package `@google-cloud/storage`. The version of an object is its generation:
 * Google's ETags cannot be the condition of a put.
 */
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { SuperchunkError } from "../../errors.ts";
import type { ByteRange } from "../../store/types.ts";
import {
  type BucketAccess,
  type BucketClient,
  type Call,
  type ClientFailure,
  describeObject,
  loadPackage,
  MARK,
  type MarkedInfo,
  type Provider,
  type Putting,
  totalOf,
} from "./client.ts";

/** The members of the client that are used; the package need not be installed. */
interface Module {
  readonly Storage: new (options: object) => { baseUrl: string; bucket(name: string): Bucket };
}
interface Bucket {
  file(key: string): File;
  getFiles(query: object): Promise<[readonly File[], { pageToken?: string } | null, Listing | undefined]>;
}
interface Listing {
  readonly prefixes?: readonly string[];
}
interface File {
  readonly name: string;
  readonly metadata: Metadata;
  createReadStream(options: object): Readable;
  createWriteStream(options: object): Writable;
  getMetadata(): Promise<[Metadata, ...unknown[]]>;
  save(bytes: Buffer, options: object): Promise<void>;
  delete(options: object): Promise<unknown>;
}
interface Metadata {
  readonly size?: string | number;
  readonly generation?: string | number;
  readonly md5Hash?: string;
  readonly updated?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

const PACKAGE = "@google-cloud/storage";
const SERVER = "https://storage.googleapis.com";
/** Bytes that a resumable upload sends at a time. */
const CHUNK = 8 * 1024 * 1024;

/** The server in the environment variable of Google's tools. */
export function gcsEndpoint(): string | undefined {
  const host = process.env["STORAGE_EMULATOR_HOST"] || undefined;
  return host === undefined || /^https?:\/\//i.test(host) ? host : `http://${host}`;
}

/** The objects of a bucket of Google Cloud Storage. */
export function gcsProvider({ bucket, endpoint, anonymous }: BucketAccess): Provider {
  const server = (): string => endpoint ?? gcsEndpoint() ?? SERVER;
  return {
    scheme: "gs",
    holder: "bucket",
    endpointAt: "(STORAGE_EMULATOR_HOST, or ?endpoint= of the address)",
    server,
    failureOf,
    async connect() {
      const { Storage } = await loadPackage<Module>(PACKAGE, "addresses that start with gs://");
      // The client signs requests to no server but the default one, unless it is told to. A final "/" makes it another one.
      const isGoogle = /^https:\/\/[^/]*\.googleapis\.com\/?$/.test(server());
      const storage = new Storage({
        apiEndpoint: anonymous === true ? `${server()}/` : server(),
        useAuthWithCustomEndpoint: isGoogle && anonymous !== true,
        // Puts are repeated: they replace a whole object, and one with a condition recognizes itself by its mark.
        retryOptions: { idempotencyStrategy: 0, maxRetries: 4 },
      });
      // With STORAGE_EMULATOR_HOST, the client would leave out this path.
      storage.baseUrl = `${server().replace(/\/+$/, "")}/storage/v1`;
      return verbs(storage.bucket(bucket));
    },
  };
}

function verbs(bucket: Bucket): BucketClient {
  return {
    async get(key, range, { abortSignal }) {
      const stream = bucket
        .file(key)
        .createReadStream({ ...edges(range), validation: false, decompress: false });
      const abort = (): void => void stream.destroy(abortSignal?.reason);
      abortSignal?.addEventListener("abort", abort, { once: true });
      // The client emits the answer before it knows whether that is an error.
      const body = buffer(stream).finally(() => abortSignal?.removeEventListener("abort", abort));
      const [{ statusCode, headers }] = (await Promise.race([once(stream, "response"), body])) as [Response];
      if (statusCode >= 300) await body;
      const { "content-length": length, "content-range": whole } = headers;
      const version = headers["x-goog-generation"];
      const size = range === undefined ? length && Number(length) : totalOf(whole);
      const modified = headers["last-modified"];
      body.catch(() => undefined); // it may not be awaited
      return {
        version,
        info: describeObject(
          size === "" ? undefined : size,
          version,
          modified === undefined ? undefined : new Date(modified),
          etagOf(/md5=([^,\s]+)/.exec(headers["x-goog-hash"] ?? "")?.[1]),
        ),
        length: length === undefined ? undefined : Number(length),
        body: async () => new Uint8Array(await body),
      };
    },
    async stat(key, { abortSignal }) {
      const [metadata] = await orAbort(bucket.file(key).getMetadata(), abortSignal);
      return infoOf(metadata);
    },
    async list(prefix, pageToken, { abortSignal }) {
      const query = {
        prefix,
        delimiter: "/",
        autoPaginate: false,
        ...(pageToken === undefined ? {} : { pageToken }),
      };
      const [files, next, listing] = await orAbort(bucket.getFiles(query), abortSignal);
      return {
        objects: files.map(({ name, metadata: { size } }) => ({
          key: name,
          size: size === undefined ? undefined : Number(size),
        })),
        prefixes: listing?.prefixes ?? [],
        token: next?.pageToken,
      };
    },
    async put(key, bytes, putting, { abortSignal }) {
      const file = bucket.file(key);
      const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
      await orAbort(file.save(whole, { ...settings(putting), resumable: false }), abortSignal);
      return versionOf(file.metadata);
    },
    upload: async (key, putting, call) => uploadTo(bucket.file(key), putting, call),
    async delete(key, version, { abortSignal }) {
      const condition = version === undefined ? {} : { ifGenerationMatch: version };
      await orAbort(bucket.file(key).delete(condition), abortSignal);
    },
    close: () => {},
  };
}

interface Response {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** A resumable upload. Its parts are sent one after another, in order. */
function uploadTo(
  file: File,
  putting: Putting,
  { abortSignal }: Call,
): Awaited<ReturnType<BucketClient["upload"]>> {
  const stream = file.createWriteStream({ ...settings(putting), resumable: true, chunkSize: CHUNK });
  const failed = new Promise<never>((_, reject) => stream.once("error", reject));
  failed.catch(() => undefined); // whoever waits gets it
  const abort = (): void => void stream.destroy(abortSignal?.reason);
  abortSignal?.addEventListener("abort", abort, { once: true });
  const done = (): void => abortSignal?.removeEventListener("abort", abort);
  return {
    part: (_, bytes) =>
      Promise.race([
        failed,
        new Promise<void>((resolve, reject) =>
          stream.write(bytes, (error) => (error ? reject(error) : resolve())),
        ),
      ]),
    async finish() {
      stream.end();
      await Promise.race([failed, once(stream, "finish")]).finally(done);
      return versionOf(file.metadata);
    },
    async abort() {
      done();
      stream.destroy();
    },
  };
}

/** Options of a put. The generation 0 is that of a missing object; no object has the generation 1, which stands for other versions. */
function settings({ mark, ifAbsent, ifVersion }: Putting): object {
  const generation =
    ifVersion === undefined ? (ifAbsent === true ? 0 : undefined) : /^\d+$/.test(ifVersion) ? ifVersion : 1;
  return {
    metadata: { metadata: { [MARK]: mark } },
    // The client would delete an object whose checksum it cannot confirm, which may be another writer's by then.
    validation: false,
    ...(generation === undefined ? {} : { preconditionOpts: { ifGenerationMatch: generation } }),
  };
}

/** First and last byte of a range; a negative last one counts from the end. */
function edges(range: ByteRange | undefined): { readonly start?: number; readonly end?: number } {
  if (range === undefined) return {};
  if ("suffixLength" in range) return { end: -range.suffixLength };
  return { start: range.offset, end: Math.min(range.offset + range.length - 1, Number.MAX_SAFE_INTEGER) };
}

function infoOf(metadata: Metadata): MarkedInfo {
  const { size, md5Hash, updated } = metadata;
  const modified = updated === undefined ? undefined : new Date(updated);
  const info = describeObject(Number(size), versionOf(metadata), modified, etagOf(md5Hash));
  if (size !== undefined && info !== undefined)
    return { ...info, mark: metadata.metadata?.[MARK] as string | undefined };
  throw new SuperchunkError("UNSUPPORTED", "the server does not report the size of the object");
}

function versionOf({ generation }: Metadata): string | undefined {
  return generation === undefined ? undefined : String(generation);
}

/** The ETag that the object has over plain HTTP, which other readers compare: its MD5. Composed objects have none. */
function etagOf(md5: string | undefined): string | undefined {
  return md5 === undefined ? undefined : `"${Buffer.from(md5, "base64").toString("hex")}"`;
}

/** The client cannot abort these requests, but the caller need not wait for them. */
async function orAbort<T>(asked: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return asked;
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  return Promise.race([asked, aborted]).finally(() => signal.removeEventListener("abort", stop));
}

function failureOf(error: unknown): ClientFailure {
  // Resumable uploads fail with objects that are not errors.
  if (typeof error !== "object" || error === null) return { name: String(error), status: undefined };
  const { code, status: own, message = "" } = error as { code?: unknown; status?: unknown; message?: string };
  const found = [code, own].find((each) => /^\d{3}$/.test(String(each)));
  const status = found === undefined ? undefined : Number(found);
  return {
    name: status === undefined && typeof code === "string" ? code : "Error",
    status,
    isNoBucket: status === 404 && /bucket does not exist/i.test(message),
    advice: /default credentials|credential/i.test(status === undefined ? message : "")
      ? "no credentials were found; set them as for Google's tools (GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login), or add ?anonymous=true to the address of a public bucket"
      : undefined,
  };
}
