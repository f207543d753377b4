/** The lines that open references in Python and JavaScript, with containers and access rights. */

import { resolve } from "node:path";
import type { Container } from "../references/containers/containers.ts";
import { parseBucketAddress } from "./buckets/address.ts";
import { environmentOfS3 } from "./buckets/s3.ts";
import { settingsInBucket, toIcechunkPrefix } from "./icechunk/icechunk.ts";
import { isBucketAddress } from "./locate.ts";

/** Lines to paste, by language. */
export interface OpeningLines {
  readonly Python: string;
  readonly JavaScript: string;
}

/** The facts that decide how a result is opened. */
export interface WrittenForm {
  /** Default `icechunk`. */
  readonly to: "icechunk" | "kerchunk" | "kerchunk-parquet";
  /** kerchunk JSON: Zarr version of the documents (default 3). */
  readonly zarrFormat?: 2 | 3 | undefined;
  readonly rectilinear?: boolean | undefined;
  /** True if it contains groups. */
  readonly isTree: boolean;
}

/** The lines that open a written result. */
export function openingLines(
  destination: string,
  form: WrittenForm,
  containers: readonly Container[],
): OpeningLines {
  const isRemote = /^[a-z0-9+.-]+:\/\//i.test(destination);
  const place = isRemote ? destination : resolve(destination);
  const lines =
    form.to === "icechunk"
      ? {
          Python: icechunkPython(place, containers, form.isTree),
          JavaScript: script(place, `\n  form: "icechunk",\n  containers: ${JSON.stringify(containers)},\n`),
        }
      : {
          Python: kerchunkPython(place, form, containers),
          JavaScript: script(place, ` authorize: [${containers.map(({ name }) => text(name)).join(", ")}] `),
        };
  if (form.rectilinear !== true) return lines;
  const enabled = 'import zarr\nzarr.config.set({"array.rectilinear_chunks": True})';
  return { ...lines, Python: `${enabled}\n${lines.Python}` };
}

/** For users of xarray's engine, which reads only documents of Zarr v2. */
const FOR_ENGINE = '  # engine="kerchunk" reads sets written with --zarr-format 2';
/** Packages that fsspec needs for remote files. */
const REACHING: Readonly<Record<string, readonly string[]>> = {
  s3: ["s3fs"],
  gs: ["gcsfs"],
  az: ["adlfs"],
  https: ["aiohttp"],
};

function kerchunkPython(
  place: string,
  { to, zarrFormat, isTree }: WrittenForm,
  containers: readonly Container[],
): string {
  const [first] = containers;
  const protocol = first === undefined || first.store === "local" ? "file" : first.prefix.split(":")[0];
  const format = to === "kerchunk-parquet" || zarrFormat === 2 ? 2 : 3;
  // zarr-python reads remote stores asynchronously, which fsspec must be told.
  const settings = first === undefined ? "" : fsspecOptions(protocol, first);
  const reached = protocol === "file" ? "" : ['"asynchronous": True', settings].filter(Boolean).join(", ");
  const options = [
    ...fsspecSet(place),
    `"remote_protocol": "${protocol}"`,
    ...(reached === "" ? [] : [`"remote_options": {${reached}}`]),
  ];
  const needs = [
    "zarr",
    "fsspec",
    ...(to === "kerchunk-parquet" ? ["fastparquet"] : []),
    ...(REACHING[protocol?.replace(/^http$/, "https") ?? ""] ?? []),
  ];
  return [
    `import xarray  # which needs ${needs.join(", ")}`,
    `options = {${options.join(", ")}}`,
    isTree ? "tree = xarray.open_datatree(" : `dataset = xarray.open_zarr(${format === 3 ? FOR_ENGINE : ""}`,
    `    "reference://", ${isTree ? 'engine="zarr", ' : ""}storage_options=options, consolidated=False, zarr_format=${format}`,
    ")",
  ].join("\n");
}

/** The set itself, which may be in a bucket; fsspec does not understand settings after an address. */
function fsspecSet(place: string): string[] {
  if (!isBucketAddress(place)) return [`"fo": ${text(place)}`];
  const { scheme, bucket, prefix, endpoint, anonymous } = parseBucketAddress(place);
  const reached = fsspecOptions(scheme, {
    anonymous,
    endpoint: endpoint ?? (scheme === "s3" ? environmentOfS3().endpoint : undefined),
  });
  return [
    `"fo": ${text(`${scheme}://${bucket}/${prefix}`)}`,
    `"target_protocol": "${scheme}"`,
    ...(reached === "" ? [] : [`"target_options": {${reached}}`]),
  ];
}

