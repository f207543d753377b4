/**
 * The bytes of an HDF5 file: finds the superblock, and reads fields at addresses in pages that are kept.
 *
 * Knows addresses and lengths; must not know what structures hold.
 * @see https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html (HDF5 File Format Specification 3.0)
 */
import { roundUp } from "../bytes/arrays.ts";
import { ByteReader, joinSafeNumber } from "../bytes/fields.ts";
import { SuperchunkError } from "../errors.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { Pages } from "./pages.ts";

/** The first bytes of a superblock. */
const SIGNATURE: readonly number[] = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];
/** Most bytes of a metadata structure; real files stay far below. */
const MAX_STRUCTURE = 64 << 20;
/** Bytes in which a driver leaves its name. */
const DRIVER = 256;
/** A superblock is at byte 0, or after a user block of 512 bytes, 1024 bytes, and so on. */
const MAX_USER_BLOCK = 1 << 26;
const SUPERBLOCK = 128;

/** Reads the fields of a structure, one after the other. */
export class Fields {
  /** Offset of the next field from the start of the structure. */
  at = 0;
  readonly #bytes: ByteReader;
  readonly #offsetSize: number;
  readonly #lengthSize: number;

  constructor(bytes: ByteReader, { offsetSize, lengthSize }: { offsetSize: number; lengthSize: number }) {
    this.#bytes = bytes;
    this.#offsetSize = offsetSize;
    this.#lengthSize = lengthSize;
  }

  get length(): number {
    return this.#bytes.length;
  }
  /** Bytes after the last field that was read. */
  get left(): number {
    return this.#bytes.length - this.at;
  }
  /** Offset of the next field in the file. */
  get position(): number {
    return this.#bytes.base + this.at;
  }

  /** An unsigned integer of 1 to 8 bytes. */
  uint(size: number, field: string): number {
    this.#bytes.need(this.at, size, field);
    const { bytes, path } = this.#bytes;
    let [low, high] = [0, 0];
    for (let i = size - 1; i >= 0; i--) {
      const byte = bytes[this.at + i] as number;
      if (i < 4) low = low * 256 + byte;
      else high = high * 256 + byte;
    }
    const { position } = this;
    this.at += size;
    return high === 0 ? low : joinSafeNumber(low, high, () => ({ path, offset: position, field }));
  }

