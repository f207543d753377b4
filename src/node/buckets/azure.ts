/**
 * Azure Blob Storage by its client, which is loaded on first use.
 *
 * Knows the client's settings, verbs and failures. Needs the package `@azure/storage-blob`, and `@azure/identity` for credentials that are
 * not in the environment variables of Azure's tools.
 */
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { SuperchunkError } from "../../errors.ts";
import {
  type BucketAccess,
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

/** The members of the client that are used; the package need not be installed. */
interface Module {
  readonly BlobServiceClient: {
    new (url: string, credential?: object, options?: object): Service;
    fromConnectionString(text: string, options?: object): Service;
  };
  readonly StorageSharedKeyCredential: new (account: string, key: string) => object;
}
interface Service {
  readonly url: string;
  getContainerClient(name: string): ContainerClient;
}
interface ContainerClient {
  getBlockBlobClient(key: string): Blob;
  listBlobsByHierarchy(delimiter: string, options: object): { byPage(settings: object): AsyncIterator<Page> };
}
interface Page {
  readonly continuationToken?: string;
  readonly segment: {
    readonly blobItems: readonly { name: string; properties: { contentLength?: number } }[];
    readonly blobPrefixes?: readonly { name: string }[];
  };
}
interface Properties {
  readonly etag?: string;
  readonly lastModified?: Date;
  readonly contentLength?: number;
  readonly contentRange?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}
interface Blob {
  download(
    offset: number,
    count: number | undefined,
    options: object,
  ): Promise<Properties & { readonly readableStreamBody?: Readable }>;
  getProperties(options: object): Promise<Properties>;
  upload(bytes: Uint8Array, length: number, options: object): Promise<Properties>;
  stageBlock(id: string, bytes: Uint8Array, length: number, options: object): Promise<unknown>;
  commitBlockList(ids: readonly string[], options: object): Promise<Properties>;
  delete(options: object): Promise<unknown>;
}

const PACKAGE = "@azure/storage-blob";
const VARIABLES =
  "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN";

function variable(name: string): string | undefined {
  return process.env[`AZURE_STORAGE_${name}`] || undefined;
}

/** The account's address by the environment variables of Azure's tools. */
export function azureEndpoint(): string | undefined {
  const account = variable("ACCOUNT");
  return (
    variable("ENDPOINT") ??
    (account === undefined ? undefined : `https://${encodeURIComponent(account)}.blob.core.windows.net`)
  );
}

/** The blobs of a container of Azure. */
export function azureProvider(access: BucketAccess): Provider {
  return {
    scheme: "az",
    holder: "container",
    endpointAt: "(AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_ENDPOINT, or ?endpoint= of the address)",
    server: () => access.endpoint ?? azureEndpoint() ?? "Azure",
    failureOf,
    async connect() {
      const module = await loadPackage<Module>(PACKAGE, "addresses that start with az://");
      return verbs((await serviceOf(module, access)).getContainerClient(access.bucket));
    },
  };
}

/** The account, with the credentials that are found. Throws `BAD_ARGUMENT` if no account is named. */
async function serviceOf(module: Module, { endpoint, anonymous }: BucketAccess): Promise<Service> {
  const { BlobServiceClient, StorageSharedKeyCredential } = module;
  const options = { retryOptions: { maxTries: 5 } };
  const whole = variable("CONNECTION_STRING");
  if (whole !== undefined && endpoint === undefined && anonymous !== true) {
    try {
      return BlobServiceClient.fromConnectionString(whole, options);
    } catch {
      // The client's message may repeat the key.
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        "AZURE_STORAGE_CONNECTION_STRING is not a connection string",
        { field: "AZURE_STORAGE_CONNECTION_STRING" },
      );
    }
  }
  const url = endpoint ?? azureEndpoint();
  if (url === undefined)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the account of az:// is not known; set ${VARIABLES}, or add ?endpoint=https://ACCOUNT.blob.core.windows.net to the address`,
      { field: "endpoint" },
    );
  const [account, key, signature] = [variable("ACCOUNT"), variable("KEY"), variable("SAS_TOKEN")];
  if (anonymous === true) return new BlobServiceClient(url, undefined, options);
  if (account !== undefined && key !== undefined)
    return new BlobServiceClient(url, new StorageSharedKeyCredential(account, key), options);
  if (signature !== undefined)
    return new BlobServiceClient(`${url}?${signature.replace(/^\?/, "")}`, undefined, options);
  const { DefaultAzureCredential } = await loadPackage<{ DefaultAzureCredential: new () => object }>(
    "@azure/identity",
    "credentials of Azure that are not in the environment",
    `; or set ${VARIABLES}, or add ?anonymous=true to the address of a public container`,
  );
  return new BlobServiceClient(url, new DefaultAzureCredential(), options);
}

