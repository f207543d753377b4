/** From what a person types to a store and a key: paths, `file:` and `http(s):` URLs. */
import { realpath, stat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SuperchunkError } from "../errors.ts";
import { HttpStore } from "../store/http.ts";
import type { ReadableStore } from "../store/types.ts";
import { FileStore } from "./fs-store.ts";

/** A place in a store. */
export interface Location {
  readonly store: ReadableStore;
  /** Key in the store; `""` is its root. */
  readonly path: string;
}

/** The store and key of a path or URL that exists. Throws `NOT_FOUND`, `UNSUPPORTED` (another scheme). */
export async function locate(location: string): Promise<Location> {
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return locateUrl(location);
  if (scheme !== undefined && scheme !== "file") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `addresses that start with ${scheme}:// are not read; give a path, or an http(s):// address`,
      { path: location },
    );
  }
  return locatePath(resolve(scheme === "file" ? fileURLToPath(location) : location), location);
}

async function locatePath(path: string, typed: string): Promise<Location> {
  try {
    if ((await stat(path)).isDirectory()) return { store: new FileStore(path), path: "" };
    // Who names a link means what it leads to; links inside of an archive are another matter.
    const real = await realpath(path);
    return { store: new FileStore(dirname(real)), path: basename(real) };
  } catch (cause) {
    throw new SuperchunkError("NOT_FOUND", "there is no such file or folder", { path: typed, cause });
  }
}

/** The last part of the URL's path is the key, so that an archive that is a file has one. */
function locateUrl(location: string): Location {
  const url = new URL(location);
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const key = parts.pop() ?? "";
  url.pathname = `/${parts.map((part) => `${part}/`).join("")}`;
  return { store: new HttpStore(url.href), path: decodeURIComponent(key) };
}
