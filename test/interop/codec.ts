/**
 * Chunks that we encode, or replace bytes in, are decoded by c-blosc, and chunks that c-blosc encodes are decoded by
 * us.
 *
 * Covers compressors, shuffles, type sizes, lengths and kinds of data. python-blosc has no snappy; Debian's c-blosc,
 * which not every machine has, does.
 */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type ByteEdit,
  type CompressorName,
  decode,
  encode,
  prepare,
  replaceBytes,
  type Shuffle,
} from "../../src/codec/index.ts";
import type { Job } from "./answers.ts";
import type { PeerName } from "./peers.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
/** In the order of their numbers in c-blosc. */
const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];
const TYPE_SIZES = [1, 2, 3, 4, 8, 16, 255];
/** Around the minimum that is compressed, blocks that do not end on items, several blocks with a short last one. */
const LENGTHS = [0, 1, 15, 127, 128, 4096, 100_003];
/** Long enough that every compressor has several blocks at any level. */
const LONG = 4_194_304 + 24;

interface Settings {
  readonly cname: CompressorName;
  readonly clevel: number;
  readonly shuffle: Shuffle;
  readonly typesize: number;
}

interface Case {
  readonly name: string;
  readonly settings: Settings;
  readonly data: Uint8Array;
}

export const codec: Suite = {
  name: "codec",
  peers: ["python-blosc", "c-blosc"],
  async run(context) {
    const cases = listCases();
    await proveEncoder(context, cases);
    await proveReplacing(context, cases);
    await proveDecoder(context, cases);
  },
};

/** What we encode is decoded by both. */
async function proveEncoder(context: SuiteContext, cases: readonly Case[]): Promise<void> {
  const chunks: Uint8Array[] = [];
  for (const { data, settings } of cases) chunks.push(await encode(data, settings));
  await expectDecoded(context, "ours", cases, chunks);
}

/** Chunks of ours in which some bytes were replaced: single elements, a run, a pattern over more than a block. */
async function proveReplacing(context: SuiteContext, cases: readonly Case[]): Promise<void> {
  const changed: Case[] = [];
  const chunks: Uint8Array[] = [];
  for (const { name, settings, data } of cases) {
    if (data.length < 4096) continue;
    await prepare(settings.cname === "lz4hc" ? "lz4" : settings.cname);
    const half = data.length >> 1;
    const edits: readonly (readonly ByteEdit[])[] = [
      [{ at: half, bytes: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8) }],
      [
        { at: data.length - 1, bytes: Uint8Array.of(255) },
        { at: 3, bytes: DATA.random(1000) },
        { at: half, bytes: Uint8Array.of(7, 0, 0), length: half },
      ],
    ];
    const chunk = await encode(data, settings);
    for (const list of edits) {
      const after = data.slice();
      for (const { at, bytes, length = bytes.length } of list)
        for (let i = 0; i < length; i++) after[at + i] = bytes[i % bytes.length] ?? 0;
      chunks.push(replaceBytes(chunk, list, settings));
      changed.push({ name: `${name}, bytes replaced ${list.length} times`, settings, data: after });
    }
  }
  await expectDecoded(context, "replaced", changed, chunks);
}

async function expectDecoded(
  { checks, folder, peer }: SuiteContext,
  file: string,
  cases: readonly Case[],
  chunks: readonly Uint8Array[],
): Promise<void> {
  const jobs = await storeInOne(join(folder, file), chunks);
  for (const name of ["python-blosc", "c-blosc"] as const) {
    const answers = (await peer(name)?.read(jobs)) ?? [];
    for (const [index, answer] of answers.entries()) {
      const tried = cases[index];
      if (tried === undefined) continue;
      if (refuses(name, tried, chunks[index])) checks.refused(`${name} refuses ${tried.name}`, answer);
      else
        checks.values(`${name} decodes ${tried.name}`, answer, {
          shape: [tried.data.length],
          sha256: hash(tried.data),
        });
    }
  }
}

