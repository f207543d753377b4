/** What the page of the browser test does at the request of the main program. Bundled for the page. */
import { type Archive, BlobStore, HttpStore, open, openArchive, type ReadableStore } from "superchunk";
import { Blosc, type CompressorName, decode, decodeRange, encode, type Shuffle } from "superchunk/blosc";
import { zarrView } from "superchunk/zarr";
import * as zarr from "zarrita";
import { type Strided, toCOrder } from "../view/c-order.ts";

/** What the main program calls. Everything in and out is JSON. */
export interface PageCalls {
  /** Hashes of all values of an archive over HTTP: of the archive, or of each column. */
  hashUrl(url: string, path: string): Promise<Record<string, string>>;
  /** The hash of what zarrita fetches of an array below an address. */
  hashServed(url: string, node: ZarrNode): Promise<string>;
  /** The same through a view that the page makes of an archive over HTTP. */
  hashView(url: string, path: string, node: ZarrNode): Promise<string>;
  /** The same for a file, or a folder, that was chosen on the page. */
  hashChosen(path: string): Promise<Record<string, string>>;
  /** One value of an archive over HTTP, as text. */
  readElement(url: string, path: string, index: number): Promise<string>;
  /** Encodes a pattern; returns the chunk in hexadecimal and whether it decodes correctly, in whole and in part. */
  roundTrip(
    cname: CompressorName,
    shuffle: Shuffle,
    length: number,
  ): Promise<{ chunk: string; same: boolean }>;
  /** True if the page's policy forbids running text as a program. */
  refusesEval(): boolean;
}

/** An array of Zarr, or a group whose arrays are the fields of its rows. */
export interface ZarrNode {
  readonly path: string;
  readonly isBig: boolean;
  /** Names of the fields, of a group. */
  readonly fields: readonly string[];
}

declare global {
  interface Window {
    superchunkTest: PageCalls;
  }
}

/** The bytes that {@link PageCalls.roundTrip} encodes. */
export function makePattern(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (Math.imul(i, i) >>> 11) ^ (i & 3));
}

async function hashArchive(archive: Archive): Promise<Record<string, string>> {
  const parts =
    archive.kind === "table"
      ? archive.names.map((name) => [name, archive.column(name)] as const)
      : ([["", archive]] as const);
  const hashes: Record<string, string> = {};
  for (const [name, part] of parts) {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    for await (const piece of part.streamBytes()) pieces.push(new Uint8Array(piece));
    hashes[name] = await hash(pieces);
  }
  return hashes;
}

/** zarrita accepts anything with `get`. */
interface Source {
  get(key: `/${string}`): Promise<Uint8Array | undefined>;
}

async function readArray(store: Source, path: string, isBig: boolean): Promise<Uint8Array<ArrayBuffer>> {
  const array = await zarr.open.v3(zarr.root(store).resolve(`/${path}`), { kind: "array" });
  return toCOrder((await zarr.get(array)) as unknown as Strided, isBig);
}

async function hashNode(store: Source, { path, isBig, fields }: ZarrNode): Promise<string> {
  const below = (name: string): string => (path === "" ? name : `${path}/${name}`);
  const columns =
    fields.length === 0
      ? [await readArray(store, path, isBig)]
      : await Promise.all(fields.map((name) => readArray(store, below(name), isBig)));
  return hash(fields.length === 0 ? columns : joinRows(columns));
}

/** Fields of four and eight bytes, as the nested array of the corpus has them. */
function* joinRows([first, second]: readonly Uint8Array<ArrayBuffer>[]): Generator<Uint8Array<ArrayBuffer>> {
  if (first === undefined || second?.length !== 2 * first.length) throw new Error("other fields than known");
  for (let row = 0; row < first.length / 4; row++) {
    yield first.subarray(4 * row, 4 * row + 4);
    yield second.subarray(8 * row, 8 * row + 8);
  }
}

async function hash(pieces: Iterable<Uint8Array<ArrayBuffer>>): Promise<string> {
  const whole = await new Blob([...pieces]).arrayBuffer();
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", whole)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function chosen(): ReadableStore {
  const input = document.querySelector("input");
  return BlobStore.fromFiles(input?.files ?? []);
}

/** Tried by the page itself, because code that a debugger evaluates is under no policy. */
function isEvalRefused(): boolean {
  try {
    return new Function("return false")() as boolean;
  } catch {
    return true;
  }
}

if (typeof window !== "undefined") {
  const refused = isEvalRefused();
  // zarrita's own Blosc fetches its WebAssembly from a data: address, which a strict policy forbids.
  if (refused) zarr.registry.set("blosc", async () => Blosc as never);
  window.superchunkTest = {
    hashUrl: async (url, path) => hashArchive(await openArchive(new HttpStore(url), path)),
    hashServed: (url, node) => hashNode(new zarr.FetchStore(url), node),
    async hashView(url, path, node) {
      const view = zarrView(await open(new HttpStore(url), path), { portable: true });
      return hashNode({ get: (key) => view.get(key) }, node);
    },
    hashChosen: async (path) => hashArchive(await openArchive(chosen(), path)),
    async readElement(url, path, index) {
      const archive = await open(new HttpStore(url), path);
      return archive.kind === "array" ? String(await archive.get([index])) : "not an array";
    },
    async roundTrip(cname, shuffle, length) {
      const data = makePattern(length);
      const chunk = await encode(data, { cname, shuffle, typesize: 4 });
      const middle = Math.floor(length / 2);
      const same =
        hex(await decode(chunk)) === hex(data) &&
        hex(await decodeRange(chunk, middle, 5)) === hex(data.slice(middle, middle + 5)) &&
        hex(await Blosc.fromConfig({ cname }).decode(chunk)) === hex(data);
      return { chunk: hex(chunk), same };
    },
    refusesEval: () => refused,
  };
}
