/**
 * S3 by its SDK, which is loaded on first use, and configured for any S3-compatible server.
 *
 * Knows the SDK's settings, verbs and failures. Needs the package `@aws-sdk/client-s3`. Credentials are never part of a message.
 */
import type { S3Client } from "@aws-sdk/client-s3";
import { SuperchunkError } from "../../errors.ts";
import { formatRange } from "../../store/http-response.ts";
import {
  type BucketClient,
  type Call,
  type ClientFailure,
  describeObject,
  loadPackage,
  MARK,
  type Provider,
  type Putting,
  totalOf,
} from "./client.ts";

type S3Module = typeof import("@aws-sdk/client-s3");

/** Timeouts for a connection, and for a pause in the data, in milliseconds. */
const CONNECT_MS = 10_000;
const STALL_MS = 60_000;

/** Access to a bucket. Missing settings are found as the AWS tools find them: environment, profiles, roles. */
export interface S3ClientOptions {
  /** Address of an S3-compatible server; default AWS, or `AWS_ENDPOINT_URL_S3`. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  /** Does not sign requests: for public buckets. */
  readonly anonymous?: boolean | undefined;
  /** Used instead of those that are found. Never shown in any message. */
  readonly credentials?:
    | { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string }
    | undefined;
  /** Attempts of one request; default 5. */
  readonly maxAttempts?: number | undefined;
}

/** S3 settings in the environment variables of the AWS tools. */
export function environmentOfS3(): Pick<S3ClientOptions, "endpoint" | "region"> {
  const { env } = process;
  // The AWS tools ignore empty variables too.
  return {
    endpoint: env["AWS_ENDPOINT_URL_S3"] || env["AWS_ENDPOINT_URL"] || undefined,
    region: env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || undefined,
  };
}

/**
 * Throws `BAD_ARGUMENT` for an endpoint that is not the address of a server. The message does not repeat it, because it may
 * contain a password.
 */
export function checkEndpoint(endpoint: string, path: string | undefined, variables = ""): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isServer = url?.protocol === "http:" || url?.protocol === "https:";
  if (isServer && url.username === "" && url.password === "") return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the endpoint${variables} is the http(s):// address of a server, without user and password`,
    { ...(path === undefined ? {} : { path }), field: "endpoint" },
  );
}

/** The objects of a bucket in S3. */
export function s3Provider(options: S3ClientOptions & { readonly bucket: string }): Provider {
  const endpoint = () => options.endpoint ?? environmentOfS3().endpoint;
  return {
    scheme: "s3",
    holder: "bucket",
    endpointAt: "(AWS_ENDPOINT_URL_S3, or ?endpoint= of the address)",
    server: () => endpoint() ?? "Amazon S3",
    mayIgnoreConditions: () => endpoint() !== undefined,
    failureOf,
    async connect() {
      const sdk = await loadPackage<S3Module>("@aws-sdk/client-s3", "addresses that start with s3://");
      return verbs(sdk, makeClient(sdk, options), options.bucket);
    },
  };
}

/** Creates a client. Throws `BAD_ARGUMENT` for an invalid endpoint. */
function makeClient({ S3Client }: S3Module, options: S3ClientOptions): S3Client {
  const { endpoint, region, anonymous = false, credentials, maxAttempts = 5 } = options;
  const found = environmentOfS3();
  const server = endpoint ?? found.endpoint;
  const hasEndpoint = server !== undefined;
  if (hasEndpoint) checkEndpoint(server, undefined, " (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)");
  return new S3Client({
    ...(endpoint === undefined ? {} : { endpoint }),
    // Custom servers have no regions, but the SDK needs one.
    ...(region !== undefined
      ? { region }
      : hasEndpoint || anonymous
        ? { region: found.region ?? "us-east-1" }
        : {}),
    ...(anonymous
      ? {
          credentials: { accessKeyId: "", secretAccessKey: "" },
          signer: { sign: async (request: never) => request },
        }
      : credentials === undefined
        ? {}
        : { credentials }),
    forcePathStyle: hasEndpoint,
    maxAttempts,
    followRegionRedirects: true,
    // Servers other than Amazon's refuse the newer checksums, or send bodies without them.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: STALL_MS, socketTimeout: STALL_MS },
  });
}

