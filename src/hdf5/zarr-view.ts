/**
 * An HDF5 file as a store of Zarr v2: its groups are Zarr groups, its datasets Zarr arrays, and its chunks the same bytes, read in
 * place.
 *
 * All code that reads Zarr arrays can therefore read datasets, and Blosc chunks are copied without recompressing. Contiguous values
 * are shown as chunks of about a mebibyte. Read-only.
 */
import { isSuperchunkError, resultOr, SuperchunkError } from "../errors.ts";
import { jsonBytes } from "../format/json.ts";
import { isNotedFloat, keepFloats, noteFloat } from "../format/json-float.ts";
import { V2_DOCUMENTS } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, partOf, resolveRange, splitKey } from "../store/key.ts";
import { keepMade } from "../store/pool.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr } from "../zarr/read/open.ts";
import type { Hdf5Chunk } from "./chunks.ts";
import {
  isWithoutValues,
  readShown,
  readStored,
  type Shown,
  type ShownArray,
  showDataset,
} from "./datasets.ts";
import { fillAttribute, isHarmless, onlyOf } from "./datatype.ts";
import { Hdf5File, showBytes } from "./file.ts";
import { keyName, type Link } from "./groups.ts";
import { type Hdf5Dataset, type Hdf5Group, readObject } from "./objects.ts";

/** The attribute for names of dimensions, as xarray writes it. */
const DIMENSIONS = "_ARRAY_DIMENSIONS";
/** Attributes with which HDF5's dimension scales refer to one another. */
const OF_DIMENSIONS: ReadonlySet<string> = new Set(["DIMENSION_LIST", "REFERENCE_LIST"]);
/** Attributes of netCDF that say how it is stored. netCDF shows none of them, and refuses to write them. */
const OF_NETCDF = /^(?:_NCProperties|_Netcdf4Dimid|_Netcdf4Coordinates|_nc3_strict)$/;
/** Attributes of CF that are one number, for which netCDF has only lists of one. xarray would compute with the list. */
const OF_CF = /^(?:scale_factor|add_offset)$/;
/** Most nested groups. */
const MAX_DEPTH = 64;
/** Headers that are read at a time. */
const AT_ONCE = 200;
/** Most soft links in a row. */
const MAX_LINKS = 16;

/** A group or a dataset, with the addresses of its parent groups and itself. */
type Node = { readonly above: ReadonlySet<number>; readonly address: number } & (
  | { readonly object: Hdf5Group; readonly array?: undefined }
  | { readonly object: Hdf5Dataset; array(): Promise<ShownArray> }
);

/** The file as a store. Keys are those of a Zarr v2 hierarchy. */
export class Hdf5Store implements ReadableStore {
  readonly #file: Hdf5File;
  readonly #nodes = new Map<string, Promise<Node | undefined>>();
  /** What was read, by address: many links can lead to one object, and soft links lead through the same groups. */
  readonly #objects = new Map<number, Promise<Hdf5Dataset | Hdf5Group>>();
  readonly #arrays = new Map<string, Promise<ShownArray>>();
  /** Lengths of unlimited dimensions of netCDF, by the address of their scales. */
  readonly #lengths = new Map<number, Promise<number>>();
  /** True if netCDF wrote the file. Known once the root was read, which comes before all members. */
  #isNetcdf = false;

  constructor(file: Hdf5File) {
    this.#file = file;
  }

  /** The file, as an object of its store. */
  get file(): Pick<Hdf5File, "store" | "key" | "path"> {
    return this.#file;
  }

  /** The place of a chunk in the file; undefined if it is generated or padded when it is read. */
  async placeOf(key: string): Promise<Hdf5Chunk | undefined> {
    const shown = await this.#chunk(key);
    return shown?.make === undefined && (shown?.padding ?? 0) === 0 ? shown?.place : undefined;
  }

