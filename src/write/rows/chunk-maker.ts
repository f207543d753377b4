/** Makes encoded chunks with their digests, in this thread or elsewhere. Knows settings; must not know where the chunks go. */

import type { FetchedChunk } from "../../archive/read/chunk-fetch.ts";
import { DIGEST_LENGTHS, type DigestFunction, loadDigest } from "../../bytes/checksum.ts";
import {
  decodeSync,
  encodeInto,
  encodeSync,
  HEADER_LENGTH,
  isReady,
  prepare,
  prepareEncode,
  replaceBytes,
} from "../../codec/index.ts";
import type {
  ByteEdit,
  ChunkEncoder,
  CompressorName,
  EncodeHelper,
  EncodeOptions,
} from "../../codec/types.ts";
import { giveWay } from "../../store/pool.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import type { ArraySettings } from "../layout/settings.ts";
import { applyEdits } from "./edits.ts";

/** A finished chunk, or one that is being made; that one is wrapped in a list so that it is not awaited in passing. */
export type BegunChunk = StoredChunk | readonly [Promise<StoredChunk>];

/** Bytes that the calling thread encodes before it checks whether encoding is the bottleneck. */
const SPAN = 16 << 20;
/** Share of the time spent encoding above which a helper is worth a thread. */
const MOSTLY = 0.6;

