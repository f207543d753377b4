/** Containers of references and places of arrays in buckets and on web servers. */
import {
  type ContainerCredentials,
  type ContainerOptions,
  openWebContainer,
} from "../../references/containers/container-reader.ts";
import type { Container } from "../../references/containers/containers.ts";
import type { ReadableStore } from "../../store/types.ts";
import { azureEndpoint, azureProvider } from "./azure.ts";
import { BucketStore, S3Store } from "./bucket-store.ts";
import { gcsEndpoint, gcsProvider } from "./gcs.ts";

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
