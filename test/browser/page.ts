/** What the page of the browser test does, on request of the test's main program. Bundled for the page. */
import { type Archive, BlobStore, HttpStore, open, type ReadableStore } from "superchunk";
import { Blosc, type CompressorName, decode, decodeRange, encode, type Shuffle } from "superchunk/blosc";

/** What the main program calls. Everything in and out is JSON. */
export interface PageCalls {
  /** Hashes of all values of an archive over HTTP: of itself, or of each column. */
  hashUrl(url: string, path: string): Promise<Record<string, string>>;
  /** The same of a file, or a folder, that was chosen on the page. */
  hashChosen(path: string): Promise<Record<string, string>>;
  /** One value of an archive over HTTP, as text. */
  readElement(url: string, path: string, index: number): Promise<string>;
  /** Encodes a pattern; tells the chunk in hexadecimal and whether it decodes, whole and in part, to what it was. */
  roundTrip(
    cname: CompressorName,
    shuffle: Shuffle,
    length: number,
  ): Promise<{ chunk: string; same: boolean }>;
  /** True where the page's policy lets no text be run as a program. */
  refusesEval(): boolean;
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
    const whole = await new Blob(pieces).arrayBuffer();
    hashes[name] = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", whole)));
  }
  return hashes;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function chosen(): ReadableStore {
  const input = document.querySelector("input");
  return BlobStore.fromFiles(input?.files ?? []);
}

/** Tried by the page itself: what a debugger evaluates is under no policy. */
function isEvalRefused(): boolean {
  try {
    return new Function("return false")() as boolean;
  } catch {
    return true;
  }
}

if (typeof window !== "undefined") {
  const refused = isEvalRefused();
  window.superchunkTest = {
    hashUrl: async (url, path) => hashArchive(await open(new HttpStore(url), path)),
    hashChosen: async (path) => hashArchive(await open(chosen(), path)),
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
