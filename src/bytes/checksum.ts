/**
 * Digests of bytes, the same in Node and in a browser: adler32 by our own kernel, the others by hash-wasm.
 *
 * A hasher keeps its state in its WebAssembly memory. Each digest here is one synchronous step (init, update, digest), so
 * callers may interleave.
 */
import type { IHasher } from "hash-wasm";
import { hex } from "../kernels/generated/adler32-kernels.ts";
import { fromHex, toHex } from "./arrays.ts";

/** The digests that a `blpk` file can have; `None` is the empty digest. @see FORMAT.md [FC] */
export type ChecksumName =
  | "None"
  | "adler32"
  | "crc32"
  | "md5"
  | "sha1"
  | "sha224"
  | "sha256"
  | "sha384"
  | "sha512";

/** Bytes of each digest. For adler32, the "32 bytes" of the BLZ document are bits. [FC-02] */
export const DIGEST_LENGTHS: Readonly<Record<ChecksumName, number>> = {
  None: 0,
  adler32: 4,
  crc32: 4,
  md5: 16,
  sha1: 20,
  sha224: 28,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};

/** A loaded digest function. It returns the digest as stored. */
export type DigestFunction = (bytes: Uint8Array) => Uint8Array;

/** Castagnoli's polynomial, reflected. */
export const CRC32C_POLYNOMIAL = 0x82f6_3b78;

/** A file of hash-wasm. Each has one digest, and is loaded on first use. */
type Library = Promise<{ readonly default: typeof import("hash-wasm") }>;

const loadCrc32 = (): Library => import("hash-wasm/dist/crc32.umd.min.js");

const MAKERS: { readonly [name in Exclude<ChecksumName, "None">]: () => Promise<DigestFunction> } = {
  adler32: makeAdler32,
  // hash-wasm returns the sum in network order; files store it little-endian. [FC-03]
  crc32: async () => reversed(await (await loadCrc32()).default.createCRC32()),
  md5: async () => raw(await (await import("hash-wasm/dist/md5.umd.min.js")).default.createMD5()),
  sha1: async () => raw(await (await import("hash-wasm/dist/sha1.umd.min.js")).default.createSHA1()),
  sha224: async () => raw(await (await import("hash-wasm/dist/sha224.umd.min.js")).default.createSHA224()),
  sha256: async () => raw(await (await import("hash-wasm/dist/sha256.umd.min.js")).default.createSHA256()),
  sha384: async () => raw(await (await import("hash-wasm/dist/sha384.umd.min.js")).default.createSHA384()),
  sha512: async () => raw(await (await import("hash-wasm/dist/sha512.umd.min.js")).default.createSHA512()),
};

/** Digests that engines have, by the engine's names: faster than the library, which is then not loaded. */
const OF_ENGINE: { readonly [name in ChecksumName]?: string } = {
  sha1: "SHA-1",
  sha256: "SHA-256",
  sha384: "SHA-384",
  sha512: "SHA-512",
};

/** Bytes from which on the engine computes the digest in another thread. */
const LARGE = 1 << 20;

/** The used part of `node:crypto` and `node:zlib`. */
interface NodeModules {
  createHash(name: string): { update(bytes: Uint8Array): { digest(): Uint8Array } };
  /** From Node 20.15 on. */
  readonly crc32?: (bytes: Uint8Array) => number;
}

/** Node's own digests, if this is Node: for a small chunk they take less time than a promise of the engine's, or WebAssembly. */
function digestsOfNode(): [ChecksumName, Promise<DigestFunction>][] {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const node = process?.getBuiltinModule?.("node:crypto") as NodeModules | undefined;
  if (node === undefined) return [];
  const { crc32 } = (process?.getBuiltinModule?.("node:zlib") ?? {}) as Partial<NodeModules>;
  const digests = ["sha1", "sha224", "sha256", "sha384", "sha512"].map((name): [string, DigestFunction] => [
    name,
    (bytes) => node.createHash(name).update(bytes).digest(),
  ]);
  if (crc32 !== undefined) digests.push(["crc32", (bytes) => littleEndian(crc32(bytes))]);
  return digests.map(([name, made]) => [name as ChecksumName, Promise.resolve(made)]);
}

const loaded = new Map<ChecksumName, Promise<DigestFunction>>(digestsOfNode());
let loadedCrc32c: Promise<(pieces: readonly Uint8Array[]) => number> | undefined;

/** Loads a digest once. The resulting function is synchronous. 32-bit sums are 4 bytes little-endian, others raw. */
export function loadDigest(name: ChecksumName): Promise<DigestFunction> {
  const known = loaded.get(name);
  if (known !== undefined) return known;
  const made = name === "None" ? Promise.resolve(() => new Uint8Array(0)) : MAKERS[name]();
  loaded.set(name, made);
  return made;
}

