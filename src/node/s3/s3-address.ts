/**
 * Addresses of objects in S3: `s3://bucket/key?endpoint=https://…&region=…&anonymous=true`.
 *
 * The bucket and key as the AWS tools write them; what follows the `?` says how the bucket is reached. There is no
 * place for credentials: addresses are shown in messages.
 */
import { SuperchunkError } from "../../errors.ts";
import { isPlainPath } from "../../store/key.ts";
import { checkEndpoint } from "./s3-client.ts";
import type { S3StoreOptions } from "./s3-store.ts";

const PARAMETERS = ["endpoint", "region", "anonymous"];

/** Bucket, prefix and settings of an address. Throws `BAD_ARGUMENT`. */
export function parseS3Address(address: string): S3StoreOptions {
  const match = /^s3:\/\/([^/?]*)\/?([^?]*)(?:\?(.*))?$/is.exec(address);
  const [, bucket = "", key = "", query = ""] = match ?? [];
  const path = `s3://${bucket.replace(/^.*@/, "")}/${key}`;
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/i.test(bucket))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "an address of S3 is s3://bucket/key, without user and password; credentials are found as the AWS tools find them",
      { path, field: "bucket" },
    );
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (PARAMETERS.includes(name)) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `"${name}" is no setting of an S3 address; there are ${PARAMETERS.join(", ")}`,
      { path, field: name },
    );
  }
  const endpoint = parameters.get("endpoint") ?? undefined;
  if (endpoint !== undefined) checkEndpoint(endpoint, path);
  const prefix = key.replace(/\/+$/, "");
  if (!isPlainPath(prefix))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      'the key of an address is parts divided by "/", none of them empty, "." or "..", without backslash',
      { path, field: "key", found: prefix },
    );
  return {
    bucket,
    prefix,
    endpoint,
    region: parameters.get("region") ?? undefined,
    anonymous: ["true", "1", ""].includes(parameters.get("anonymous") ?? "false"),
  };
}
