/** The chunks of fixtures/blosc, as their producers wrote them. */
import { readdirSync, readFileSync } from "node:fs";

export interface FixtureChunk {
  /** Producer and settings, for test names and messages. */
  readonly name: string;
  readonly chunk: Uint8Array;
  readonly cname: string;
  readonly shuffle: string;
  readonly typesize: number;
  readonly nbytes: number;
  readonly sha256: string;
}

interface Entry {
  readonly sample: string;
  readonly cname: string;
  readonly clevel: number;
  readonly shuffle: string;
  readonly typesize: number;
  readonly nbytes: number;
  readonly offset: number;
  readonly length: number;
  readonly sha256: string;
}

const FOLDER = new URL("../../fixtures/blosc/", import.meta.url);

/** Names of the producers: one pair of files for each. */
export function listProducers(): readonly string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.startsWith("c-blosc-") && name.endsWith(".json"))
    .map((name) => name.slice(0, -".json".length));
}

export function readFixtureChunks(producer: string): readonly FixtureChunk[] {
  const bytes = new Uint8Array(readFileSync(new URL(`${producer}.bin`, FOLDER)));
  const manifest = JSON.parse(readFileSync(new URL(`${producer}.json`, FOLDER), "utf8")) as {
    chunks: Entry[];
  };
  return manifest.chunks.map((entry) => ({
    ...entry,
    name: `${producer} ${entry.sample} ${entry.cname}-${entry.clevel} ${entry.shuffle} ${entry.typesize}`,
    chunk: bytes.subarray(entry.offset, entry.offset + entry.length),
  }));
}
