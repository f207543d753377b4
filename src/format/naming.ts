/** Names of files in archives, and which stored names are safe to use as one part of a path. @see FORMAT.md [FN] */
import { SuperchunkError } from "../errors.ts";

/** Name of the index of bounds in a folder; beside a file, the ending. [FI-01] */
export const INDEX_NAME = "superchunk-index";

/** Beside an archive whose files are also shards of a Zarr array. [FL-04] */
export const LINK_RECORD = "superchunk-link.json";
/** In the folder of an array that is also a Zarr array: the state of that view. */
export const LIVE_STATE = "meta/zarr";

/** Record of an unfinished conversion, in the folder of a hierarchy. Beside a destination, a dot and the destination's name come before it. */
export const CONVERT_RECORD = ".superchunk-convert.json";

/** Key of the record of a conversion: in the folder of a hierarchy, else beside the destination. */
export function recordKey(destination: string, isHierarchy: boolean): string {
  if (isHierarchy) return destination === "" ? CONVERT_RECORD : `${destination}/${CONVERT_RECORD}`;
  const start = destination.lastIndexOf("/") + 1;
  const name = destination.slice(start);
  return `${destination.slice(0, start)}${name === "" ? "" : "."}${name}${CONVERT_RECORD}`;
}

/** Ends of the names of HDF5 files. Only the first bytes are sure: files of other formats are named `.nc` and `.mat` too. */
const HDF5_ENDS = "h5|hdf5?|he5|h5ad|nc4?|mat|loom";
/** The same, and those of Blosc2 files and stores. */
export const HELD_ENDS: string = `${HDF5_ENDS}|b2[dez]|b2nd|b2frame`;

/** Paths of HDF5 files, or into them. */
export const HDF5_NAMES: RegExp = new RegExp(`\\.(?:${HDF5_ENDS})(?=/|$)`, "i");
/** Paths of HDF5 files and Blosc2 files and stores, or into them. */
export const HELD_NAMES: RegExp = new RegExp(`\\.(?:${HELD_ENDS})(?=/|$)`, "i");

/** Name of a carray's chunk file, counted from 0: `__0.blp`. [FN-01] */
export function carrayChunkName(index: number): string {
  return `__${index}.blp`;
}

/** Number of a carray's chunk file, or undefined for any other name. [FN-01] */
export function parseCarrayChunkName(name: string): number | undefined {
  return parseNumber(/^__(0|[1-9]\d{0,14})\.blp$/.exec(name)?.[1]);
}

/** Name of a superchunk, counted from 1: `__1__.bin`. [FN-02] */
export function superchunkName(number: number): string {
  return `__${number}__.bin`;
}

/** Number of a superchunk, or undefined for any other name. [FN-02] */
export function parseSuperchunkName(name: string): number | undefined {
  return parseNumber(/^__([1-9]\d{0,14})__\.bin$/.exec(name)?.[1]);
}

function parseNumber(digits: string | undefined): number | undefined {
  return digits === undefined ? undefined : Number(digits);
}

/**
 * Checks that a stored name is one plain part of a path: not empty, not `.` or `..`, without `/`, `\` and NUL, and without a
 * drive letter. Throws `UNSAFE_PATH`. [FN-03]
 */
export function checkStoredName(name: string, path: string, field: string): void {
  const reason = whyUnsafe(name);
  if (reason === undefined) return;
  throw new SuperchunkError(
    "UNSAFE_PATH",
    `${field} ${JSON.stringify(name)} ${reason}: it could lead out of the archive. The archive is damaged or hostile; nothing was read`,
    { path, field, expected: "one plain part of a path", found: name },
  );
}

/** Why a name is not one plain part of a path; undefined if it is. */
export function whyUnsafe(name: string): string | undefined {
  if (name === "") return "is empty";
  if (name === "." || name === "..") return "names a folder itself";
  if (/[/\\]/.test(name)) return "has a path separator in it";
  if (name.includes("\0")) return "has a zero character in it";
  if (/^[A-Za-z]:/.test(name)) return "starts with a drive letter";
  return undefined;
}

/** Names of a node's documents in Zarr v2; `consolidated` contains all of those below a group. */
export const V2_DOCUMENTS = {
  array: ".zarray",
  group: ".zgroup",
  attributes: ".zattrs",
  consolidated: ".zmetadata",
} as const;

/** Documents that make a folder a Zarr node: of version 3, and of version 2. */
export const ZARR_DOCUMENTS: readonly string[] = ["zarr.json", V2_DOCUMENTS.array, V2_DOCUMENTS.group];