/** What both encode is decoded by us. */
async function proveDecoder({ checks, folder, peer }: SuiteContext, cases: readonly Case[]): Promise<void> {
  const sources = await storeInOne(
    join(folder, "data"),
    cases.map(({ data }) => data),
  );
  for (const name of ["python-blosc", "c-blosc"] as const) {
    const able = cases.flatMap((tried, index) => {
      const source = sources[index];
      return source === undefined || (name === "python-blosc" && tried.settings.cname === "snappy")
        ? []
        : [{ tried, source }];
    });
    const jobs = able.map(({ tried: { settings }, source }, index) => ({
      ...source,
      to: join(folder, `${name}-${index}`),
      encode: { ...settings, shuffle: SHUFFLES.indexOf(settings.shuffle) },
    }));
    const answers = (await peer(name)?.read(jobs)) ?? [];
    for (const [index, answer] of answers.entries()) {
      const tried = able[index]?.tried;
      const job = jobs[index];
      if (tried === undefined || job === undefined) continue;
      const what = `we decode ${tried.name} of ${name}`;
      if (answer.kind === "error") {
        checks.fail(what, answer.error);
        continue;
      }
      try {
        checks.equal(what, hash(await decode(await readFile(job.to))), hash(tried.data));
      } catch (error) {
        checks.fail(what, String(error));
      }
    }
  }
}

/** python-blosc has no snappy, but a stored chunk needs none. */
function refuses(name: PeerName, { settings }: Case, chunk: Uint8Array | undefined): boolean {
  const isStored = ((chunk?.[2] ?? 0) & 2) !== 0;
  return name === "python-blosc" && settings.cname === "snappy" && !isStored;
}

/** Pieces in one file, and the jobs that read each. */
async function storeInOne(path: string, pieces: readonly Uint8Array[]): Promise<Job[]> {
  await writeFile(path, Buffer.concat(pieces));
  let at = 0;
  return pieces.map(({ length }) => {
    const offset = at;
    at += length;
    return { path, offset, length };
  });
}

function listCases(): Case[] {
  const cases: Case[] = [];
  const add = (settings: Settings, kind: keyof typeof DATA, length: number): void => {
    const { cname, clevel, shuffle, typesize } = settings;
    const name = `${kind} of ${length} bytes with ${cname} ${clevel}, ${shuffle}, typesize ${typesize}`;
    cases.push({ name, settings, data: DATA[kind](length) });
  };
  for (const cname of COMPRESSORS) {
    for (const shuffle of SHUFFLES) {
      for (const typesize of TYPE_SIZES) {
        for (const length of LENGTHS) {
          // Levels alternate, including level 0 (which only stores).
          const clevel = [5, 1, 9, 0, 7][cases.length % 5] ?? 5;
          for (const kind of ["prices", "random", "zeros"] as const)
            add({ cname, clevel, shuffle, typesize }, kind, length);
        }
      }
      add({ cname, clevel: 5, shuffle, typesize: 8 }, "prices", LONG);
    }
  }
  return cases;
}

/** Kinds of data, the same in each run. */
const DATA = {
  /** A float64 random walk, as typical archives hold. */
  prices(length: number): Uint8Array {
    const values = new Float64Array(Math.ceil(length / 8));
    const next = randomNumbers(length);
    let price = 100;
    for (let at = 0; at < values.length; at++) {
      price += (next() % 200) / 100 - 1;
      values[at] = Math.round(price * 100) / 100;
    }
    return new Uint8Array(values.buffer, 0, length);
  },
  random(length: number): Uint8Array {
    const next = randomNumbers(length);
    return Uint8Array.from({ length }, () => next() >>> 24);
  },
  zeros(length: number): Uint8Array {
    return new Uint8Array(length);
  },
};

/** xorshift32. */
function randomNumbers(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state;
  };
}

function hash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
