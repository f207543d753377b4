/** Foreign readers of every age next to a writer, and what they may find. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { FileStore } from "../../../src/node/index.ts";
import {
  beginShards,
  type Document,
  finishReading,
  type Range,
  readAt,
  readDocument,
  readForeign,
  readRange,
  type ShardReading,
} from "./foreign-reader.ts";

/** Maximum number of unfinished reads, and of files held open. */
const KEPT_READINGS = 200;
const KEPT_FILES = 100;
/** Readers merge ranges that are this close, and use what a shorter file gives for both. */
const JOINED_BYTES = 1 << 20;

/** The values of each of the array's Zarr arrays, by its path below the array. */
export async function blzValues(root: string): Promise<Map<string, readonly number[]>> {
  const array = await open(new FileStore(root), "");
  try {
    if (array.kind !== "array") throw new TypeError(array.kind);
    const values = new Map<string, readonly number[]>();
    for (const name of array.columnNames.length === 0 ? [""] : array.columnNames) {
      const bytes = await (name === "" ? array : array.column(name)).getBytes();
      values.set(name, [...new Int32Array(bytes.slice().buffer)]);
    }
    return values;
  } finally {
    await array.close();
  }
}

/** Paths of the Zarr arrays that the root's document names; undefined if there is none. */
export function shownNodes(root: string): readonly string[] | undefined {
  if (!fs.existsSync(join(root, "zarr.json"))) return undefined;
  const document = JSON.parse(fs.readFileSync(join(root, "zarr.json"), "utf8")) as {
    readonly consolidated_metadata?: { readonly metadata: object };
  };
  return document.consolidated_metadata === undefined
    ? [""]
    : Object.keys(document.consolidated_metadata.metadata);
}

/** Everything that is shown as Zarr. Throws if a value cannot be read. */
export async function zarrValues(root: string): Promise<Map<string, readonly number[]> | undefined> {
  const nodes = shownNodes(root);
  if (nodes === undefined) return undefined;
  const values = new Map<string, readonly number[]>();
  for (const node of nodes) values.set(node, await readForeign(join(root, node)));
  return values;
}

export const sorted = (values: Map<string, readonly number[]> | undefined): unknown =>
  values && [...values].sort(([a], [b]) => (a < b ? -1 : 1));

interface KnownDocument {
  readonly node: string;
  readonly document: Document;
}

/** What a reader found in a shard. */
interface Finding {
  readonly node: string;
  readonly reading: ShardReading;
  readonly values: readonly (number | undefined)[];
}

/**
 * Readers of earlier states: each document, and each index with what it gave. With `random` some of them continue
 * while the writer is at work: a document of any age, an index as old or younger, and then a chunk.
 */
export class Readers {
  readonly #root: string;
  readonly #random: (() => number) | undefined;
  readonly documents = new Map<string, KnownDocument>();
  readonly #begun: { readonly node: string; readonly reading: ShardReading }[] = [];
  readonly #found: Finding[] = [];
  readonly #ranges = new Map<string, { readonly node: string; readonly range: Range; bytes: Uint8Array }>();
  readonly #files = new Map<number, fs.BigIntStats>();
  readonly #inodes = new Set<bigint>();
  /** All values that a row of a node ever had. */
  readonly #had = new Map<string, Set<number>[]>();
  looks = 0;
  /** Values after the last row that are the fill value, although rows were there once. */
  lost = 0;

