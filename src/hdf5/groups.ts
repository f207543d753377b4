/** Groups of HDF5: their members, one by its name or all of them. Must not know what the members are. */
import { decodeText, type Fields, type Hdf5File, hashOf, keepByte, showBytes } from "./file.ts";
import { FractalHeap, LocalHeap, MAX_DEPTH, MAX_NODES } from "./heaps.ts";

/** Messages with the links of a group: where they are, a link, and the form of old groups. */
const LINK_INFO = 0x02;
const LINK = 0x06;
const SYMBOL_TABLE = 0x11;
/** These, and the settings of new groups. */
export const OF_GROUPS: ReadonlySet<number> = new Set([LINK_INFO, LINK, SYMBOL_TABLE, 0x0a]);

/** Target of a name in a group: an object, a path in the file (a soft link), or the reason why it is not followed. */
export interface Link {
  readonly address?: number;
  /** Its name in the file, if that is not its key. */
  readonly stored?: string;
  readonly soft?: string;
  readonly why?: string;
}

/** Addresses of a tree that leads to links, and of the heap that holds their names, or the links themselves. */
interface Places {
  readonly isOld: boolean;
  readonly tree: number;
  readonly heap: number;
}

/** The members of a group. */
export class Members {
  readonly #file: Hdf5File;
  /** Links in the header of the group. */
  readonly #own: Links = new Map();
  readonly #places: Places[] = [];
  #all: Promise<ReadonlyMap<string, Link>> | undefined;
  #names: ReadonlyMap<number, string> | undefined;