  uint8(field: string): number {
    return this.uint(1, field);
  }
  uint16(field: string): number {
    return this.uint(2, field);
  }
  uint32(field: string): number {
    return this.uint(4, field);
  }
  /** A size, in as many bytes as the superblock defines. */
  size(field: string): number {
    return this.uint(this.#lengthSize, field);
  }

  /** A size; undefined for the value that means none. */
  sizeOrNone(field: string): number | undefined {
    return this.#someUint(this.#lengthSize, field);
  }

  /** An address; undefined for the value that means none. */
  address(field: string): number | undefined {
    return this.#someUint(this.#offsetSize, field);
  }

  #someUint(size: number, field: string): number | undefined {
    if (this.#bytes.view(this.at, size, field).some((byte) => byte !== 0xff)) return this.uint(size, field);
    this.at += size;
    return undefined;
  }

  /** An address that must exist. Throws `BAD_FIELD`. */
  someAddress(field: string): number {
    const address = this.address(field);
    if (address !== undefined) return address;
    throw this.bad(field, "an address", "none");
  }

  /** A view of the next bytes. */
  bytes(length: number, field: string): Uint8Array {
    const bytes = this.#bytes.view(this.at, length, field);
    this.at += length;
    return bytes;
  }

  /** Text up to a zero byte, which is skipped. `letterOf` as in {@link decodeText}. */
  text(field: string, letterOf?: (byte: number) => string): string {
    const { bytes } = this.#bytes;
    const end = bytes.indexOf(0, this.at);
    if (end < 0) throw this.bad(field, "text that ends with a zero byte", "none");
    const text = decodeText(bytes.subarray(this.at, end), letterOf);
    this.at = end + 1;
    return text;
  }

  skip(length: number): void {
    this.at += length;
  }

  /** Skips to the next multiple of eight bytes after `from`. */
  pad(from: number): void {
    this.at = from + roundUp(this.at - from, 8);
  }

  /** Skips four letters that must be the signature. Throws `BAD_MAGIC`. */
  expect(signature: string): void {
    const found = decodeText(this.bytes(4, "signature"));
    if (found === signature) return;
    throw new SuperchunkError(
      "BAD_MAGIC",
      `"${signature}" is missing at byte ${this.position - 4}: the file is damaged there; look for another copy`,
      { path: this.#bytes.path, offset: this.position - 4, expected: signature, found },
    );
  }

  /** Checks the checksum at offset `length` against all bytes before it. Throws `CHECKSUM_MISMATCH`. */
  checkSum(length: number, field: string): void {
    const expected = hashOf(this.#bytes.view(0, length, field));
    const found = this.#bytes.uint32(length, "checksum");
    if (found === expected) return;
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the checksum of ${field} at byte ${this.#bytes.base} differs from its bytes: the file is damaged there; look for another copy`,
      { path: this.#bytes.path, offset: this.#bytes.base, field, expected, found },
    );
  }

  /** The next `length` bytes as fields of their own. */
  part(length: number, field: string): Fields {
    const base = this.position;
    const bytes = this.bytes(length, field);
    return new Fields(new ByteReader(bytes, this.#bytes.path, base), {
      offsetSize: this.#offsetSize,
      lengthSize: this.#lengthSize,
    });
  }

  bad(field: string, expected: unknown, found: unknown): SuperchunkError {
    return new SuperchunkError(
      "BAD_FIELD",
      `${field} near byte ${this.position} should be ${String(expected)}, not ${String(found)}. The file is damaged; look for another copy`,
      { path: this.#bytes.path, offset: this.position, field, expected, found },
    );
  }

  unsupported(what: string, field: string, found: unknown): SuperchunkError {
    return new SuperchunkError("UNSUPPORTED", `${what}. h5py reads it; write the values again without it`, {
      path: this.#bytes.path,
      offset: this.position,
      field,
      found,
    });
  }
}

/** Decodes text up to a zero byte; undefined if it is not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  const end = bytes.indexOf(0);
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
  } catch {
    return undefined;
  }
}

/** Decodes text up to a zero byte, as `letterOf` its bytes if it is not UTF-8: as they are up to 7F, and percent-encoded after it. */
export function decodeText(bytes: Uint8Array, letterOf: (byte: number) => string = percentEncode): string {
  return decodeUtf8(bytes) ?? Array.from(bytes, letterOf).join("").replace(/\0.*$/s, "");
}

function percentEncode(byte: number): string {
  return byte < 128 ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase()}`;
}

/** A letter that no text has, for a byte of names that are not UTF-8, which then differ from all others. {@link showBytes} shows them. */
export function keepByte(byte: number): string {
  return String.fromCharCode(byte < 128 ? byte : 0xdc00 + byte);
}

export function showBytes(name: string): string {
  return name.replace(/[\udc80-\udcff]/gu, (letter) => percentEncode(letter.charCodeAt(0) - 0xdc00));
}

/** The hash of a structure's bytes: Bob Jenkins' lookup3, as HDF5 uses it. */
export function hashOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const turn = (x: number, n: number): number => (x << n) | (x >>> (32 - n));
  let a = (0xdeadbeef + bytes.length) | 0;
  let [b, c] = [a, a];
  let at = 0;
  for (; bytes.length - at > 12; at += 12) {
    a = (a + view.getUint32(at, true)) | 0;
    b = (b + view.getUint32(at + 4, true)) | 0;
    c = (c + view.getUint32(at + 8, true)) | 0;
    a = ((a - c) ^ turn(c, 4)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ turn(a, 6)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ turn(b, 8)) | 0;
    b = (b + a) | 0;
    a = ((a - c) ^ turn(c, 16)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ turn(a, 19)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ turn(b, 4)) | 0;
    b = (b + a) | 0;
  }
  if (bytes.length === at) return c >>> 0;
  const last = new DataView(new ArrayBuffer(12));
  for (let i = 0; at + i < bytes.length; i++) last.setUint8(i, view.getUint8(at + i));
  a = (a + last.getUint32(0, true)) | 0;
  b = (b + last.getUint32(4, true)) | 0;
  c = (c + last.getUint32(8, true)) | 0;
  c = ((c ^ b) - turn(b, 14)) | 0;
  a = ((a ^ c) - turn(c, 11)) | 0;
  b = ((b ^ a) - turn(a, 25)) | 0;
  c = ((c ^ b) - turn(b, 16)) | 0;
  a = ((a ^ c) - turn(c, 4)) | 0;
  b = ((b ^ a) - turn(a, 14)) | 0;
  c = ((c ^ b) - turn(b, 24)) | 0;
  return c >>> 0;
}

interface Superblock {
  readonly offsetSize: number;
  readonly lengthSize: number;
  /** File offset that addresses are relative to. */
  readonly base: number;
  /** Address of the root group's header. */
  readonly root: number;
  /** Where the driver that wrote the file leaves its name, among other things; undefined without that. */
  readonly driver: number | undefined;
}

/** One HDF5 file in a store. */
export class Hdf5File {
  readonly store: ReadableStore;
  readonly key: string;
  /** Name in messages. */
  readonly path: string;
  readonly size: number;
  /** The file's version in its store. */
  readonly version: string;
  #block: Superblock = { offsetSize: 8, lengthSize: 8, base: 0, root: 0, driver: undefined };
  readonly #pages: Pages;
  /** Chunks that are being read. */
  #reading = 0;

  private constructor(store: ReadableStore, key: string, pages: Pages) {
    this.store = store;
    this.key = key;
    this.path = store.describe(key);
    this.size = pages.info.size;
    this.version = pages.info.version;
    this.#pages = pages;
  }

  /**
   * Opens a file by its superblock; undefined if it has none.
   *
   * @throws NOT_FOUND; TRUNCATED and BAD_FIELD for a damaged superblock; UNSUPPORTED for versions after 3
   */
  static async open(
    store: ReadableStore,
    key: string,
    options: StoreOptions = {},
  ): Promise<Hdf5File | undefined> {
    const pages = await Pages.open(store, key, options);
    if (pages === undefined)
      throw new SuperchunkError("NOT_FOUND", "no such file", { path: store.describe(key) });
    const file = new Hdf5File(store, key, pages);
    for (let at = 0; at < Math.min(file.size, MAX_USER_BLOCK); at = at === 0 ? 512 : at * 2) {
      const length = Math.min(SUPERBLOCK, file.size - at);
      const { bytes } = new ByteReader(await pages.get(at, length), file.path, at);
      if (!SIGNATURE.every((byte, i) => bytes[i] === byte)) continue;
      file.#block = readSuperblock(new ByteReader(bytes, file.path, at), at);
      await file.#refusePart();
      return file;
    }
    return undefined;
  }

  /** Refuses one of several files that hold the bytes together: the drivers of HDF5 that write them leave their name. */
  async #refusePart(): Promise<void> {
    const { base, driver } = this.#block;
    const at = base + (driver ?? this.size);
    if (at >= this.size) return;
    const bytes = await this.#pages.get(at, Math.min(DRIVER, this.size - at));
    const [, name] = /NCSA(fami|mult)/.exec(String.fromCharCode(...bytes)) ?? [];
    if (name === undefined) return;
    const [drivers, advice] =
      name === "fami"
        ? ["family", "join them: h5repart -family_to_sec2 name%d.h5 whole.h5"]
        : ["split or multi", 'open it with h5py (driver="split"), and copy what is in it to one file'];
    throw new SuperchunkError(
      "UNSUPPORTED",
      `it is one of several files that hold one HDF5 file together, as the ${drivers} driver writes them; ${advice}`,
      { path: this.path, field: "driver information", found: `NCSA${name}` },
    );
  }

  get root(): number {
    return this.#block.root;
  }
  /** Bytes of an address. */
  get offsetSize(): number {
    return this.#block.offsetSize;
  }
  /** Bytes of a size. */
  get lengthSize(): number {
    return this.#block.lengthSize;
  }

  /** File offset of an address. */
  positionOf(address: number): number {
    return this.#block.base + address;
  }

  /** The fields of a structure that begins with a signature, if one is given, and ends with a checksum. Throws for others. */
  async summed(address: number, length: number, field: string, signature?: string): Promise<Fields> {
    const fields = await this.fields(address, length, field);
    if (signature !== undefined) fields.expect(signature);
    fields.checkSum(length - 4, field);
    return fields;
  }

  /** The fields of a structure. Throws `TRUNCATED` if the file ends before it does, `LIMIT` for an absurd length. */
  async fields(address: number, length: number, field: string): Promise<Fields> {
    const position = this.positionOf(address);
    if (length > MAX_STRUCTURE)
      throw new SuperchunkError(
        "LIMIT",
        `${field} at byte ${position} would have ${length} bytes; ${MAX_STRUCTURE} is the limit`,
        { path: this.path, offset: position, expected: MAX_STRUCTURE, found: length },
      );
    if (position + length > this.size)
      throw new SuperchunkError(
        "TRUNCATED",
        `${field} ${position < this.size ? `needs ${length} bytes` : "should be"} at byte ${position}, but the file ends at byte ${this.size}. It is truncated or damaged; look for a complete copy`,
        { path: this.path, offset: position, expected: position + length, found: this.size },
      );
    return new Fields(
      new ByteReader(await this.#pages.get(position, length), this.path, position),
      this.#block,
    );
  }

  /** At most `length` bytes from an address on, as far as the file goes, for structures that contain their own length. */
  upTo(address: number, length: number, field: string): Promise<Fields> {
    const there = Math.max(1, Math.min(length, this.size - this.positionOf(address)));
    return this.fields(address, there, field);
  }

  /** Reads a chunk or a part of it: the existing bytes. One that came with what led to it is not requested again. */
  async read(position: number, length: number, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const known = this.#pages.find(position, length, this.#reading === 0);
    this.#reading++;
    try {
      return await (known ?? this.store.getRange(this.key, { offset: position, length }, options));
    } finally {
      this.#reading--;
    }
  }

  /** Reads what is soon needed at some addresses, with few requests at the same time. */
  prepare(addresses: readonly number[]): Promise<void> {
    return this.#pages.prepare(addresses.map((address) => this.positionOf(address)));
  }
}

function readSuperblock(bytes: ByteReader, position: number): Superblock {
  const version = bytes.uint8(8, "version of the superblock");
  const isOld = version <= 1;
  const offsetSize = bytes.uint8(isOld ? 13 : 9, "size of offsets");
  const lengthSize = bytes.uint8(isOld ? 14 : 10, "size of lengths");
  const fields = new Fields(bytes, { offsetSize, lengthSize });
  if (version > 3)
    throw fields.unsupported(`a superblock of version ${version}, but 0 to 3 are known`, "version", version);
  for (const size of [offsetSize, lengthSize])
    if (![2, 4, 8].includes(size))
      throw [16, 32].includes(size)
        ? fields.unsupported(`offsets or lengths of ${size} bytes`, "size of offsets or lengths", size)
        : fields.bad("size of offsets or lengths", "2, 4 or 8", size);
  if (!isOld) {
    fields.at = 12;
    const base = fields.someAddress("base address");
    const driver = fields.address("extension");
    fields.address("end of file");
    const root = fields.someAddress("root group");
    fields.checkSum(fields.at, "the superblock");
    return { offsetSize, lengthSize, base: base === 0 ? position : base, root, driver };
  }
  fields.at = version === 0 ? 24 : 28;
  const base = fields.someAddress("base address");
  for (const field of ["free space", "end of file"]) fields.address(field);
  const driver = fields.address("driver information");
  fields.size("name of the root group");
  return {
    offsetSize,
    lengthSize,
    base: base === 0 ? position : base,
    root: fields.someAddress("root group"),
    driver,
  };
}
