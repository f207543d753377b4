/**
 * Addresses of objects in buckets: `s3://bucket/key?endpoint=https://…&region=…&anonymous=true`, `gs://…` and `az://container/blob`.
 *
 * Bucket and key are written as in the tools of the provider; the part after `?` sets the access. Credentials are not allowed, because
 * messages show addresses. Also opens the places of references that are in buckets or on web servers.
 */
import { SuperchunkError } from "../../errors.ts";
import {
  type ContainerCredentials,
  type ContainerOptions,
  openWebContainer,
} from "../../references/containers/container-reader.ts";
import type { Container } from "../../references/containers/containers.ts";
import { isPlainPath } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { azureEndpoint, azureProvider } from "./azure.ts";
import { BucketStore, S3Store } from "./bucket-store.ts";
import { gcsEndpoint, gcsProvider } from "./gcs.ts";
import { checkEndpoint } from "./s3.ts";

/** A parsed address. */
interface BucketAddress {
  readonly scheme: "s3" | "gs" | "az";
  readonly bucket: string;
  readonly prefix: string;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  readonly anonymous: boolean;
}

/** What is particular to the addresses of a scheme. */
const SCHEMES = {
  s3: {
    name: "S3",
    tools: "the AWS tools",
    form: "s3://bucket/key, and the name of a bucket has 3 to 63 letters, digits, dots and hyphens",
    bucket: /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/i,
    settings: ["endpoint", "region", "anonymous"],
  },
  gs: {
    name: "Google Cloud Storage",
    tools: "Google's tools",
    form: "gs://bucket/key, and the name of a bucket has 3 to 222 letters, digits, dots, hyphens and underscores",
    bucket: /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/i,
    settings: ["endpoint", "anonymous"],
  },
  az: {
    name: "Azure",
    tools: "Azure's tools (AZURE_STORAGE_…)",
    form: "az://container/blob, and the name of a container has 3 to 63 letters, digits and hyphens",
    bucket: /^(?:\$web|\$root|[a-z0-9][a-z0-9-]{1,61}[a-z0-9])$/i,
    settings: ["endpoint", "anonymous"],
  },
} as const;

/** Bucket, prefix and settings of an address. Throws `BAD_ARGUMENT`. */
export function parseBucketAddress(address: string): BucketAddress {
  const match = /^(s3|gs|az):\/\/([^/?]*)\/?([^?]*)(?:\?(.*))?$/is.exec(address);
  const [, typed = "s3", bucket = "", key = "", query = ""] = match ?? [];
  const scheme = typed.toLowerCase() as keyof typeof SCHEMES;
  const { name, tools, form, bucket: valid, settings } = SCHEMES[scheme];
  const path = `${scheme}://${bucket.replace(/^.*@/, "")}/${key}`;
  if (!valid.test(bucket))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      bucket.includes("@")
        ? `an address of ${name} has no user and no password: credentials are found as ${tools} find them`
        : `an address of ${name} is ${form}`,
      { path, field: "bucket" },
    );
  const parameters = new URLSearchParams(query);
  for (const each of parameters.keys()) {
    if ((settings as readonly string[]).includes(each)) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `unknown ${name} setting "${each}"; expected one of ${settings.join(", ")}`,
      { path, field: each },
    );
  }
  const endpoint = parameters.get("endpoint") ?? undefined;
  if (endpoint !== undefined) checkEndpoint(endpoint, path);
  const prefix = key.replace(/\/+$/, "");
  if (!isPlainPath(prefix))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      'the key of an address has parts separated by "/", none of them empty, "." or "..", without backslash',
      { path, field: "key", found: prefix },
    );
  return {
    scheme,
    bucket,
    prefix,
    endpoint,
    region: parameters.get("region") ?? undefined,
    anonymous: ["true", "1", ""].includes(parameters.get("anonymous") ?? "false"),
  };
}

/** The store of an address, below another prefix if one is given. */
export function bucketStore(address: BucketAddress, prefix: string = address.prefix): BucketStore {
  const { scheme, ...own } = address;
  const place = { ...own, prefix };
  if (scheme === "s3") return new S3Store(place);
  return new BucketStore(scheme === "gs" ? gcsProvider(address) : azureProvider(address), place);
}

/** Opens a container that is not a folder: with the provider's client, or over HTTP. */
export function openRemoteContainer(
  container: Container,
  credentials: ContainerCredentials | undefined,
  options: ContainerOptions,
): ReadableStore {
  const { store, prefix, location, region, endpoint, anonymous } = container;
  const place = location ?? prefix;
  const [, bucket = "", rest = ""] = /^[a-z0-9]+:\/\/([^/]+)\/(.*)$/.exec(place) ?? [];
  const below = rest.replace(/\/+$/, "");
  // Credentials that the client finds belong to the provider, and not to a server that a set names.
  const isSigned = anonymous !== true && endpoint === undefined && credentials === undefined;
  if ((store === "gcs" || store === "azure") && isSigned)
    return new BucketStore((store === "gcs" ? gcsProvider : azureProvider)({ bucket }), {
      bucket,
      prefix: below,
    });
  if (store !== "s3") {
    const found =
      endpoint ?? (store === "gcs" ? gcsEndpoint() : store === "azure" ? azureEndpoint() : undefined);
    const own = found === undefined ? container : { ...container, endpoint: found };
    // The token belongs to the account in the environment, not to a server that a set names.
    const isOwn = store === "azure" && endpoint === undefined;
    const sasToken = (isOwn ? process.env["AZURE_STORAGE_SAS_TOKEN"] : undefined) || undefined;
    return openWebContainer(own, credentials ?? (sasToken === undefined ? undefined : { sasToken }), options);
  }
  const { accessKeyId, secretAccessKey, sessionToken } = credentials ?? {};
  return new S3Store({
    bucket,
    prefix: below,
    region,
    endpoint,
    anonymous,
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : {
          credentials: {
            accessKeyId,
            secretAccessKey,
            ...(sessionToken === undefined ? {} : { sessionToken }),
          },
        }),
  });
}
