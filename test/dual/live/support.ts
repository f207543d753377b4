/** Arrays that are also Zarr arrays, written step by step. */
import * as fs from "node:fs";
import { join } from "node:path";
import { liveViews } from "../../../src/dual/live.ts";
import type { DualFiles } from "../../../src/dual/types.ts";
import { dualFiles } from "../../../src/node/dual/files.ts";
import { FileStore } from "../../../src/node/index.ts";
import type { WritableStore } from "../../../src/store/types.ts";
import { type ArrayOptions, createArray, openWritable } from "../../../src/write/array/create.ts";
import type { WritableArray } from "../../../src/write/array/writable-array.ts";
import type { PublishPolicy } from "../../../src/write/editable.ts";
import { temporaryFolder } from "../../folder.ts";

export { temporaryFolder } from "../../folder.ts";

const STORE_CHANGES = ["put", "delete", "rename", "link", "writeRange"];
const FILE_CHANGES = ["setMode", "replace"];

const opened: WritableStore[] = [];

/** Closes the files of all watched folders. */
export async function closeStores(): Promise<void> {
  for (const store of opened.splice(0)) await store.close?.();
}

/** A folder whose every change is announced before it is made. */
export function watchedFolder(
  root: string,
  onChange: () => Promise<void>,
): { readonly store: WritableStore; readonly files: DualFiles } {
  const watch = <T extends object>(object: T, names: readonly string[]): T =>
    new Proxy(object, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (!names.includes(String(name)))
          return (...args: unknown[]): unknown => Reflect.apply(value, target, args);
        return async (...args: unknown[]): Promise<unknown> => {
          await onChange();
          return Reflect.apply(value, target, args);
        };
      },
    });
  const store: WritableStore = new FileStore(root);
  opened.push(store);
  return {
    store: watch(store, STORE_CHANGES),
    files: watch(dualFiles(root), FILE_CHANGES),
  };
}

/** Makes a mirrored array of int32 in a watched folder. */
export function createWatched(
  root: string,
  onChange: () => Promise<void>,
  options: Partial<ArrayOptions> = {},
  publish: PublishPolicy = "flush",
): Promise<WritableArray> {
  const { store, files } = watchedFolder(root, onChange);
  return createArray(store, "", {
    dtype: "<i4",
    chunkLength: 4,
    superchunkLength: 3,
    fillValue: -1,
    zarr: true,
    ...options,
    mirror: liveViews({ files, publish }),
  });
}

/** Opens it again. */
export function openWatched(
  root: string,
  onChange: () => Promise<void>,
  publish: PublishPolicy = "flush",
): Promise<WritableArray> {
  const { store, files } = watchedFolder(root, onChange);
  return openWritable(store, "", { mirror: liveViews({ files, publish }) });
}

export const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

/** A copy with the same hard links. */
export function copyOf(source: string): string {
  const root = join(temporaryFolder(), "copy");
  fs.cpSync(source, root, { recursive: true, preserveTimestamps: true });
  relink(source, root);
  return root;
}

/** Copies have the same hard links as the original. */
function relink(source: string, copy: string): void {
  const names = new Map<number, string>();
  for (const path of fs.readdirSync(source, { recursive: true, encoding: "utf8" }).sort()) {
    const { ino, nlink } = fs.lstatSync(join(source, path));
    if (nlink < 2 || fs.lstatSync(join(source, path)).isDirectory()) continue;
    const first = names.get(ino);
    names.set(ino, first ?? path);
    if (first === undefined) continue;
    fs.rmSync(join(copy, path));
    fs.linkSync(join(copy, first), join(copy, path));
  }
}

/** True for an error of the kind that stands for a power cut, also if it is the cause of another. */
export function isOutage(error: unknown, kind: new () => Error): boolean {
  if (error instanceof kind) return true;
  return error instanceof Error && isOutage(error.cause, kind);
}