  readonly filePlace: NonNullable<ReadableStore["filePlace"]> = async (key) => {
    const place = (await this.#chunk(key))?.place;
    return place && { key: this.#file.key, offset: place.position, ctbytes: place.size };
  };

  /** The HDF5 object at a path. */
  async objectAt(path: string): Promise<Hdf5Dataset | Hdf5Group | undefined> {
    return (await this.#node(path))?.object;
  }

  describe(key: string): string {
    return key === "" ? this.#file.path : `${this.#file.path}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const shown = await this.#chunk(key);
    return shown === undefined ? this.#document(key) : readShown(this.#file, shown, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const shown = await this.#chunk(key);
    if (shown?.place !== undefined && shown.make === undefined && shown.padding === undefined) {
      const { offset, length } = resolveRange(range, shown.place.size, key);
      const position = shown.place.position + offset;
      return length === 0 ? new Uint8Array(0) : this.#file.read(position, length, options);
    }
    const bytes = await this.get(key, options);
    return bytes && partOf(bytes, range, key);
  }

  async stat(key: string): Promise<ObjectInfo | undefined> {
    const shown = await this.#chunk(key);
    const made = shown === undefined ? await this.#document(key) : undefined;
    const size = made?.length ?? shown?.size ?? (shown && (await readShown(this.#file, shown)).length);
    const { store, key: file, version } = this.#file;
    // The version of a document is that of the file now, so that a conversion notices a change.
    const now = made === undefined ? version : (await store.stat(file))?.version;
    return size === undefined ? undefined : { size, version: `${now}:${key}`, opened: `${version}:${key}` };
  }

  /** Bytes that an object takes in the file, without making it. */
  async sizeOf(key: string): Promise<number | undefined> {
    const shown = await this.#chunk(key);
    return shown === undefined
      ? (await this.#document(key))?.length
      : (shown.place?.size ?? shown.stored ?? shown.size);
  }

  async *list(folder: string): AsyncGenerator<ListEntry> {
    const node = await this.#node(folder);
    if (node === undefined) return;
    const document = node.array === undefined ? V2_DOCUMENTS.group : V2_DOCUMENTS.array;
    for (const name of [document, V2_DOCUMENTS.attributes]) yield { name, kind: "object" };
    if (node.array !== undefined) {
      for (const name of await (await node.array()).names()) yield { name, kind: "object" };
      return;
    }
    const links = await node.object.members.all();
    await this.#readAll([...links.values()]);
    for (const name of links.keys()) {
      const member = await this.#node(joinKey(folder, name)).catch(() => undefined);
      if (member === undefined || !isWithoutValues(member.object)) yield { name, kind: "folder" };
    }
  }

  async whyEncoded(key: string): Promise<string | undefined> {
    // Without a signal: what is found is kept for all callers.
    const read = (place: Hdf5Chunk): Promise<Uint8Array> => readStored(this.#file, place);
    const array = await (await this.#node(key))?.array?.();
    if (array !== undefined) return array.why?.(undefined, read);
    const { folder, name } = splitKey(key);
    return (await (await this.#node(folder))?.array?.())?.why?.(name, read);
  }

  async attributesLeft(path: string): Promise<readonly string[]> {
    const left = (await this.#node(path))?.object.attrsLeft ?? [];
    return left.filter((name) => !OF_DIMENSIONS.has(name));
  }

  async close(): Promise<void> {
    await this.#file.store.close?.();
  }

  async #document(key: string): Promise<Uint8Array | undefined> {
    const { folder, name } = splitKey(key);
    if (!/^\.z(?:array|group|attrs)$/.test(name)) return undefined;
    const node = await this.#node(folder);
    if (node === undefined) return undefined;
    if (name === V2_DOCUMENTS.attributes) return jsonBytes(await this.#attributes(folder, node.object));
    if (name === V2_DOCUMENTS.group)
      return node.array === undefined ? jsonBytes({ zarr_format: 2 }) : undefined;
    return node.array === undefined ? undefined : jsonBytes((await node.array()).document);
  }

  /**
   * The attributes, with the names of a dataset's dimensions: those of their scales in its group, or in a group above. Without them if
   * any is unknown.
   */
  async #attributes(path: string, object: Hdf5Dataset | Hdf5Group): Promise<JsonObject> {
    const isScale = object.attrs["CLASS"] === "DIMENSION_SCALE";
    const ofScales = isScale && this.#isNetcdf ? ["CLASS", "NAME"] : [];
    const attrs = keepFloats(
      Object.fromEntries(
        Object.entries(object.attrs).filter(([name]) => !OF_NETCDF.test(name) && !ofScales.includes(name)),
      ),
      object.attrs,
    );
    for (const [name, value] of Object.entries(attrs))
      if (this.#isNetcdf || OF_CF.test(name)) {
        const only = onlyOf(value);
        attrs[name] = only;
        if (only !== value && isNotedFloat(value as object, 0, only)) noteFloat(attrs, name, Number(only));
      }
    if (object.kind === "group") return attrs;
    const { shape, scales } = object;
    const fill = attrs["_FillValue"];
    if (fill !== undefined) attrs["_FillValue"] = fillAttribute(object.type.numpy, fill);
    const names: string[] = [];
    if (isScale && shape.length === 1) names.push(splitKey(path).name);
    for (const address of scales)
      for (let folder = path; address !== undefined && folder !== ""; ) {
        ({ folder } = splitKey(folder));
        const group = (await this.#node(folder))?.object;
        const name = group?.kind === "group" ? await group.members.nameOf(address) : undefined;
        if (name === undefined) continue;
        names.push(name);
        break;
      }
    const isNamed = names.length > 0 && names.length === shape.length && attrs[DIMENSIONS] === undefined;
    if (isNamed) attrs[DIMENSIONS] = names;
    return attrs;
  }

  async #chunk(key: string): Promise<Shown | undefined> {
    const { folder, name } = splitKey(key);
    if (!/^\d+(?:\.\d+)*$/.test(name)) return undefined;
    return (await (await this.#node(folder))?.array?.())?.chunk(name);
  }

  /** `followed`: the soft links that led here. Their targets are not cached, so that two of them never wait for each other. */
  #node(path: string, followed: readonly string[] = []): Promise<Node | undefined> {
    if (followed.length > 0) return this.#open(path, followed);
    return keepMade(this.#nodes, path, () => this.#open(path, []));
  }

  async #open(path: string, followed: readonly string[]): Promise<Node | undefined> {
    let address: number | undefined = this.#file.root;
    const above = new Set<number>();
    if (path !== "") {
      const { folder, name } = splitKey(path);
      if (path.split("/").length > MAX_DEPTH)
        throw new SuperchunkError(
          "LIMIT",
          `groups are nested more than ${MAX_DEPTH} deep; perhaps one contains itself`,
          { path: this.describe(path) },
        );
      const parent = await this.#node(folder, followed);
      if (parent === undefined || parent.array !== undefined) return undefined;
      const link = await parent.object.members.find(name);
      if (link === undefined) return undefined;
      if (link.why !== undefined)
        throw new SuperchunkError("UNSUPPORTED", `it is ${link.why}; name what it leads to`, {
          path: this.describe(path),
        });
      address = link.address;
      for (const each of parent.above) above.add(each);
      const target = link.soft === undefined ? undefined : await this.#follow(path, link.soft, followed);
      if (above.has(target?.address ?? address ?? -1))
        throw new SuperchunkError(
          "UNSUPPORTED",
          "it is a link back to a group that it is in; name that group",
          { path: this.describe(path) },
        );
      if (target !== undefined) return { ...target, above: new Set([...above, target.address]) };
    }
    if (address === undefined) return undefined;
    const object = await this.#read(address).catch((error: unknown) => {
      if (!isSuperchunkError(error)) throw error;
      throw new SuperchunkError(error.code, error.summary, { ...error.details, path: this.describe(path) });
    });
    above.add(address);
    if (path === "") this.#isNetcdf = "_NCProperties" in object.attrs;
    if (object.kind === "group") return { object, above, address };
    const grown = await this.#grown(object, address);
    const show = (): Promise<ShownArray> => showDataset(this.#file, grown, this.describe(path));
    const array = (): Promise<ShownArray> => keepMade(this.#arrays, path, show);
    return { object: grown, array, above, address };
  }

  #read(address: number): Promise<Hdf5Dataset | Hdf5Group> {
    return keepMade(this.#objects, address, () => readObject(this.#file, address));
  }

  /** Reads the headers of members in the order of their addresses, which takes fewer requests than that of their names. */
  async #readAll(links: readonly Link[]): Promise<void> {
    const found = links.flatMap(({ address }) => (address === undefined ? [] : [address]));
    const addresses = found.filter((address) => !this.#objects.has(address)).sort((a, b) => a - b);
    for (const [i, address] of addresses.entries()) {
      if (i % AT_ONCE === 0) await this.#file.prepare(addresses.slice(i, i + AT_ONCE));
      // Damage is reported when the member is opened.
      await this.#read(address).catch(() => undefined);
    }
  }

  /**
   * A dataset of netCDF, as long as its unlimited dimensions are: those of the longest variable. netCDF reads the fill value where a variable
   * has fewer rows.
   */
  async #grown(dataset: Hdf5Dataset, address: number): Promise<Hdf5Dataset> {
    const { maxShape, attrs, shape } = dataset;
    const own = attrs["CLASS"] === "DIMENSION_SCALE" && shape.length === 1 ? [address] : [];
    const scales = own.length > 0 ? own : dataset.scales;
    if (!this.#isNetcdf || !maxShape.includes(undefined) || scales.length === 0) return dataset;
    const lengths = shape.map(async (length, d) => {
      const scale = maxShape[d] === undefined ? scales[d] : undefined;
      return scale === undefined ? length : Math.max(length, await this.#lengthOf(scale));
    });
    return { ...dataset, shape: await Promise.all(lengths) };
  }

  /** The length of a dimension of netCDF, by its scale. */
  #lengthOf(scale: number): Promise<number> {
    // A damaged reference must not prevent reading the dataset.
    const read = (address: number): Promise<Hdf5Dataset | undefined> =>
      resultOr(undefined, isHarmless, async () => {
        const found = await this.#read(address);
        return found.kind === "dataset" ? found : undefined;
      });
    return keepMade(this.#lengths, scale, async () => {
      const found = await read(scale);
      const along = (found?.users ?? []).map(
        async ({ address, dimension }) => (await read(address))?.shape.at(dimension) ?? 0,
      );
      return Math.max(found?.shape.at(0) ?? 0, ...(await Promise.all(along)));
    });
  }

  /** Follows a soft link: a path from the root, or relative to the group of the link. */
  async #follow(path: string, link: string, followed: readonly string[]): Promise<Node> {
    const isLoop = followed.includes(path) || followed.length >= MAX_LINKS;
    const above = [...followed, path];
    let target = link.startsWith("/") ? "" : splitKey(path).folder;
    for (const name of isLoop ? [] : link.split("/"))
      if (name !== "" && name !== ".") target = joinKey(target, await this.#keyOf(name, target, above));
    const found = isLoop ? undefined : await this.#node(target, above);
    if (found !== undefined) return found;
    throw new SuperchunkError(
      "UNSUPPORTED",
      isLoop
        ? "it is one of soft links that lead to one another"
        : `it is a soft link to "${showBytes(link)}", which the file does not have`,
      { path: this.describe(path), found: showBytes(link) },
    );
  }

  /** The key of a member by its stored name, which can differ from the name's own key if two look alike. */
  async #keyOf(stored: string, folder: string, followed: readonly string[]): Promise<string> {
    const key = keyName(stored);
    if (key === stored) return key;
    const group = (await this.#node(folder, followed))?.object;
    const links = group?.kind === "group" ? [...(await group.members.all())] : [];
    return links.find(([, link]) => link.stored === stored)?.[0] ?? key;
  }
}

/**
 * Opens a key in an HDF5 file: its root, or a group or dataset whose path follows the file's key (`bars.h5/group/prices`). Undefined if
 * the file does not exist.
 *
 * @throws NOT_FOUND for a path that the file does not have; UNSUPPORTED for unknown datatypes, filters and layouts; the codes of damage
 */
export async function openHdf5Node(
  store: ReadableStore,
  key: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const parts = key.split("/");
  const named = parts.findIndex((name) => /\.[a-z0-9]+$/i.test(name)) + 1;
  // The first part that looks like a file name is tried first, because each miss costs a request.
  for (const count of [named, ...parts.map((_, i) => parts.length - i)]) {
    const name = joinKey(...parts.slice(0, count));
    const file =
      count === 0
        ? "absent"
        : await resultOr("absent" as const, "NOT_FOUND", () => Hdf5File.open(store, name, options));
    if (file === "absent") continue;
    if (file === undefined) return undefined;
    const inside = parts.slice(count).join("/");
    try {
      return await openZarr(new Hdf5Store(file), inside, { ...options, dialect: "hdf5" });
    } catch (error) {
      if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
      throw new SuperchunkError(
        "NOT_FOUND",
        `the file has no group or dataset "${inside}"; "superchunk ls" lists what it has`,
        { path: file.path, found: inside },
      );
    }
  }
  return undefined;
}