  constructor(root: string, random?: () => number) {
    this.#root = root;
    this.#random = random;
    onTestFinished(() => {
      for (const file of this.#files.keys()) fs.closeSync(file);
    });
  }

  /** Records values that readers may find, from a row on. */
  note(values: ReadonlyMap<string, Iterable<number>>, first = 0): void {
    for (const [node, items] of values) {
      const had = this.#had.get(node) ?? [];
      this.#had.set(node, had);
      let i = first;
      for (const value of items) {
        had[i] = (had[i] ?? new Set()).add(value);
        i++;
      }
    }
  }

  /** Begins to read, and checks that no byte range was reused, and no file under the same name. */
  async look(): Promise<void> {
    this.looks++;
    const random = this.#random;
    for (const node of shownNodes(this.#root) ?? []) {
      const document = readDocument(join(this.#root, node));
      this.documents.set(`${node} ${JSON.stringify(document)}`, { node, document });
      await this.#begin({ node, document });
    }
    if (random === undefined) this.#checkRanges();
    else {
      for (const known of this.#draw([...this.documents.values()], 2)) await this.#begin(known);
      for (const { node, reading } of this.#draw(this.#begun, 3)) await this.#finish(node, reading);
      if (random() < 0.2) this.#checkRanges();
    }
  }

  /** Some of a list, or all if nothing is drawn. */
  #draw<T>(list: readonly T[], count: number): readonly T[] {
    const random = this.#random;
    if (random === undefined || list.length <= count) return list;
    return Array.from({ length: count }, () => list[Math.floor(random() * list.length)] as T);
  }

  async #begin({ node, document }: KnownDocument): Promise<void> {
    const folder = join(this.#root, node);
    for (const reading of await beginShards(folder, document)) {
      this.#begun.push({ node, reading });
      for (const range of reading.chunks) {
        if (range === undefined) continue;
        this.#holdFile(join(folder, range.shard));
        const key = `${node} ${range.shard} ${range.offset} ${range.nbytes}`;
        if (!this.#ranges.has(key))
          this.#ranges.set(key, { node, range, bytes: readRange(folder, range).slice() });
      }
    }
    // The oldest are kept as long as any others.
    while (this.#random !== undefined && this.#begun.length > KEPT_READINGS)
      this.#begun.splice(Math.floor(this.#random() * this.#begun.length), 1);
  }

  /** Opens a file once, as readers do that read a whole shard at a time. */
  #holdFile(path: string): void {
    if (this.#files.size >= KEPT_FILES) return;
    const facts = fs.statSync(path, { bigint: true });
    if (this.#inodes.has(facts.ino)) return;
    this.#inodes.add(facts.ino);
    this.#files.set(fs.openSync(path, "r"), facts);
  }

  #checkRanges(): void {
    const files = new Map<string, number>();
    for (const { node, range, bytes } of this.#ranges.values()) {
      const path = join(this.#root, node, range.shard);
      const file = files.get(path) ?? fs.openSync(path, "r");
      files.set(path, file);
      const now = readAt(file, range);
      if (Buffer.compare(now, bytes) === 0) continue;
      if (now.some((byte) => byte !== 0)) expect.fail(`${node}: ${JSON.stringify(range)} was used anew`);
      const { size } = fs.fstatSync(file);
      const isNote = size < 32 && fs.readFileSync(path, "utf8").startsWith("gone ");
      if (now.length < bytes.length && !isNote && range.offset < size + JOINED_BYTES)
        expect.fail(`${node}: ${JSON.stringify(range)} is past ${size} bytes, and near them`);
    }
    for (const file of files.values()) fs.closeSync(file);
    for (const [file, { size, mtimeNs }] of this.#files) {
      const now = fs.fstatSync(file, { bigint: true });
      if (now.size !== size || now.mtimeNs !== mtimeNs) expect.fail("a file was changed after it had a name");
    }
  }

  async #finish(node: string, reading: ShardReading): Promise<void> {
    const values = await finishReading(join(this.#root, node), reading);
    this.#found.push({ node, reading, values });
  }

  /**
   * Finishes earlier reads, by the documents and indexes of that time: every value is one that the row had, or an
   * error; or the fill value at the end of one chunk [FY-11]. Returns the values that were right.
   */
  async check(label: string): Promise<number> {
    this.#checkRanges();
    for (const { node, reading } of this.#draw(this.#begun, 30)) await this.#finish(node, reading);
    if (this.#random === undefined) this.#begun.length = 0;
    let right = 0;
    for (const { node, reading, values } of this.#found.splice(0))
      right += this.#compare(label, node, reading, values);
    for (const { node, document } of this.#draw([...this.documents.values()], 10))
      for (const reading of await beginShards(join(this.#root, node), document)) {
        const values = await finishReading(join(this.#root, node), reading);
        right += this.#compare(label, node, reading, values);
      }
    return right;
  }

  #compare(label: string, node: string, reading: ShardReading, values: Finding["values"]): number {
    const { first, rowItems, fill, chunkRows } = reading;
    const had = this.#had.get(node) ?? [];
    const others: number[] = [];
    let right = 0;
    for (const [i, value] of values.entries()) {
      if (value === undefined) continue;
      if (had[first * rowItems + i]?.has(value) === true) right++;
      else others.push(i);
    }
    const chunks = new Set(others.map((i) => Math.floor(i / rowItems / chunkRows)));
    const end = (Math.min(...chunks) + 1) * chunkRows * rowItems;
    const isLost = chunks.size === 1 && values.slice(others[0], end).every((value) => value === fill);
    if (others.length > 0 && !isLost)
      expect.fail(
        `${label}: ${node} from ${first * rowItems}: ${others.map((i) => `[${i}] is ${values[i]}`)}`,
      );
    this.lost += others.length;
    return right;
  }

  /**
   * Reads by documents of any age, while no writer is at work: what is there now is seen as it is now, or is an
   * error to readers with the document of other chunks; the rest is what {@link check} allows, only past the last
   * row.
   */
  async checkNow(label: string, now: ReadonlyMap<string, readonly number[]>): Promise<void> {
    for (const { node, document } of this.#draw([...this.documents.values()], 10)) {
      const current = now.get(node);
      const folder = join(this.#root, node);
      const values = new Array<number | undefined>(document.shape.reduce((product, n) => product * n, 1));
      for (const reading of await beginShards(folder, document)) {
        const found = await finishReading(folder, reading);
        this.#compare(label, node, reading, found);
        values.splice(reading.first * reading.rowItems, found.length, ...found);
      }
      if (current === undefined) continue;
      const isCurrent = chunksOf(document) === chunksOf(readDocument(folder));
      for (const [i, value] of values.slice(0, current.length).entries())
        if (value !== current[i] && (isCurrent || value !== undefined))
          expect.fail(`${label}: ${node}[${i}] is ${value}, and ${current[i]} is stored`);
    }
  }
}

/** How a document cuts rows into chunks and shards. */
function chunksOf({ chunk_grid, codecs }: Document): string {
  return JSON.stringify([chunk_grid.configuration.chunk_shape, codecs[0].configuration.chunk_shape]);
}
