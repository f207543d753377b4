/**
 * A store in memory that loses power on request: what was not synced may then be there, be missing, or be torn.
 *
 * Knows what file systems promise: a synced object stays; a new name is durable once its folder is synced; otherwise
 * anything can happen, in any order, except that single sectors are whole. Must not know what is stored.
 */
import { SuperchunkError } from "../../src/errors.ts";
import { splitKey } from "../../src/store/key.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { collectSource } from "../../src/store/source.ts";
import type {
  ByteRange,
  ListEntry,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "../../src/store/types.ts";

/** Bytes that reach the disk together or not at all. */
const SECTOR = 512;

/** When the power goes. */
export interface PowerCut {
  /** The step before which it fails, from 1; Infinity for never. */
  readonly failAt: number;
  /** Chooses what happens to unsynced data: numbers from 0 up to 1. */
  readonly random: () => number;
}

/** The possible states of one key. */
interface Unsure {
  /** Its possible contents, in the order in which they were written; undefined: no object. */
  readonly states: (Uint8Array | undefined)[];
  /** The data themselves are not synced: any mixture of sectors of the last two states. */
  isTorn: boolean;
}

/** Objects in memory, and which of them would survive. */
export class VolatileStore implements WritableStore {
  readonly #cut: PowerCut;
  readonly #visible: MemoryStore;
  readonly #durable = new Map<string, Uint8Array>();
  readonly #unsure = new Map<string, Unsure>();
  #steps = 0;
  #isDead = false;

  /** Starts with objects that are durable. */
  constructor(objects: Iterable<readonly [string, Uint8Array]>, cut: PowerCut) {
    const list = [...objects];
    this.#cut = cut;
    this.#visible = new MemoryStore(list, "volatile:");
    for (const [key, bytes] of list) this.#durable.set(key, bytes.slice());
  }

  /** Steps made so far. */
  get steps(): number {
    return this.#steps;
  }

  /** True once the power has failed. */
  get isDead(): boolean {
    return this.#isDead;
  }

  /** What is on the disk if the power fails now. */
  image(): Map<string, Uint8Array> {
    const image = new Map(this.#durable);
    for (const [key, unsure] of this.#unsure) {
      const bytes = this.#choose(unsure);
      if (bytes === undefined) image.delete(key);
      else image.set(key, bytes);
    }
    return image;
  }

  describe(key: string): string {
    return this.#visible.describe(key);
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    this.#live(key);
    return this.#visible.get(key, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    this.#live(key);
    return this.#visible.getRange(key, range, options);
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    this.#live(key);
    return this.#visible.stat(key, options);
  }

  async *list(folder: string, options?: StoreOptions): AsyncIterable<ListEntry> {
    this.#live(folder);
    yield* this.#visible.list(folder, options);
  }

  /** Written and synced under another name, renamed, and the folder synced: as a file system does it. */
  async put(key: string, source: PutSource, options: PutOptions = {}): Promise<ObjectInfo> {
    const { durable = true } = options;
    const bytes = await collectSource(source, options.signal);
    this.#step(key);
    const info = await this.#visible.put(key, bytes, options);
    this.#note(key, bytes, !durable);
    if (durable) {
      this.#step(key);
      this.#settle(key, bytes);
    }
    return info;
  }

  /** There are no other processes. */
  claim<T>(_key: string, work: () => Promise<T>): Promise<T> {
    return work();
  }

  async delete(key: string, options?: StoreOptions): Promise<void> {
    this.#step(key);
    await this.#visible.delete(key, options);
    this.#note(key, undefined, false);
  }

  async link(from: string, to: string, kind: "hard" | "symbolic" | "copy"): Promise<void> {
    this.#step(to);
    await this.#visible.link(from, to, kind);
    const bytes = (await this.#visible.get(to)) ?? new Uint8Array(0);
    this.#note(to, bytes, false);
    this.#step(to);
    this.#settle(to, bytes);
  }

  async rename(from: string, to: string, options?: StoreOptions): Promise<void> {
    this.#step(to);
    await this.#visible.rename(from, to, options);
    const bytes = (await this.#visible.get(to)) ?? new Uint8Array(0);
    this.#note(from, undefined, false);
    this.#note(to, bytes, false);
    this.#step(to);
    this.#settle(to, bytes);
    this.#settle(from, undefined);
  }

  async writeRange(key: string, offset: number, bytes: Uint8Array, options?: StoreOptions): Promise<void> {
    const before = await this.#visible.get(key);
    this.#live(key);
    await this.#visible.writeRange(key, offset, bytes, options);
    const after = (await this.#visible.get(key)) ?? new Uint8Array(0);
    const unsure = this.#unsure.get(key) ?? { states: [this.#durable.get(key) ?? before], isTorn: true };
    unsure.states.push(after);
    unsure.isTorn = true;
    this.#unsure.set(key, unsure);
    this.#step(key);
  }

  async sync(keys: readonly string[], options?: StoreOptions): Promise<void> {
    this.#step(keys[0] ?? "");
    await this.#visible.sync(keys, options);
    for (const key of keys) this.#settle(key, await this.#visible.get(key));
    for (const [key, { states }] of [...this.#unsure]) {
      if (states.at(-1) !== undefined) continue;
      this.#unsure.delete(key);
      this.#keep(key, undefined);
    }
  }

  async removeLeftovers(): Promise<void> {
    this.#live("");
  }

  /** The power fails before this step has an effect. */
  #step(key: string): void {
    this.#live(key);
    if (++this.#steps < this.#cut.failAt) return;
    this.#isDead = true;
    this.#live(key);
  }

  #live(key: string): void {
    if (this.#isDead)
      throw new SuperchunkError("IO", `the power is gone (step ${this.#steps})`, {
        path: this.describe(key),
      });
  }

  #note(key: string, bytes: Uint8Array | undefined, isTorn: boolean): void {
    const unsure = this.#unsure.get(key) ?? { states: [this.#durable.get(key)], isTorn };
    unsure.states.push(bytes);
    unsure.isTorn = isTorn;
    this.#unsure.set(key, unsure);
  }

  /** Makes a key durable, and with its folder the names in it. */
  #settle(key: string, bytes: Uint8Array | undefined): void {
    this.#unsure.delete(key);
    this.#keep(key, bytes);
    const { folder } = splitKey(key);
    for (const [other, unsure] of [...this.#unsure]) {
      if (unsure.isTorn || splitKey(other).folder !== folder) continue;
      this.#unsure.delete(other);
      this.#keep(other, unsure.states[unsure.states.length - 1]);
    }
  }

  #keep(key: string, bytes: Uint8Array | undefined): void {
    if (bytes === undefined) this.#durable.delete(key);
    else this.#durable.set(key, bytes);
  }

  #choose({ states, isTorn }: Unsure): Uint8Array | undefined {
    const { random } = this.#cut;
    const chosen = states[Math.min(states.length - 1, Math.floor(random() * states.length))];
    if (!isTorn || chosen === undefined) return chosen;
    // Each sector may be of any time, and bytes added at the end may be cut off.
    const longest = states.reduce((most, state) => Math.max(most, state?.length ?? 0), 0);
    const torn = new Uint8Array(longest);
    for (let at = 0; at < longest; at += SECTOR) {
      const state = states[Math.min(states.length - 1, Math.floor(random() * states.length))];
      if (state !== undefined) torn.set(state.subarray(at, at + SECTOR), at);
    }
    const least = states[0]?.length ?? 0;
    const length = least + Math.floor(random() * (longest - least + 1));
    return torn.slice(0, random() < 0.5 ? longest : Math.max(length, Math.min(least, longest)));
  }
}