function verbs(sdk: S3Module, client: S3Client, Bucket: string): BucketClient {
  return {
    async get(Key, range, call) {
      const Range = range === undefined ? undefined : formatRange(range);
      const query = { Bucket, Key, ...(Range === undefined ? {} : { Range }) };
      const { Body, ETag, ContentLength, ContentRange, LastModified } = await client.send(
        new sdk.GetObjectCommand(query),
        call,
      );
      const size = Range === undefined ? ContentLength : totalOf(ContentRange);
      return {
        version: ETag,
        info: describeObject(size, ETag, LastModified),
        length: ContentLength,
        // A copy, because the SDK's array may be a view of a larger buffer.
        body: async () => new Uint8Array((await Body?.transformToByteArray()) ?? []),
      };
    },
    async stat(Key, call) {
      const answer = await client.send(new sdk.HeadObjectCommand({ Bucket, Key }), call);
      const info = describeObject(answer.ContentLength, answer.ETag, answer.LastModified);
      if (info !== undefined) return { ...info, mark: answer.Metadata?.[MARK] };
      throw new SuperchunkError("UNSUPPORTED", "the server does not report the size of the object", {
        path: `s3://${Bucket}/${Key}`,
      });
    },
    async list(Prefix, token, call) {
      const next = token === undefined ? {} : { ContinuationToken: token };
      const page = await client.send(
        new sdk.ListObjectsV2Command({ Bucket, Prefix, Delimiter: "/", ...next }),
        call,
      );
      return {
        objects: (page.Contents ?? []).map(({ Key: key = "", Size: size }) => ({ key, size })),
        prefixes: (page.CommonPrefixes ?? []).map(({ Prefix: prefix = "" }) => prefix),
        token: page.IsTruncated === true ? page.NextContinuationToken : undefined,
      };
    },
    async put(Key, Body, putting, call) {
      const place = { Bucket, Key, ...conditions(putting), Metadata: { [MARK]: putting.mark } };
      const command = new sdk.PutObjectCommand({ ...place, Body, ContentLength: Body.length });
      return (await client.send(command, call)).ETag;
    },
    async upload(Key, putting, call) {
      const begun = { Bucket, Key, Metadata: { [MARK]: putting.mark } };
      const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand(begun), call);
      return upload({ sdk, client }, { Bucket, Key, UploadId }, putting, call);
    },
    async delete(Key, ifVersion, call) {
      await client.send(new sdk.DeleteObjectCommand({ Bucket, Key, ...conditions({ ifVersion }) }), call);
    },
    close: () => client.destroy(),
  };
}

function upload(
  { sdk, client }: { readonly sdk: S3Module; readonly client: S3Client },
  place: { readonly Bucket: string; readonly Key: string; readonly UploadId: string | undefined },
  putting: Putting,
  call: Call,
): Awaited<ReturnType<BucketClient["upload"]>> {
  const done: { PartNumber: number; ETag: string | undefined }[] = [];
  return {
    async part(PartNumber, Body) {
      const part = { ...place, PartNumber, Body, ContentLength: Body.length };
      const { ETag } = await client.send(new sdk.UploadPartCommand(part), call);
      done.push({ PartNumber, ETag });
    },
    async finish() {
      const Parts = done.sort((a, b) => a.PartNumber - b.PartNumber);
      const command = { ...place, ...conditions(putting), MultipartUpload: { Parts } };
      return (await client.send(new sdk.CompleteMultipartUploadCommand(command), call)).ETag;
    },
    async abort() {
      // The server would keep, and charge for, parts of an upload that is never completed.
      await client.send(new sdk.AbortMultipartUploadCommand(place));
    },
  };
}

function conditions({ ifAbsent, ifVersion }: Omit<Putting, "mark">): {
  IfNoneMatch?: string;
  IfMatch?: string;
} {
  if (ifVersion !== undefined) return { IfMatch: ifVersion };
  return ifAbsent === true ? { IfNoneMatch: "*" } : {};
}

function failureOf(error: unknown): ClientFailure {
  if (typeof error !== "object" || error === null) return { name: String(error), status: undefined };
  const {
    name: given,
    code,
    $metadata,
  } = error as { name?: unknown; code?: unknown; $metadata?: { httpStatusCode?: unknown } };
  const found = $metadata?.httpStatusCode;
  const status = typeof found === "number" ? found : undefined;
  const name =
    typeof given === "string" && given !== "Error" ? given : typeof code === "string" ? code : "Error";
  return { name, status, isNoBucket: name === "NoSuchBucket", advice: adviceFor(error, name, status) };
}

function adviceFor(error: object, name: string, status: number | undefined): string | undefined {
  // The SDK also looks for regions in profiles, and has no error name for a missing one.
  if (error instanceof Error && /^region is missing/i.test(error.message))
    return "no region is set; set AWS_REGION, or add ?region= to the address";
  if (/^CredentialsProviderError|TokenProviderError$/.test(name))
    return "no credentials were found; set them as for the AWS tools, or add ?anonymous=true to the address of a public bucket";
  if (status === 301 || status === 307 || name === "PermanentRedirect")
    return "the bucket is in another region; set AWS_REGION, or add ?region= to the address";
  return undefined;
}
