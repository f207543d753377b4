/** Tells by its path what is only a part of an archive or of a Zarr node, for who names that instead of its folder. */
import { SuperchunkError } from "../../errors.ts";

/** Files directly in the folder that is meant, and those in its `meta`. */
const PARTS = [
  {
    end: /^(.*)[\\/](?:zarr\.json|\.zarray|\.zgroup|\.zattrs|\.zmetadata)$/,
    what: "a document of a Zarr array or group",
  },
  { end: /^(.*)[\\/]__(?:rootdirs|attrs)__$/, what: "a part of an archive" },
  { end: /^(.*)[\\/]meta[\\/](?:sizes|storage|attributes)$/, what: "a part of an archive" },
] as const;

/** The error for a file that is a part of something; undefined for others. `path`: as messages name the file. */
export function refusePart(path: string): SuperchunkError | undefined {
  for (const { end, what } of PARTS) {
    const folder = end.exec(path)?.[1];
    if (folder === undefined) continue;
    return new SuperchunkError(
      "UNSUPPORTED",
      `it is ${what}, and not all of it; name the folder: ${folder}`,
      {
        path,
        expected: folder,
      },
    );
  }
  return undefined;
}

/** What to do about a folder that is no archive; `path` as messages name it. */
export function adviseOnFolder(path: string): string {
  return /[\\/](?:meta|data)$/.test(path)
    ? "If it is a part of one, name the folder above it"
    : '"superchunk ls" lists the archives inside a folder';
}