/** The digest of `bytes`, as stored. */
export async function digest(name: ChecksumName, bytes: Uint8Array): Promise<Uint8Array> {
  const own = loaded.has(name) && bytes.length < LARGE ? undefined : OF_ENGINE[name];
  // Pages loaded without TLS have no `subtle`, and it refuses shared memory.
  const { subtle } = (globalThis as { crypto?: Partial<Crypto> }).crypto ?? {};
  if (own === undefined || subtle === undefined || !(bytes.buffer instanceof ArrayBuffer))
    return (await loadDigest(name))(bytes);
  return new Uint8Array(await subtle.digest(own, bytes as Uint8Array<ArrayBuffer>));
}

/** A name for a text, or its bytes: the first 16 bytes of their SHA-256 as hexadecimal digits. */
export async function textDigest(text: string | Uint8Array): Promise<string> {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return toHex((await digest("sha256", bytes)).subarray(0, 16));
}

/** The crc32c of any bytes followed by their own little-endian crc32c, such as a shard index. */
export const CRC32C_OF_SUMMED = 0x4867_4bc7 as const;

async function makeCrc32c(): Promise<IHasher> {
  return (await loadCrc32()).default.createCRC32(CRC32C_POLYNOMIAL);
}

/** Loads crc32c, the sum at the end of a Zarr shard index. The resulting function is synchronous. */
function loadCrc32c(): Promise<(pieces: readonly Uint8Array[]) => number> {
  loadedCrc32c ??= makeCrc32c().then((hasher) => (pieces) => {
    hasher.init();
    for (const piece of pieces) hasher.update(piece);
    return sumOf(hasher);
  });
  return loadedCrc32c;
}

/** The crc32c of consecutive pieces, as an unsigned number. */
export async function crc32c(...pieces: readonly Uint8Array[]): Promise<number> {
  return (await loadCrc32c())(pieces);
}

/** A checksum of bytes that arrive in pieces. */
export interface RunningSum {
  update(piece: Uint8Array): void;
  /** The sum as an unsigned number. Must be the last call. */
  digest(): number;
}

/** Hashers for reuse: making one takes longer than the sum of a small object. */
const idle: IHasher[] = [];

/** A crc32c with separate state, for bytes that arrive in pieces. */
export async function startCrc32c(): Promise<RunningSum> {
  const hasher = idle.pop() ?? (await makeCrc32c());
  return running(hasher, () => void idle.push(hasher));
}

/** The crc32 of zip archives, for bytes that arrive in pieces. */
export async function startCrc32(): Promise<RunningSum> {
  return running(await (await loadCrc32()).default.createCRC32());
}

function running(hasher: IHasher, release?: () => void): RunningSum {
  hasher.init();
  return {
    update: (piece) => void hasher.update(piece),
    digest: () => {
      const sum = sumOf(hasher);
      release?.();
      return sum;
    },
  };
}

/** The 32-bit sum of what a hasher was given. */
function sumOf(hasher: IHasher): number {
  return new DataView(hasher.digest("binary").buffer).getUint32(0);
}

function raw(hasher: IHasher): DigestFunction {
  return (bytes) => hasher.init().update(bytes).digest("binary");
}

function reversed(hasher: IHasher): DigestFunction {
  return (bytes) => hasher.init().update(bytes).digest("binary").reverse();
}

// Adler-32 is Bloscpack's default: most files need it, and its kernel is smaller and faster than a library.

/** Bytes in the kernel's memory at a time. */
const PIECE = 65_536;

/** The exports of the WebAssembly module. @see src/kernels/assembly/adler32.ts */
interface Adler32Kernel {
  readonly memory: WebAssembly.Memory;
  adler32(src: number, length: number, sum: number): number;
}

/** Makes the digest: 4 bytes, little-endian. [FC-03] */
async function makeAdler32(): Promise<(bytes: Uint8Array) => Uint8Array> {
  const { instance } = await WebAssembly.instantiate(fromHex(hex));
  const { memory, adler32 } = instance.exports as unknown as Adler32Kernel;
  memory.grow(1);
  const room = new Uint8Array(memory.buffer, memory.buffer.byteLength - PIECE);
  return (bytes) => {
    let sum = 1;
    for (let at = 0; at < bytes.length; at += PIECE) {
      const piece = bytes.subarray(at, at + PIECE);
      room.set(piece);
      sum = adler32(room.byteOffset, piece.length, sum);
    }
    return littleEndian(sum);
  };
}

function littleEndian(sum: number): Uint8Array {
  const digest = new Uint8Array(4);
  new DataView(digest.buffer).setUint32(0, sum, true);
  return digest;
}
