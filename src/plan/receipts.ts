/**
 * Receipts of a shared plan, beside the destination: which units are done, what was written, and what failed.
 *
 * Each process writes its own objects, with one line of JSON for each unit; so many receipts are read with a listing and few
 * requests, and no two processes write the same object. A receipt is written after what it names is durable. A lost one costs
 * time but no data: its unit is run again, and makes the same bytes.
 */

import type { DamageReport } from "../archive/kinds/types.ts";
import type { ChunkCounts, Failure, NodeFailure, Receipt, SourceResult } from "../convert/pipeline.ts";
import { isSuperchunkError } from "../errors.ts";
import { parseJson, stringifyJson } from "../format/json.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, splitKey } from "../store/key.ts";
import { mapAhead } from "../store/pool.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";

/** Most receipts in one object, which is rewritten as it grows. */
const MOST_LINES = 512;
/** Most times that one object is written. If receipts come one by one, an object of few lines costs little each time. */
const MOST_WRITES = 64;
/** Objects read at a time. */
const READ_AHEAD = 16;
/** Milliseconds after which a running process writes its state again even if no unit has ended. */
export const REPORT_EVERY = 30_000;
/** Milliseconds between checks whether that is due. */
const CHECK_EVERY = 1000;

export interface UnitReceipt {
  readonly unit: number;
  /** Digest of the source's state that was read. */
  readonly source: string;
  readonly objects?: readonly Receipt[];
  /** For a task: what happened to chunks, and what was lost. */
  readonly counts?: ChunkCounts;
  readonly notes?: readonly string[];
  /** For a whole source. */
  readonly result?: SourceResult;
  /** Nodes of the source that were skipped. */
  readonly left?: readonly NodeFailure[];
  /** Number of its documents, and the documents by path, if the root document may repeat them. */
  readonly nodes?: number;
  readonly described?: readonly (readonly [node: string, document: JsonObject])[];
  /** Losses of a damaged source, if the plan allows them. */
  readonly damage?: readonly DamageReport[];
  /** For a plan that is not a conversion: what was found or done. */
  readonly line?: JsonObject;
  /** Why the unit failed. Another run may succeed if the code is in {@link MAY_PASS}. */
  readonly failure?: Failure;
}

/** Codes of failures that another run may not have: the source was changed or missing, or storage failed. */
export const MAY_PASS: ReadonlySet<string> = new Set(["IO", "CONFLICT", "STALE", "NOT_FOUND"]);

/** One process that runs units. */
export interface WorkerState {
  /** Its unique name. */
  readonly worker: string;
  readonly plan: string;
  /** Milliseconds since 1970. */
  readonly started: number;
  readonly updated: number;
  /** Units in progress, and when the last unit began or ended. */
  readonly running: readonly number[];
  readonly since: number;
  /** True once it has ended its share. */
  readonly ended: boolean;
}

/** Which share a process runs, from 1, and the number of shares. */
export interface ShareNumber {
  readonly k: number;
  readonly n: number;
}

/** True for receipts of another share, of the same number of shares, which their names say: they contain no unit of this one. */
function isOfAnother(name: string, { k, n }: ShareNumber): boolean {
  const [, other, all] = /^(\d+)-of-(\d+)-/.exec(name) ?? [];
  return all === `${n}` && other !== `${k}`;
}

/** Folder of the receipts of a plan whose destination is `path`. */
export function receiptsFolder(path: string, isHierarchy: boolean): string {
  return joinKey(isHierarchy ? joinKey(path, ".superchunk") : folderBeside(path), "receipts");
}

/** Folder for data between the steps of a plan whose result is not a hierarchy; removed with the receipts. */
export function folderBeside(path: string): string {
  const { folder, name } = splitKey(path);
  return joinKey(folder, `.${name}.superchunk`);
}

