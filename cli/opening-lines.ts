/** The lines that open references, in Python and JavaScript: with containers, and who may read them. */
import { resolve } from "node:path";
import type { Container } from "../src/bridge/index.ts";
import { toIcechunkPrefix } from "../src/node/index.ts";
import type { VirtualizeFlags } from "./commands/virtualize.ts";

/** Lines to paste, by language. */
export interface OpeningLines {
  readonly Python: string;
  readonly JavaScript: string;
}

/** What opens a result that was written with these flags. */
export function openingLines(
  destination: string,
  flags: Pick<VirtualizeFlags, "to" | "zarrFormat">,
  containers: readonly Container[],
): OpeningLines {
  const isRemote = /^[a-z0-9+.-]+:\/\//i.test(destination);
  const place = isRemote ? destination : resolve(destination);
  return flags.to === "icechunk"
    ? { Python: icechunkPython(place, containers), JavaScript: icechunkScript(place, containers) }
    : { Python: kerchunkPython(place, flags, containers), JavaScript: kerchunkScript(place, containers) };
}

function kerchunkPython(
  place: string,
  { to, zarrFormat }: Pick<VirtualizeFlags, "to" | "zarrFormat">,
  containers: readonly Container[],
): string {
  const [first] = containers;
  const protocol = first === undefined || first.store === "local" ? "file" : first.prefix.split(":")[0];
  const format = to === "kerchunk-parquet" || zarrFormat === "2" ? 2 : 3;
  const anonymous = first?.anonymous === true && first.store === "s3";
  const options = [
    `"fo": ${text(place)}`,
    `"remote_protocol": "${protocol}"`,
    ...(anonymous ? ['"remote_options": {"anon": True}'] : []),
  ];
  return [
    "import xarray",
    `options = {${options.join(", ")}}`,
    "dataset = xarray.open_zarr(",
    `    "reference://", storage_options=options, consolidated=False, zarr_format=${format}`,
    ")",
  ].join("\n");
}

function kerchunkScript(place: string, containers: readonly Container[]): string {
  const names = containers.map(({ name }) => text(name)).join(", ");
  return [
    'import { openReferences } from "superchunk/node";',
    'import * as zarr from "zarrita";',
    `const store = await openReferences(${text(place)}, { authorize: [${names}] });`,
    'const group = await zarr.open(store, { kind: "group" });',
  ].join("\n");
}

function icechunkPython(place: string, containers: readonly Container[]): string {
  const access = containers.map((each) => `${text(toIcechunkPrefix(each))}: ${pythonAccess(each)}`);
  return [
    "import icechunk, xarray",
    "repository = icechunk.Repository.open(",
    `    ${pythonStorage(place)},`,
    `    authorize_virtual_chunk_access={${access.join(", ")}},`,
    ")",
    'dataset = xarray.open_zarr(repository.readonly_session("main").store, consolidated=False)',
  ].join("\n");
}

function pythonStorage(place: string): string {
  const [, bucket, prefix = ""] = /^s3:\/\/([^/?]+)\/?([^?]*)/.exec(place) ?? [];
  if (bucket === undefined) return `icechunk.local_filesystem_storage(${text(place)})`;
  return `icechunk.s3_storage(bucket=${text(bucket)}, prefix=${text(prefix)}, from_env=True)`;
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

function icechunkScript(place: string, containers: readonly Container[]): string {
  return [
    'import { openReferences } from "superchunk/node";',
    'import * as zarr from "zarrita";',
    `const store = await openReferences(${text(place)}, {`,
    '  form: "icechunk",',
    `  containers: ${JSON.stringify(containers)},`,
    "});",
    'const group = await zarr.open(store, { kind: "group" });',
  ].join("\n");
}

/** A string as both languages write it. */
function text(value: string): string {
  return JSON.stringify(value);
}
