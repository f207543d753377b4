/**
 * Makes names of Zarr nodes from the names of archives, folders and columns; lists the folders above nodes.
 *
 * A name stays as it is, extension included, unless Zarr reserves it, or it differs from a sibling's only in case, which file
 * systems of macOS and Windows ignore. Must not know archives or stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#node-names
 */

/** A name that had to be changed. */
export interface Renaming {
  /** The stored name, or the path in the source. */
  readonly from: string;
  /** The name, or the path in the destination. */
  readonly to: string;
}

/**
 * Node names for siblings, in their order. In reserved names (empty, only periods, starting with `__`, `zarr.json`, with a
 * slash) the offending characters become `%` and two hexadecimal digits. Names too long for file systems are cut. A name that differs from
 * an earlier one at most in case gets the suffix `~2`, `~3`, ….
 */
export function nameNodes(names: readonly string[]): Map<string, string> {
  const taken = new Set<string>();
  const found = new Map<string, string>();
  // Names that need no change are assigned first.
  const ordered = [...names].sort((a, b) => Number(escapeName(a) !== a) - Number(escapeName(b) !== b));
  for (const name of ordered) {
    const plain = escapeName(name);
    let candidate = plain;
    for (let n = 2; taken.has(candidate.toLowerCase()); n++) candidate = `${plain}~${n}`;
    taken.add(candidate.toLowerCase());
    found.set(name, candidate);
  }
  return found;
}

/** Node paths for the paths of archives below one folder: {@link nameNodes} folder by folder. */
export function namePaths(paths: readonly string[]): Map<string, string> {
  const children = new Map<string, Set<string>>();
  for (const path of paths) {
    const parts = path.split("/");
    parts.forEach((name, depth) => {
      const folder = parts.slice(0, depth).join("/");
      const names = children.get(folder) ?? new Set();
      children.set(folder, names.add(name));
    });
  }
  const named = new Map([...children].map(([folder, names]) => [folder, nameNodes([...names].sort())]));
  return new Map(
    paths.map((path) => {
      const parts = path.split("/");
      const nodes = parts.map((name, depth) => named.get(parts.slice(0, depth).join("/"))?.get(name) ?? name);
      return [path, nodes.join("/")];
    }),
  );
}

function escapeName(name: string): string {
  if (name === "") return "%";
  if (/^\.+$/.test(name)) return name.replaceAll(".", "%2E");
  const safe = name.replaceAll("/", "%2F").replaceAll("\\", "%5C").replaceAll("\0", "%00");
  if (safe.startsWith("__")) return cutName(`%5F%5F${safe.slice(2)}`);
  if (safe.length > 63) return cutName(safe);
  return safe === "zarr.json" || safe === ".superchunk-convert.json" ? safe.replace(".", "%2E") : safe;
}

/** A name of at most 255 bytes, which is what file systems take; a cut one has room for a suffix. */
function cutName(name: string): string {
  const bytes = new TextEncoder().encode(name);
  return bytes.length <= 255 ? name : new TextDecoder().decode(bytes.subarray(0, 240)).replace(/\ufffd$/, "");
}

/** Every folder above nodes, the root among them, outermost first. */
export function foldersAbove(nodes: Iterable<string>): string[] {
  const folders = new Set<string>();
  for (const node of nodes) {
    if (node === "") continue;
    const parts = node.split("/");
    for (let depth = 0; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
  }
  return [...folders].sort((a, b) => a.length - b.length);
}