/** Chunks are encoded by an encoder that works elsewhere, or synchronously by the calling thread, which may get a helper. */
export class ChunkMaker {
  readonly #encoder: ChunkEncoder | undefined;
  /** Takes some of the chunks that the calling thread would encode. */
  #helper: EncodeHelper | undefined;
  #cname: CompressorName | undefined;
  /** What the calling thread has encoded since `from`: bytes, and milliseconds. */
  #here = { from: 0, bytes: 0, ms: 0 };
  readonly #arena = new ChunkArena();
  /** Chunks being made elsewhere. */
  readonly #underWay = new Set<Promise<StoredChunk>>();
  #options: EncodeOptions = {};
  #digest: DigestFunction = () => {
    throw new RangeError("prepare() was not awaited");
  };
  #digestLength = 0;
  /** Chunks that a helper has and has not returned. */
  #helping = 0;

  constructor(encoder: ChunkEncoder | undefined) {
    this.#encoder = encoder;
  }

  /** How many chunks to request at a time. */
  get #parallel(): number {
    return this.#encoder?.parallelOf?.(this.#cname) ?? this.#encoder?.parallel ?? 1;
  }

  /**
   * True if chunks are made in the calling thread, except those that a helper takes: then data are no longer needed once a call
   * has returned.
   */
  get isHere(): boolean {
    return this.#helper !== undefined || this.#parallel === 1;
  }

  /** Loads what the settings need. */
  async prepare({ cname, clevel, shuffle, checksum }: ArraySettings): Promise<void> {
    this.#options = { cname, clevel, shuffle };
    this.#digest = await loadDigest(checksum);
    this.#digestLength = DIGEST_LENGTHS[checksum];
    if (this.#cname !== cname) this.#helper = undefined;
    this.#cname = cname;
    this.#helper ??= this.#encoder?.helperOf?.(cname, false);
    if (this.isHere) await prepareEncode(cname);
  }

  /** An encoded chunk with the array's kind of digest. */
  withDigest(bytes: Uint8Array, nbytes: number): StoredChunk {
    return { bytes, digest: this.#digest(bytes), nbytes };
  }

  /** Makes a chunk in a separate buffer. `data` must not change until it is made. */
  async encode(data: Uint8Array, typesize: number): Promise<StoredChunk> {
    const options = { ...this.#options, typesize };
    const isElsewhere = this.#encoder !== undefined && !this.isHere;
    return this.withDigest(
      isElsewhere ? await this.#encoder.encode(data, options) : encodeSync(data, options),
      data.length,
    );
  }

  /** Makes a chunk for the next superchunk: if possible directly after the one before it, in reused memory. */
  next(data: Uint8Array, typesize: number): StoredChunk | Promise<StoredChunk> {
    if (!this.isHere) return this.encode(data, typesize);
    return this.#put(data.length, (room) => encodeInto(data, room, { ...this.#options, typesize }));
  }

  /** Makes a chunk for the next superchunk from a stored one with some of its decoded bytes replaced. */
  async replaced(
    { bytes, header }: FetchedChunk,
    edits: readonly ByteEdit[],
    typesize: number,
  ): Promise<StoredChunk> {
    if (!isReady(header.compressor)) await prepare(header.compressor);
    const options = { ...this.#options, typesize };
    if (this.isHere) return this.#put(header.nbytes, (room) => replaceBytes(bytes, edits, options, room));
    const data = decodeSync(bytes);
    applyEdits(edits, data);
    return this.encode(data, typesize);
  }

  /** Copies stored chunks with their digests for the next superchunk. */
  async copied(stored: AsyncIterable<FetchedChunk>): Promise<StoredChunk[]> {
    const chunks: StoredChunk[] = [];
    for await (const { bytes, digest, header } of stored) {
      const room = this.#arena.reserve(bytes.length + digest.length);
      room.set(bytes);
      room.set(digest, bytes.length);
      this.#arena.keep(room.length);
      const [own, ownDigest] = [room.subarray(0, bytes.length), room.subarray(bytes.length)];
      chunks.push({ bytes: own, digest: ownDigest, nbytes: header.nbytes });
    }
    return chunks;
  }

  /** Makes a chunk where the one before it ends, and puts its digest after it. */
  #put(nbytes: number, make: (room: Uint8Array) => Uint8Array): StoredChunk {
    const length = this.#digestLength;
    const room = this.#arena.reserve(nbytes + HEADER_LENGTH + length);
    const bytes = this.#timed(nbytes, () => make(room.subarray(0, room.length - length)));
    const digest = room.subarray(bytes.length, bytes.length + length);
    digest.set(this.#digest(bytes));
    this.#arena.keep(bytes.length + length);
    return { bytes, digest, nbytes };
  }

  /**
   * Encodes in the calling thread, and looks for a helper once encoding takes most of the time. If the disk does, no helper is
   * needed.
   */
  #timed(nbytes: number, make: () => Uint8Array): Uint8Array {
    if (this.#helper !== undefined || this.#encoder?.helperOf === undefined) return make();
    const begin = performance.now();
    const here = this.#here;
    if (here.bytes === 0) here.from = begin;
    const bytes = make();
    const end = performance.now();
    here.bytes += nbytes;
    here.ms += end - begin;
    if (here.bytes < SPAN) return bytes;
    if (here.ms > MOSTLY * (end - here.from)) this.#helper = this.#encoder.helperOf(this.#cname, true);
    this.#here = { from: 0, bytes: 0, ms: 0 };
    return bytes;
  }

  /**
   * Begins a chunk for the next superchunk; at most as many run at a time as the encoder suggests. The superchunk needs `left` more
   * chunks. A helper gets none of the last ones, so that it is not waited for.
   */
  async begin(data: Uint8Array, typesize: number, left: number): Promise<BegunChunk> {
    if (this.#helper !== undefined) {
      const helped = left > this.#helping ? this.#helped(data, typesize) : undefined;
      if (helped !== undefined) return helped;
      const own = this.next(data, typesize);
      // Lets the helper's answers arrive.
      await giveWay();
      return own;
    }
    if (this.isHere) return this.next(data, typesize);
    await this.made(this.#parallel - 1);
    const chunk = this.next(data, typesize);
    if (!(chunk instanceof Promise)) return chunk;
    this.#underWay.add(chunk);
    const forget = (): void => void this.#underWay.delete(chunk);
    chunk.then(forget, forget);
    return [chunk];
  }

  /** Lets a helper make a chunk from a copy of the data; undefined if none takes them. */
  #helped(data: Uint8Array, typesize: number): BegunChunk | undefined {
    const made = this.#helper?.offer(data, { ...this.#options, typesize }, (length) => {
      this.#arena.align(); // the chunk comes from shared memory, which engines copy by words only so
      const room = this.#arena.reserve(length + this.#digestLength);
      this.#arena.keep(room.length);
      return room;
    });
    if (made === undefined) return undefined;
    this.#helping++;
    const chunk = made.then((room) => {
      const bytes = room.subarray(0, room.length - this.#digestLength);
      const digest = room.subarray(bytes.length);
      digest.set(this.#digest(bytes));
      return { bytes, digest, nbytes: data.length };
    });
    const noteEnd = (): void => void this.#helping--;
    chunk.then(noteEnd, noteEnd); // an error is thrown where the chunk is needed
    return [chunk];
  }

  /** Waits until at most `left` chunks are being made. Errors are thrown where the chunk is needed. */
  async made(left = 0): Promise<void> {
    while (this.#underWay.size > left)
      await Promise.race([...this.#underWay].map((chunk) => chunk.catch(() => undefined)));
  }

  /** Hands over the memory of all chunks that {@link next} has made. */
  takeBlocks(): FilledBlocks {
    return this.#arena.take();
  }

  /** Takes back the memory of all chunks, and releases it until it is needed again. */
  rest(): void {
    this.#arena.giveBack(this.#arena.take());
    this.#arena.rest();
  }

  /** Takes memory back for reuse. */
  giveBack(blocks: FilledBlocks): void {
    this.#arena.giveBack(blocks);
  }
}

/**
 * Reused memory for encoded chunks. Each chunk starts where the one before it ends, so a superchunk is written in few long
 * pieces, without garbage to collect. Must not know what a chunk is.
 */

/** Smallest block in bytes. */
const BLOCK = 4 << 20;
/** Blocks kept for the next chunks. */
const MAX_IDLE = 16;

/**
 * Blocks of idle arenas, for any arena that needs them, unless the engine reclaims their memory first. So an array that is
 * written after another one does not allocate again.
 */
const loose: WeakRef<Uint8Array>[] = [];

/** Filled blocks, to be given back when their bytes are no longer needed. */
export type FilledBlocks = readonly Uint8Array[];

export class ChunkArena {
  #blocks: Uint8Array[] = [];
  #idle: Uint8Array[] = [];
  #at = 0;

  /** Space for at most `length` bytes; the next call returns it again unless {@link keep} follows. */
  reserve(length: number): Uint8Array {
    const last = this.#blocks[this.#blocks.length - 1];
    if (last !== undefined && last.length - this.#at >= length)
      return last.subarray(this.#at, this.#at + length);
    const fits = this.#idle.findIndex((block) => block.length >= length);
    const [idle] = fits >= 0 ? this.#idle.splice(fits, 1) : [];
    const block = idle ?? takeLoose(length) ?? new Uint8Array(Math.max(BLOCK, length));
    this.#blocks.push(block);
    this.#at = 0;
    return block.subarray(0, length);
  }

  /** The next space begins at a multiple of 8 bytes. */
  align(): void {
    this.#at = (this.#at + 7) & ~7;
  }

  /** Keeps the first `length` bytes of the space reserved last. */
  keep(length: number): void {
    this.#at += length;
  }

  /** Hands over all blocks with their kept bytes; the next chunk begins a new one. */
  take(): FilledBlocks {
    const blocks = this.#blocks;
    this.#blocks = [];
    this.#at = 0;
    return blocks;
  }

  giveBack(blocks: FilledBlocks): void {
    for (const block of blocks) if (this.#idle.length < MAX_IDLE) this.#idle.push(block);
  }

  /** Releases the free blocks. */
  rest(): void {
    for (const block of this.#idle) loose.push(new WeakRef(block));
    this.#idle = [];
  }
}

/** A block of at least this length that is not in use. */
function takeLoose(length: number): Uint8Array | undefined {
  let found: Uint8Array | undefined;
  const left = loose.filter((reference) => {
    const block = reference.deref();
    if (block === undefined || found !== undefined || block.length < length) return block !== undefined;
    found = block;
    return false;
  });
  loose.splice(0, loose.length, ...left);
  return found;
}
