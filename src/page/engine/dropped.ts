/**
 * What dropped files hold: archives and arrays, and sets of references to files that were dropped with them. Loaded for files only.
 *
 * Knows files by their paths; must not know how they are shown.
 */
import { isSuperchunkError } from "../../errors.ts";
import { type FoundReadable, findReadables } from "../../open/find-readables.ts";
import { open, type Readable } from "../../open/open.ts";
import type { OpenAnyOptions } from "../../open/open-node.ts";
import { BlobStore } from "../../store/blob.ts";
import type { ReadableStore } from "../../store/types.ts";

type Files = readonly (readonly [path: string, file: Blob])[];
type Members = Readonly<Record<string, unknown>>;

/** Something that was found, and how it is opened. */
interface Dropped {
  readonly found: FoundReadable;
  readonly openIt: (signal?: AbortSignal) => Promise<Readable>;
}

/** Stands in references for the place of all dropped files. */
const PLACE = "file:///";
/** Documents of Zarr itself, of which a set has at least one at its root. */
const DOCUMENTS = ["zarr.json", ".zgroup", ".zarray"];

/** Finds everything; `openAt` opens what is not in a set of references. */
export async function* findDropped(
  files: Files,
  openAt: (store: ReadableStore, path: string, isNode: boolean, options: OpenAnyOptions) => Promise<Readable>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Dropped> {
  const store = new BlobStore(files);
  for await (const found of findReadables(store, "", { signal })) {
    const isNode = found.group !== undefined || found.array !== undefined;
    yield { found, openIt: (end) => openAt(store, found.path, isNode, { signal: end }) };
  }
  for (const [path, file] of files) {
    const set = await readSet(path, file);
    if (set === undefined) continue;
    // Chunks that belong to the set are read from where it is.
    const chunks = files.filter(([each]) => each.endsWith(".chunks"));
    const own = new BlobStore([[path, new Blob([JSON.stringify(withDropped(set, path, files))])], ...chunks]);
    const containers = [{ name: "dropped", prefix: PLACE, store: "local" }] as const;
    const openHere = (at: string): Promise<Readable> =>
      open(own, at, { containers, openContainer: () => store });
    try {
      const node = await openHere(path);
      if (node.kind !== "group" && node.kind !== "array") continue;
      for await (const found of findReadables(node as Parameters<typeof findReadables>[0], path, { signal }))
        yield { found, openIt: () => openHere(found.path) };
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      yield { found: { path, error }, openIt: () => openHere(path) };
    }
  }
}

/** A set of kerchunk references; undefined for other files. */
async function readSet(path: string, file: Blob): Promise<Members | undefined> {
  if (!/\.json$/i.test(path) || /(?:^|\/)zarr\.json$/.test(path)) return undefined;
  let set: Members;
  try {
    set = JSON.parse(await file.text()) as Members;
  } catch {
    return undefined;
  }
  const refs = membersOf(set?.["refs"] ?? set);
  return DOCUMENTS.some((name) => Object.hasOwn(refs, name)) ? set : undefined;
}

function membersOf(value: unknown): Members {
  return value !== null && typeof value === "object" ? (value as Members) : {};
}

/** The same set, with references to dropped files in place of those to the addresses where the files were. */
function withDropped(set: Members, path: string, files: Files): Members {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  // The folder of the set may have another name now.
  const near = files.filter(([each]) => each.startsWith(folder));
  const known = new Map([
    ...near.map(([each]) => [each.slice(folder.length), each] as const),
    ...files.map(([each]) => [each, each] as const),
  ]);
  const { refs = set, guards, ...rest } = set;
  /** Files by address, and the only address of each. */
  const moved = new Map<string, string>();
  const owners = new Map<string, string | undefined>();
  for (const value of Object.values(membersOf(refs))) {
    const address = addressOf(value);
    if (address === undefined || moved.has(address)) continue;
    const file = droppedAs(partsOf(address, folder), known);
    if (file === undefined) continue;
    moved.set(address, file);
    // Of two addresses with one end, it is unknown which was dropped.
    owners.set(file, owners.has(file) ? undefined : address);
  }
  const move = (address: string): string => {
    const file = moved.get(address) ?? "";
    return PLACE + (owners.get(file) === address ? file : partsOf(address, folder).join("/"));
  };
  const map = (of: unknown, each: (key: string, value: unknown) => [string, unknown]): Members =>
    Object.fromEntries(Object.entries(membersOf(of)).map(([key, value]) => each(key, value)));
  const moveValue = (value: unknown): unknown => {
    const address = addressOf(value);
    return address === undefined ? value : [move(address), ...(value as unknown[]).slice(1)];
  };
  return {
    ...(refs === set ? { version: 1 } : rest),
    refs: map(refs, (key, value) => [key, moveValue(value)]),
    ...(refs === set || guards === undefined
      ? {}
      : { guards: map(guards, (key, value) => [move(key), value]) }),
  };
}

/** The address in a reference; undefined for values that are stored in the set. */
function addressOf(value: unknown): string | undefined {
  return Array.isArray(value) && typeof value[0] === "string" ? value[0] : undefined;
}

/** The dropped file whose whole path is the longest end of an address. */
function droppedAs(parts: readonly string[], known: ReadonlyMap<string, string>): string | undefined {
  for (let i = 0; i < parts.length; i++) {
    const file = known.get(parts.slice(i).join("/"));
    if (file !== undefined) return file;
  }
  return undefined;
}

/** The parts of an address, absolute or relative to the folder of the set. */
function partsOf(address: string, folder: string): string[] {
  const parts: string[] = [];
  const path = address.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "/");
  for (const part of (path.startsWith("/") ? path : folder + path).split("/"))
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  return parts;
}