/** The receipts that one process writes. `progress` gives its units in progress. */
export class ReceiptLog {
  readonly #store: WritableStore;
  readonly #name: string;
  readonly #state: () => Omit<WorkerState, "updated" | "ended">;
  #lines: string[] = [];
  #segment = 0;
  #writes = 0;
  /** When it was last written. */
  #updated = 0;
  #reports: ReturnType<typeof setInterval> | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    store: WritableStore,
    folder: string,
    { k, n }: ShareNumber,
    state: Pick<WorkerState, "worker" | "plan" | "started">,
    progress: () => Pick<WorkerState, "running" | "since">,
  ) {
    this.#store = store;
    this.#name = joinKey(folder, `${n > 1 ? `${k}-of-${n}-` : ""}${state.worker}`);
    this.#state = () => ({ ...state, ...progress() });
  }

  async write(receipts: readonly UnitReceipt[], ended = false): Promise<void> {
    this.#updated = Date.now(); // no report meanwhile, even if the store hangs
    const writing = this.#writing.then(() => this.#put(receipts, ended));
    this.#writing = writing.catch(() => undefined); // thrown to the caller that asked for it
    await writing;
  }

  /** Writes the state whenever it is old, and calls `then`, so that a process with long units is not taken for dead. */
  startReports(then: () => Promise<void>): void {
    let after = CHECK_EVERY; // the state before the first unit says nothing
    const report = async (): Promise<void> => {
      if (Date.now() - this.#updated < after) return;
      after = REPORT_EVERY;
      await this.write([]);
      await then();
    };
    // A failure is harmless, and the next receipts meet it again.
    this.#reports = setInterval(() => void report().catch(() => undefined), CHECK_EVERY);
  }

  endReports(): void {
    clearInterval(this.#reports);
  }

  async #put(receipts: readonly UnitReceipt[], ended: boolean): Promise<void> {
    for (const receipt of receipts) this.#lines.push(lineOf(receipt));
    this.#updated = Date.now();
    const state = { ...this.#state(), updated: this.#updated, ended };
    const text = `${[JSON.stringify(state), ...this.#lines].join("\n")}\n`;
    const key = `${this.#name}-${this.#segment}.jsonl`;
    const put = (): Promise<unknown> => this.#store.put(key, new TextEncoder().encode(text));
    // Another process that finishes the plan may remove the folder meanwhile; what this one then leaves, it removes itself.
    await put().catch((error: unknown) =>
      isSuperchunkError(error, "NOT_FOUND") ? put() : Promise.reject(error),
    );
    this.#writes++;
    if (this.#lines.length < MOST_LINES && (this.#writes < MOST_WRITES || this.#lines.length === 0)) return;
    this.#lines = [];
    this.#writes = 0;
    this.#segment++;
  }
}

/** A receipt as JSON. Data from archives need this library's JSON (large integers, floats); the engine's is much faster. */
function lineOf(receipt: UnitReceipt): string {
  const { described, line, damage } = receipt;
  const isOwn = described === undefined && line === undefined && damage === undefined;
  return isOwn ? JSON.stringify(receipt) : stringifyJson(receipt as unknown as JsonObject);
}

interface ReceiptPlace {
  readonly store: ReadableStore;
  readonly receipts: string;
  readonly plan: { readonly id: string };
  readonly units: { readonly count: number };
}

/** Gets each unit of a plan once: its first receipt without a failure, or its last failure. */
export interface ReceiptReader {
  onReceipt(receipt: UnitReceipt): void;
  onWorker?(state: WorkerState): void;
  /** Reads only objects that may have units of this share. */
  readonly share?: ShareNumber | undefined;
}

/** Reads the receipts of a plan, without unreadable ones of killed processes. Returns why units without a receipt failed. */
export async function readReceipts(
  place: ReceiptPlace,
  { onReceipt, onWorker, share }: ReceiptReader,
): Promise<Map<number, Failure>> {
  const done = new Uint8Array(place.units.count);
  const failed = new Map<number, UnitReceipt>();
  const failing = new Map<number, Failure>();
  for await (const { state, lines } of receiptObjects(place, share)) {
    onWorker?.(state);
    for (const line of lines) {
      const receipt = parseLine<UnitReceipt>(line);
      const unit = receipt?.unit;
      if (receipt === undefined || unit === undefined || !(unit < done.length) || done[unit] === 1) continue;
      if (receipt.failure !== undefined) {
        if (MAY_PASS.has(receipt.failure.code)) failing.set(unit, receipt.failure);
        else failed.set(unit, receipt);
      } else {
        done[unit] = 1;
        failed.delete(unit);
        onReceipt(receipt);
      }
    }
  }
  for (const receipt of failed.values()) onReceipt(receipt);
  for (const unit of [...failing.keys()]) if (done[unit] !== 0 || failed.has(unit)) failing.delete(unit);
  return failing;
}

/** Removes the receipts of units. What another process adds to an object meanwhile may be lost with them: those units run again. */
export async function forgetReceipts(
  place: ReceiptPlace & { readonly store: WritableStore },
  units: ReadonlyMap<number, unknown>,
): Promise<void> {
  for await (const { key, head, lines } of receiptObjects(place)) {
    const kept = lines.filter((line) => !units.has(parseLine<UnitReceipt>(line)?.unit ?? -1));
    if (kept.length < lines.length)
      await place.store.put(key, new TextEncoder().encode([head, ...kept].join("\n")));
  }
}

/** The objects with receipts of a plan; with a share, those that may have its units. */
async function* receiptObjects({ store, receipts: folder, plan: { id } }: ReceiptPlace, share?: ShareNumber) {
  const keys: string[] = [];
  for await (const { name, kind } of store.list(folder))
    if (kind === "object" && name.endsWith(".jsonl") && !(share !== undefined && isOfAnother(name, share)))
      keys.push(joinKey(folder, name));
  const read = async (key: string) => ({ key, bytes: await store.get(key) });
  for await (const { key, bytes } of mapAhead(keys.sort(), READ_AHEAD, read)) {
    const [head = "", ...lines] = new TextDecoder().decode(bytes).split("\n");
    const state = parseLine<WorkerState>(head);
    if (state?.plan === id) yield { key, head, state, lines };
  }
}

function parseLine<T extends object>(line: string | undefined): T | undefined {
  if (line === undefined || line === "") return undefined;
  try {
    const value = parseOwn(line, "receipt");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as T) : undefined;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return undefined;
    throw error;
  }
}

/**
 * Parses JSON written by `plan` and `run`, of which there is much: the engine's parser is fast, and wrong only about large integers.
 */
export function parseOwn(text: string, where: string): unknown {
  if (/[:,[]-?\d{16}/.test(text)) return parseJson(text, where);
  try {
    return JSON.parse(text);
  } catch {
    return parseJson(text, where); // reports where it is not JSON
  }
}
