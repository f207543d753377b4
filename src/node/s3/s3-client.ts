/**
 * The S3 client: loaded on first use, and configured for any S3-compatible server.
 *
 * Knows the SDK's settings and the conversion of its failures; must not know keys and ranges.
 */
import type { S3Client } from "@aws-sdk/client-s3";
import { SuperchunkError } from "../../errors.ts";

export type S3Module = typeof import("@aws-sdk/client-s3");

/** Timeouts for a connection, and for a pause in the data, in milliseconds. */
const CONNECT_MS = 10_000;
const STALL_MS = 60_000;

/** Loads the SDK. Throws `UNSUPPORTED` if it is not installed. */
export async function loadS3(): Promise<S3Module> {
  try {
    return await import("@aws-sdk/client-s3");
  } catch (cause) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      'addresses that start with s3:// need the package "@aws-sdk/client-s3", which is not installed: npm install @aws-sdk/client-s3',
      { field: "@aws-sdk/client-s3", cause },
    );
  }
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
export function checkEndpoint(endpoint: string, path: string | undefined): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isServer = url?.protocol === "http:" || url?.protocol === "https:";
  if (isServer && url.username === "" && url.password === "") return;
  const where = path === undefined ? " (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)" : "";
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the endpoint${where} is the http(s):// address of a server, without user and password`,
    { ...(path === undefined ? {} : { path }), field: "endpoint" },
  );
}

/** Creates a client. Throws `BAD_ARGUMENT` for an invalid endpoint. */
export function makeClient({ S3Client }: S3Module, options: S3ClientOptions): S3Client {
  const { endpoint, region, anonymous = false, credentials, maxAttempts = 5 } = options;
  const found = environmentOfS3();
  const server = endpoint ?? found.endpoint;
  const hasEndpoint = server !== undefined;
  if (hasEndpoint) checkEndpoint(server, undefined);
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

interface S3Failure {
  /** The server's or the SDK's name for it: `NoSuchKey`, `AccessDenied`, `TimeoutError`. */
  readonly name: string;
  /** Undefined if there was no answer. */
  readonly status: number | undefined;
}

export function describeS3Failure(error: unknown): S3Failure {
  if (typeof error !== "object" || error === null) return { name: String(error), status: undefined };
  const { name, code, $metadata } = error as {
    name?: unknown;
    code?: unknown;
    $metadata?: { httpStatusCode?: unknown };
  };
  const status = $metadata?.httpStatusCode;
  const errorName =
    typeof name === "string" && name !== "Error" ? name : typeof code === "string" ? code : "Error";
  return { name: errorName, status: typeof status === "number" ? status : undefined };
}

/** Converts the failure to ours with its name and status, but without the SDK's text about the request, which is signed. */
export function toS3Error(error: unknown, path: string, options: S3ClientOptions): SuperchunkError {
  const { name, status } = describeS3Failure(error);
  const words = [...(name === "Error" ? [] : [name]), ...(status === undefined ? [] : [`status ${status}`])];
  const found = status ?? name;
  if (name === "NoSuchBucket") return noSuchBucket(path, options);
  const advice = isWithoutRegion(error)
    ? "no region is set; set AWS_REGION, or add ?region= to the address"
    : adviceFor(name, status, options);
  return new SuperchunkError("IO", words.length === 0 ? advice : `${advice} (${words.join(", ")})`, {
    path,
    found,
  });
}

/** The error for a missing bucket, or for a server that is not S3. */
export function noSuchBucket(path: string, options: S3ClientOptions): SuperchunkError {
  return new SuperchunkError(
    "NOT_FOUND",
    `no such bucket at ${serverOf(options)}; check its name, and the endpoint ${ENDPOINT}`,
    { path, found: "NoSuchBucket" },
  );
}

/** Where an endpoint can be set. */
const ENDPOINT = "(AWS_ENDPOINT_URL_S3, or ?endpoint= of the address)";

/** Name of the server in messages. */
function serverOf({ endpoint }: S3ClientOptions): string {
  return endpoint ?? environmentOfS3().endpoint ?? "Amazon S3";
}

/** The SDK also looks for regions in profiles, and has no error name for a missing one. */
function isWithoutRegion(error: unknown): boolean {
  return error instanceof Error && /^region is missing/i.test(error.message);
}

function adviceFor(name: string, status: number | undefined, options: S3ClientOptions): string {
  if (/^CredentialsProviderError|TokenProviderError$/.test(name))
    return "no credentials were found; set them as for the AWS tools, or add ?anonymous=true to the address of a public bucket";
  if (status === 401 || status === 403)
    return `access denied by ${serverOf(options)}; check the credentials and what they may do`;
  if (status === 301 || status === 307 || name === "PermanentRedirect")
    return "the bucket is in another region; set AWS_REGION, or add ?region= to the address";
  if (status === undefined) return `${serverOf(options)} did not answer; check the endpoint ${ENDPOINT}`;
  return `${serverOf(options)} refused`;
}

/** Limits the number of requests at a time; waiting ones run in order. */
export class Turns {
  readonly #limit: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#limit) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve)); // the slot is handed over
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}

/** Access to S3. Types only, separate from those of the SDK, which need not be installed. */

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
