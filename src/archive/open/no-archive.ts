/** Says what is at a path that is not an archive, and what to do. A page loads this code when it is needed. */
import { SuperchunkError } from "../../errors.ts";
import { ZARR_DOCUMENTS } from "../../format/naming.ts";
import { hasEntries, joinKey } from "../../store/key.ts";
import type { ObjectHead, ReadableStore } from "../../store/types.ts";
import type { OpenOptions } from "../kinds/types.ts";

/** The error for what is not an archive; `file` is the beginning of the file at the path, if one is there. */
export async function explainNoArchive(
  source: ReadableStore,
  path: string,
  file: ObjectHead | undefined,
  options: OpenOptions,
): Promise<unknown> {
  if (file === undefined) return nothingThere(source, path, options);
  const part = refusePart(source.describe(path));
  if (part !== undefined) return part;
  // Not "blpk": opening it as such a file reports what is wrong. Loaded before; a static import would make Zarr pages load it.
  const { openFile } = await import("./open-file.ts");
  return openFile(source, path, options, file.info).then(
    () => new RangeError(`${source.describe(path)} became an archive while it was opened`),
    (error: unknown) => error,
  );
}

async function nothingThere(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<SuperchunkError> {
  const where = { path: store.describe(path) };
  for (const name of ZARR_DOCUMENTS) {
    if ((await store.stat(joinKey(path, name), options)) === undefined) continue;
    return new SuperchunkError(
      "UNSUPPORTED",
      'it is a Zarr array or group, not an archive; "superchunk info", "cat", "convert" and "open" of the library take it',
      { ...where, expected: "__rootdirs__, or meta/sizes and meta/storage", found: name },
    );
  }
  if ((await store.stat(joinKey(path, "__attrs__"), options)) !== undefined)
    return new SuperchunkError(
      "INCOMPLETE",
      'the folder has the __attrs__ of a table or an array, but neither __rootdirs__, nor meta/sizes and meta/storage. Look for a complete copy, or save its chunks with "superchunk repair"',
      { ...where, expected: "__rootdirs__, or meta/sizes and meta/storage", found: "__attrs__" },
    );
  if (await hasEntries(store, path, options))
    return new SuperchunkError(
      "UNSUPPORTED",
      `the folder is not an archive: it has neither __rootdirs__, nor meta/sizes and meta/storage, nor zarr.json, .zarray or .zgroup of Zarr. ${adviseOnFolder(where.path)}`,
      {
        ...where,
        expected: `__rootdirs__, meta/sizes and meta/storage, or ${ZARR_DOCUMENTS.join(", ")}`,
        found: "none of them",
      },
    );
  const isEmpty = store.isFolder !== undefined && (path === "" || (await store.isFolder(path, options)));
  const what = isEmpty ? "the folder is empty; expected an archive" : "no such file or folder";
  const reason = store.explainAbsence?.();
  if (reason !== undefined) return new SuperchunkError("NOT_FOUND", `${what}: ${reason}`, where);
  return new SuperchunkError("NOT_FOUND", what, where);
}

/** Files directly in the archive's folder, and those in its `meta`. */
const PARTS = [
  {
    end: /^(.*)[\\/](?:zarr\.json|\.zarray|\.zgroup|\.zattrs|\.zmetadata)$/,
    what: "a document of a Zarr array or group",
  },
  { end: /^(.*)[\\/]__(?:rootdirs|attrs)__$/, what: "a part of an archive" },
  { end: /^(.*)[\\/]meta[\\/](?:sizes|storage|attributes)$/, what: "a part of an archive" },
] as const;

/** The error for a file that is part of an array or archive; undefined for others. `path` is the file's name in messages. */
function refusePart(path: string): SuperchunkError | undefined {
  for (const { end, what } of PARTS) {
    const folder = end.exec(path)?.[1];
    if (folder === undefined) continue;
    return new SuperchunkError("UNSUPPORTED", `it is only ${what}; name the folder: ${folder}`, {
      path,
      expected: folder,
    });
  }
  return undefined;
}

/** What to do about a folder that is not an archive; `path` is its name in messages. */
function adviseOnFolder(path: string): string {
  return /[\\/](?:meta|data)$/.test(path)
    ? "If it is a part of one, name the folder above it"
    : '"superchunk ls" lists the archives inside a folder';
}
