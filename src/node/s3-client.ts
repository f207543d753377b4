/**
 * The client of S3: loaded when it is first used, set up for any S3-compatible server.
 *
 * Knows the SDK's settings and how its failures become ours; must not know keys and ranges.
 */
import type { S3Client } from "@aws-sdk/client-s3";
import { SuperchunkError } from "../errors.ts";
import type { S3ClientOptions } from "./s3-options.ts";

/** The SDK's module. */
export type S3Module = typeof import("@aws-sdk/client-s3");

/** Milliseconds for a connection, and without a byte. */
const CONNECT_MS = 10_000;
const STALL_MS = 60_000;

/** Loads the SDK. Throws `UNSUPPORTED` where it is not installed. */
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

/** What the environment says of S3, by the variables of the AWS tools. */
export function environmentOfS3(): Pick<S3ClientOptions, "endpoint" | "region"> {
  const { env } = process;
  return {
    endpoint: env["AWS_ENDPOINT_URL_S3"] ?? env["AWS_ENDPOINT_URL"],
    region: env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"],
  };
}

/** A client for the options. */
export function makeClient({ S3Client }: S3Module, options: S3ClientOptions): S3Client {
  const { endpoint, region, anonymous = false, credentials, maxAttempts = 5 } = options;
  const found = environmentOfS3();
  const hasEndpoint = (endpoint ?? found.endpoint) !== undefined;
  return new S3Client({
    ...(endpoint === undefined ? {} : { endpoint }),
    // A server of one's own has no regions, and the SDK wants one.
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
    // Servers other than Amazon's refuse the newer checksums, or send bodies without.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: STALL_MS, socketTimeout: STALL_MS },
  });
}

/** What is known of a failure of the SDK. */
export interface S3Failure {
  /** The server's or the SDK's name of it: `NoSuchKey`, `AccessDenied`, `TimeoutError`. */
  readonly name: string;
  /** Undefined where there was no answer. */
  readonly status: number | undefined;
}

/** Name and status of a failure. */
export function describeS3Failure(error: unknown): S3Failure {
  if (typeof error !== "object" || error === null) return { name: String(error), status: undefined };
  const { name, code, $metadata } = error as {
    name?: unknown;
    code?: unknown;
    $metadata?: { httpStatusCode?: unknown };
  };
  const status = $metadata?.httpStatusCode;
  const told =
    typeof name === "string" && name !== "Error" ? name : typeof code === "string" ? code : "Error";
  return { name: told, status: typeof status === "number" ? status : undefined };
}

/** The failure as ours: its name and status, and never what the SDK says of the request, which is signed. */
export function toS3Error(error: unknown, path: string): SuperchunkError {
  const { name, status } = describeS3Failure(error);
  const told = status === undefined ? name : `${name}, status ${status}`;
  const found = status ?? name;
  if (name === "NoSuchBucket")
    return new SuperchunkError("NOT_FOUND", "there is no such bucket", { path, found: name });
  const advice = adviceFor(name, status);
  return new SuperchunkError("IO", `${advice} (${told})`, { path, found });
}

function adviceFor(name: string, status: number | undefined): string {
  if (/^CredentialsProviderError|TokenProviderError$/.test(name))
    return "no credentials were found; set them as for the AWS tools, or add ?anonymous=true to the address of a public bucket";
  if (status === 401 || status === 403) return "access denied; check the credentials and what they may do";
  if (status === 301 || status === 307 || name === "PermanentRedirect")
    return "the bucket is in another region; set AWS_REGION, or add ?region= to the address";
  if (status === undefined) return "the server did not answer";
  return "the server refused";
}
