/**
 * Where the encoded chunks of a shard are made: in the store's memory if it has some, else in buffers that are used again.
 * Must not know how chunks are encoded.
 */
import { BufferShelf } from "../../bytes/buffer-shelf.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import type { PieceRooms } from "../../store/types.ts";
import type { Chain, ShardingSerializer } from "../codecs/chain.ts";

/** Chunks of this size are worth a buffer that is used again; larger ones than the second no Blosc chunk holds. */
const WORTH = 64 << 10;
const MOST = 2 ** 31 - 1;

/** Buffers that are free, for the next shard too, of whatever array: new memory costs about as much to get as to encode into. */
const shelf = new BufferShelf();

export class ChunkRooms {
  /** Bytes of a room; 0: the encoder makes no chunks that could be in one. */
  readonly #length: number;
  /** Whether buffers are kept. */
  readonly #isKeeping: boolean;
  #store: PieceRooms | undefined;
  /** The store's memory: not ours to keep. */
  #theirs: ArrayBuffer | undefined;

  constructor({ chunkShape, inner, index }: ShardingSerializer, itemSize: number) {
    const nbytes = chunkShape.reduce((product, n) => product * n, itemSize);
    const isUseful = index.location === "end" && nbytes <= MOST && makesOwnBuffer(inner);
    this.#length = isUseful ? nbytes + HEADER_LENGTH : 0;
    this.#isKeeping = isUseful && nbytes >= WORTH;
  }

  /** From now on chunks are made in the store's rooms, where they fit. */
  use(rooms: PieceRooms): void {
    if (this.#length > 0) this.#store = rooms;
  }

  take(): Uint8Array<ArrayBuffer> | undefined {
    const theirs = this.#store?.take(this.#length);
    this.#theirs = theirs?.buffer;
    if (theirs !== undefined || !this.#isKeeping) return theirs;
    return new Uint8Array(shelf.take(this.#length) ?? new ArrayBuffer(this.#length));
  }

  /** Takes the room of a chunk back that nobody needs any more. */
  give({ buffer }: Uint8Array): void {
    const isOurs = this.#isKeeping && buffer instanceof ArrayBuffer && buffer !== this.#theirs;
    if (isOurs && buffer.byteLength >= this.#length) shelf.put(buffer);
  }
}

/** True where the last step is a Blosc encoder, whose results nobody else has. */
function makesOwnBuffer({ serializer, stages }: Chain): boolean {
  return serializer.kind === "bytes" && stages.length === 1 && stages[0]?.isBlosc === true;
}