/** Settings of s3fs, gcsfs and adlfs; none for other protocols. */
function fsspecOptions(
  protocol: string | undefined,
  { anonymous, endpoint }: Pick<Container, "anonymous"> & { readonly endpoint?: string | undefined },
): string {
  if (protocol === undefined || !["s3", "gs", "az"].includes(protocol)) return "";
  const account = protocol === "az" ? /^https:\/\/([^./]+)\.blob\./.exec(endpoint ?? "")?.[1] : undefined;
  return [
    ...(anonymous === true ? [protocol === "gs" ? '"token": "anon"' : '"anon": True'] : []),
    ...(account === undefined ? [] : [`"account_name": ${text(account)}`]),
    ...(endpoint === undefined || protocol === "az" ? [] : [`"endpoint_url": ${text(endpoint)}`]),
  ].join(", ");
}

/** The lines of JavaScript; `options` are those of openReferences. */
function script(place: string, options: string): string {
  return [
    'import { openReferences } from "superchunk/node";',
    'import * as zarr from "zarrita";',
    `const store = await openReferences(${text(place)}, {${options}});`,
    'const group = await zarr.open(store, { kind: "group" });',
  ].join("\n");
}

function icechunkPython(place: string, containers: readonly Container[], isTree: boolean): string {
  const access = containers.map((each) => `${text(toIcechunkPrefix(each))}: ${pythonAccess(each)}`);
  const map = `{${access.join(", ")}}`;
  const storage = pythonStorage(place);
  const needsWrapping = containers.some(({ store }) => store !== "local" && store !== "http");
  return [
    `import icechunk, ${storage.includes("os.environ") ? "os, " : ""}xarray`,
    "repository = icechunk.Repository.open(",
    `    ${storage},`,
    `    authorize_virtual_chunk_access=${needsWrapping ? `icechunk.containers_credentials(${map})` : map},`,
    ")",
    isTree
      ? 'tree = xarray.open_datatree(repository.readonly_session("main").store, engine="zarr", consolidated=False)'
      : 'dataset = xarray.open_zarr(repository.readonly_session("main").store, consolidated=False)',
  ].join("\n");
}

function pythonStorage(place: string): string {
  if (!isBucketAddress(place)) return `icechunk.local_filesystem_storage(${text(place)})`;
  const { scheme, bucket, prefix, region, endpoint, anonymous } = parseBucketAddress(place);
  if (scheme !== "s3") {
    const { account, secret, config } = settingsInBucket(scheme, { endpoint, anonymous });
    const name = secret === "AZURE_STORAGE_KEY" ? "access_key" : "sas_token";
    const access = secret === undefined ? "from_env=True" : `${name}=os.environ[${text(secret)}]`;
    const holder = scheme === "gs" ? "bucket=" : `account=${text(account ?? "")}, container=`;
    const settings = `${holder}${text(bucket)}, prefix=${text(prefix)}, ${anonymous ? "anonymous=True" : access}`;
    return `icechunk.${scheme === "gs" ? "gcs" : "azure"}_storage(${settings}, config=${JSON.stringify(config)})`;
  }
  const found = environmentOfS3();
  const server = endpoint ?? found.endpoint;
  const settings = [
    `bucket=${text(bucket)}`,
    `prefix=${text(prefix)}`,
    anonymous === true ? "anonymous=True" : "from_env=True",
    ...(region === undefined ? [] : [`region=${text(region)}`]),
    ...(server === undefined ? [] : [`endpoint_url=${text(server)}`, "force_path_style=True"]),
    ...(server?.startsWith("http://") === true ? ["allow_http=True"] : []),
  ];
  return `icechunk.s3_storage(${settings.join(", ")})`;
}

function pythonAccess({ store, anonymous }: Container): string {
  const from = anonymous === true ? "anonymous=True" : "from_env=True";
  switch (store) {
    case "local":
      return "icechunk.credentials.LocalFileSystemAccess";
    case "http":
      return "icechunk.credentials.HttpAccess";
    case "s3":
      return `icechunk.s3_credentials(${from})`;
    case "gcs":
      return `icechunk.gcs_credentials(${from})`;
    case "azure":
      return `icechunk.azure_credentials(${from})`;
  }
}

/** A string literal, valid in both languages. */
function text(value: string): string {
  return JSON.stringify(value);
}
