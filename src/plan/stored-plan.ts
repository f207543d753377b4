/**
 * A plan as it is stored: one file, or a folder with a head and parts, which have a line of JSON for each source.
 *
 * A process that runs a share digests all lines, but parses only its own: of very many sources, most lines say only how large the
 * source is. Must not know how a plan is run.
 */
import { at, joinBytes } from "../bytes/arrays.ts";
import { textDigest } from "../bytes/checksum.ts";
import { removeLeftoversOf } from "../convert/run/destination.ts";
import { SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { mapAhead } from "../store/pool.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { assertShare, type SharedPlan, type SharedSource, type SizedSource, Units } from "./plan.ts";
import { parseOwn, type ShareNumber } from "./receipts.ts";

/** Sources in one part of a plan's folder. */
const PART = 10_000;
/** Name of the head in a plan's folder. */
export const PLAN_HEAD = "plan.json";

/** A plan that was read. */
export interface StoredPlan {
  /** Of a plan that was read for a share, only its sources, and the first that can be planned, are there. */
  readonly plan: SharedPlan;
  /** The units of the whole plan. Absent: count them. */
  readonly units?: Units;
  /** What `digestOfPlan` makes of the whole plan. Absent: compute it. */
  readonly digest?: string;
}

export async function storePlan(
  { sources, ...head }: SharedPlan,
  store: WritableStore,
  path: string,
  isFile: boolean,
): Promise<void> {
  const parts: string[] = [];
  for (let first = 0; !isFile && first < sources.length; first += PART) {
    const name = `sources-${String(parts.length).padStart(5, "0")}.jsonl`;
    const lines = sources.slice(first, first + PART).map((each) => JSON.stringify(each));
    await store.put(joinKey(path, name), new TextEncoder().encode(`${lines.join("\n")}\n`));
    parts.push(name);
  }
  const key = isFile ? path : joinKey(path, PLAN_HEAD);
  const text = JSON.stringify({ ...head, ...(isFile ? { sources } : { parts, count: sources.length }) });
  await store.put(key, new TextEncoder().encode(`${text}\n`), { ifAbsent: true });
  // Others that write these now would fail anyway.
  await removeLeftoversOf(store, [key, ...parts.map((name) => joinKey(path, name))]);
}

/** Reads a plan, or what a share of it needs. Throws `NOT_FOUND` if there is none, and `BAD_FIELD` for a plan of another version. */
export async function readPlan(
  store: ReadableStore,
  path: string,
  share: ShareNumber | undefined,
): Promise<StoredPlan> {
  assertShare(share);
  const whole = path === "" ? undefined : await store.get(path);
  const key = whole === undefined ? joinKey(path, PLAN_HEAD) : path;
  const bytes = whole ?? (await store.get(key));
  if (bytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "found no plan here; superchunk plan makes one", {
      path: store.describe(path),
    });
  const text = new TextDecoder().decode(bytes);
  const head = parseHead(text, store.describe(key));
  const wrong = (field: string, expected: string): SuperchunkError =>
    new SuperchunkError("BAD_FIELD", `this is not a plan of this version: ${field} is not ${expected}`, {
      path: store.describe(key),
      field,
    });
  if (head["version"] !== 1) throw wrong("version", "1");
  const names = head["parts"];
  if (!Array.isArray(names)) {
    if (!Array.isArray(head["sources"])) throw wrong("sources", "a list");
    return { plan: head as unknown as SharedPlan };
  }
  const { parts: _, count, id, ...facts } = head as unknown as SharedPlan & JsonObject;
  const lines = await readLines(store, path, names as readonly string[]);
  if (lines.count !== count) throw wrong("count", `${lines.count}, the number of its sources`);
  const digest = await lines.digest(facts);
  if (share === undefined) return { plan: { ...facts, sources: lines.parseAll(), id }, digest };
  const sized = lines.parseSizes();
  const units = new Units({ sources: sized });
  // Whether a plan is finished shows at the first source that can be planned.
  const wanted = new Set([sized.findIndex(({ failure }) => failure === undefined)]);
  for (const unit of units.share(share.k - 1, share.n)) wanted.add(units.place(unit).source);
  wanted.delete(-1);
  return { plan: { ...facts, sources: lines.parse(wanted), id }, units, digest };
}

/** Throws `NOT_FOUND` for what is not a plan, and errors of JSON for a plan that was cut off. */
function parseHead(text: string, path: string): JsonObject {
  try {
    const head = parseOwn(text, path) as JsonObject | null;
    if (head?.["format"] === "superchunk-plan") return head;
  } catch (error) {
    if (text.startsWith('{"format":"superchunk-plan"')) throw error;
  }
  throw new SuperchunkError("NOT_FOUND", "this file is not a plan; superchunk plan makes one", { path });
}

async function readLines(store: ReadableStore, folder: string, names: readonly string[]): Promise<Lines> {
  const read = async (name: string): Promise<Uint8Array> => {
    const key = joinKey(folder, name);
    const bytes = await store.get(key);
    if (bytes !== undefined) return bytes;
    throw new SuperchunkError("INCOMPLETE", "a part of the plan is missing; plan again", {
      path: store.describe(key),
    });
  };
  const parts: Uint8Array[] = [];
  for await (const part of mapAhead(names, 4, read)) parts.push(part);
  return new Lines(
    parts,
    names.map((name) => store.describe(joinKey(folder, name))),
  );
}

const [LINE_FEED, COMMA, CLOSING_BRACKET, CLOSING_BRACE] = [10, 44, 93, 125];
const NBYTES = '"nbytes":';

/** The lines of a plan's parts. */
class Lines {
  readonly count: number;
  readonly #parts: readonly Uint8Array[];
  readonly #lines: readonly (readonly string[])[];
  /** Names of the parts in messages. */
  readonly #names: readonly string[];

  constructor(parts: readonly Uint8Array[], names: readonly string[]) {
    this.#parts = parts;
    this.#names = names;
    this.#lines = parts.map((part) => new TextDecoder().decode(part).trimEnd().split("\n"));
    this.count = this.#lines.reduce((sum, { length }) => sum + length, 0);
  }

  /** As `digestOfPlan` of the whole plan: the JSON of the sources is the list of the lines. */
  digest(facts: object): Promise<string> {
    const head = new TextEncoder().encode(`${JSON.stringify(facts).slice(0, -1)},"sources":[`);
    const bytes = joinBytes([head, ...this.#parts, new Uint8Array([CLOSING_BRACE])]);
    for (let i = bytes.indexOf(LINE_FEED); i >= 0; i = bytes.indexOf(LINE_FEED, i + 1)) bytes[i] = COMMA;
    bytes[bytes.length - 2] = CLOSING_BRACKET;
    return textDigest(bytes);
  }

  /** All sources. All lines of a part at once take a fifth less time than one by one. */
  parseAll(): SharedSource[] {
    return this.#lines.flatMap(
      (lines, part) => parseOwn(`[${lines.join(",")}]`, at(this.#names, part)) as SharedSource[],
    );
  }

  /** Some sources, each at its index. */
  parse(wanted: ReadonlySet<number>): SharedSource[] {
    const sources = new Array<SharedSource>(this.count);
    let index = 0;
    for (const [part, lines] of this.#lines.entries())
      for (const line of lines) {
        if (wanted.has(index)) sources[index] = this.#parseLine(line, part);
        index++;
      }
    return sources;
  }

  /** What the units of each source depend on. If the size is the last member of a line, the source has neither tasks nor a failure. */
  parseSizes(): SizedSource[] {
    return this.#lines.flatMap((lines, part) =>
      lines.map((line) => {
        const nbytes = Number(line.slice(line.lastIndexOf(NBYTES) + NBYTES.length, -1));
        return Number.isSafeInteger(nbytes) ? { nbytes } : this.#parseLine(line, part);
      }),
    );
  }

  #parseLine(line: string, part: number): SharedSource {
    return parseOwn(line, at(this.#names, part)) as SharedSource;
  }
}