  constructor(file: Hdf5File, messages: readonly { readonly type: number; readonly fields: Fields }[]) {
    this.#file = file;
    for (const { type, fields } of messages) {
      if (type === LINK) addLink(fields, this.#own);
      else if (type === SYMBOL_TABLE) {
        const tree = fields.someAddress("tree of a group");
        this.#places.push({ isOld: true, tree, heap: fields.someAddress("names of a group") });
      } else if (type === LINK_INFO) {
        fields.skip(1);
        if ((fields.uint8("flags of the links") & 1) !== 0) fields.skip(8);
        const heap = fields.address("heap of the links");
        const tree = fields.address("tree of the links");
        if (heap !== undefined && tree !== undefined) this.#places.push({ isOld: false, tree, heap });
      }
    }
  }

  /** All members, sorted by name. */
  all(): Promise<ReadonlyMap<string, Link>> {
    if (this.#all !== undefined) return this.#all;
    this.#all = this.#read(undefined).then(showLinks);
    this.#all.catch(() => (this.#all = undefined));
    return this.#all;
  }

  /** A member by its name, from only those parts of the group that lead to it. */
  async find(name: string): Promise<Link | undefined> {
    // Names that are shown as others are only known from all of them.
    const isDirect = this.#all === undefined && keyName(name) === name;
    const found = isDirect ? (this.#own.get(name) ?? (await this.#read(name)).get(name)) : undefined;
    return found ?? (await this.all()).get(name);
  }

  /** The first name of the member at an address. */
  async nameOf(address: number): Promise<string | undefined> {
    if (this.#names === undefined) {
      const links = [...(await this.all())].reverse();
      this.#names = new Map(links.map(([name, { address: at = -1 }]) => [at, name]));
    }
    return this.#names.get(address);
  }

  /** The links, or those that are stored with the wanted one. */
  async #read(wanted: string | undefined): Promise<Links> {
    const links: Links = new Map(this.#own);
    const file = this.#file;
    const name = wanted === undefined ? undefined : new TextEncoder().encode(wanted);
    for (const { isOld, tree, heap } of this.#places) {
      await file.prepare([tree, heap]);
      if (isOld) {
        const symbols = { heap: await LocalHeap.open(file, heap), links, nodes: { left: MAX_NODES }, name };
        await readSymbols(file, tree, symbols, 0);
      } else {
        const objects = (await FractalHeap.open(file, heap)).objectsOf(tree, 4, name && hashOf(name));
        for await (const each of objects) addLink(each, links);
      }
    }
    return links;
  }
}

/** Links by their keys: names that no key can be are shown as others. */
function showLinks(links: Links): ReadonlyMap<string, Link> {
  const sorted = [...links].sort(([a], [b]) => (a < b ? -1 : 1));
  const shown = new Map(sorted.filter(([stored]) => keyName(stored) === stored));
  for (const [stored, link] of sorted) {
    const name = keyName(stored);
    if (name === stored) continue;
    let free = name;
    for (let n = 2; shown.has(free); n++) free = `${name}~${n}`;
    shown.set(free, { ...link, stored });
  }
  return new Map([...shown].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The links of a group by their stored names. */
type Links = Map<string, Link>;

/** A member's name as a key of a store: `..`, backslashes and bytes that are not UTF-8 are percent-encoded. */
export function keyName(stored: string): string {
  return stored === ".." ? "%2E%2E" : showBytes(stored.replaceAll("\\", "%5C"));
}

/** Adds a member. Throws `BAD_FIELD` for a name that would lead to the group itself or below, and for a duplicate, which is ambiguous. */
function setLink(links: Links, stored: string, link: Link, fields: Fields): void {
  if (stored === "" || stored === "." || stored.includes("/"))
    throw fields.bad("name of a member", "a name without slashes", `"${stored}"`);
  if (links.has(stored))
    throw fields.bad("name of a member", "one that no other member has", keyName(stored));
  links.set(stored, link);
}

function addLink(fields: Fields, links: Links): void {
  fields.skip(1);
  const flags = fields.uint8("flags of a link");
  const kind = (flags & 8) === 0 ? 0 : fields.uint8("type of a link");
  if ((flags & 4) !== 0) fields.skip(8);
  if ((flags & 16) !== 0) fields.skip(1);
  const text = (length: number, field: string): string => decodeText(fields.bytes(length, field), keepByte);
  const name = text(fields.uint(1 << (flags & 3), "length of a name"), "name of a link");
  const soft = (): string => text(fields.uint16("length of a soft link"), "soft link");
  const link =
    kind === 0
      ? { address: fields.someAddress("address of a link") }
      : kind === 1
        ? { soft: soft() }
        : { why: "a link to another file, which is not followed" };
  setLink(links, name, link, fields);
}

interface Symbols {
  readonly heap: LocalHeap;
  readonly links: Links;
  readonly nodes: { left: number };
  /** The bytes of the only name that is wanted: undefined for all. */
  readonly name: Uint8Array | undefined;
}

/** Reads an old group: a B-tree of version 1 over nodes of symbols. */
async function readSymbols(file: Hdf5File, address: number, symbols: Symbols, depth: number): Promise<void> {
  const { offsetSize, lengthSize } = file;
  const { heap, links, name: wanted } = symbols;
  const head = await file.fields(address, 8 + 2 * offsetSize, "a node of a group");
  if (--symbols.nodes.left < 0 || depth > MAX_DEPTH)
    throw head.bad("the tree of a group", "a tree", "one without an end");
  head.expect("TREE");
  head.skip(1);
  const level = head.uint8("level of a node");
  const used = head.uint16("entries of a node");
  const entries = await file.fields(
    address + head.at + 2 * offsetSize,
    used * (lengthSize + offsetSize),
    "a node of a group",
  );
  const children: number[] = [];
  for (let i = 0; i < used; i++) {
    const key = entries.size("key of a node");
    const child = entries.someAddress("child of a node");
    // The names of a child come after its key.
    if (wanted === undefined) children.push(child);
    else if (heap.isBefore(key, wanted)) children[0] = child;
  }
  await file.prepare(children);
  for (const child of children) {
    if (level > 0) {
      await readSymbols(file, child, symbols, depth + 1);
      continue;
    }
    const node = await file.fields(child, 8, "a node of symbols");
    node.expect("SNOD");
    node.skip(2);
    const count = node.uint16("symbols of a node");
    const list = await file.fields(child + 8, count * (lengthSize + offsetSize + 24), "a node of symbols");
    for (let s = 0; s < count; s++) {
      const name = heap.text(list.size("name of a symbol"));
      const target = list.address("header of a symbol");
      const cache = list.uint32("type of a symbol");
      list.skip(4);
      const value = list.uint32("place of a soft link");
      list.skip(12);
      const soft = cache === 2 ? { soft: heap.text(value) } : undefined;
      const hard = target === undefined ? { why: "a name that leads to nothing" } : { address: target };
      setLink(links, name, soft ?? hard, list);
    }
  }
}