function verbs(container: ContainerClient): BucketClient {
  const blobAt = (key: string): Blob => container.getBlockBlobClient(key);
  return {
    async get(key, range, call) {
      const blob = blobAt(key);
      let offset = 0;
      let count: number | undefined;
      let conditions = {};
      if (range !== undefined && "suffixLength" in range) {
        // Azure has no ranges from the end.
        const { contentLength = 0, etag } = await blob.getProperties(call);
        offset = Math.max(0, contentLength - range.suffixLength);
        if (contentLength > 0) count = contentLength - offset;
        conditions = { conditions: { ifMatch: etag } };
      } else if (range !== undefined) {
        offset = range.offset;
        count = range.length;
      }
      const answer = await blob.download(offset, count, { ...call, ...conditions });
      const { etag, lastModified, contentLength, contentRange, readableStreamBody } = answer;
      const size = totalOf(contentRange) ?? (range === undefined ? contentLength : undefined);
      return {
        version: etag,
        info: describeObject(size, etag, lastModified),
        length: contentLength,
        body: async () =>
          readableStreamBody === undefined
            ? new Uint8Array(0)
            : new Uint8Array(await buffer(readableStreamBody)),
      };
    },
    async stat(key, call) {
      const { contentLength, etag, lastModified, metadata } = await blobAt(key).getProperties(call);
      const info = describeObject(contentLength, etag, lastModified);
      return info && { ...info, mark: metadata?.[MARK] };
    },
    async list(prefix, continuationToken, call) {
      const pages = container
        .listBlobsByHierarchy("/", { ...call, prefix })
        .byPage(continuationToken === undefined ? {} : { continuationToken });
      const { value: page } = await pages.next();
      const { segment, continuationToken: token } = page as Page;
      return {
        objects: segment.blobItems.map(({ name, properties }) => ({
          key: name,
          size: properties.contentLength,
        })),
        prefixes: (segment.blobPrefixes ?? []).map(({ name }) => name),
        token: token || undefined,
      };
    },
    async put(key, bytes, putting, call) {
      return (await blobAt(key).upload(bytes, bytes.length, settings(putting, call))).etag;
    },
    async upload(key, putting, call) {
      const blob = blobAt(key);
      const ids: string[] = [];
      return {
        async part(number, bytes) {
          // Ids are of one length; the mark keeps the parts of two writers apart.
          const id = Buffer.from(`${putting.mark}-${String(number).padStart(8, "0")}`).toString("base64");
          ids[number - 1] = id;
          await blob.stageBlock(id, bytes, bytes.length, call);
        },
        finish: async () => (await blob.commitBlockList(ids, settings(putting, call))).etag,
        // Azure removes parts that belong to no blob after a week.
        abort: async () => {},
      };
    },
    async delete(key, ifMatch, call) {
      await blobAt(key).delete({ ...call, conditions: { ifMatch } });
    },
    close: () => {},
  };
}

/** Options of a put. */
function settings({ mark, ifAbsent, ifVersion }: Putting, call: Call): object {
  const conditions =
    ifVersion !== undefined ? { ifMatch: ifVersion } : ifAbsent === true ? { ifNoneMatch: "*" } : {};
  return { ...call, metadata: { [MARK]: mark }, conditions };
}

function failureOf(error: unknown): ClientFailure {
  if (!(error instanceof Error)) return { name: String(error), status: undefined };
  const { name, code, statusCode } = error as { name: string; code?: unknown; statusCode?: unknown };
  const isOfIdentity = /CredentialUnavailable|AuthenticationRequired|AggregateAuthentication/.test(name);
  return {
    name: typeof code === "string" ? code : name,
    status: typeof statusCode === "number" ? statusCode : undefined,
    isNoBucket: code === "ContainerNotFound",
    advice: isOfIdentity
      ? `no credentials were found; set ${VARIABLES}, sign in with az login, or add ?anonymous=true to the address of a public container`
      : undefined,
  };
}
