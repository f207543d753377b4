/**
 * Readers of Zarr in a loop, while an array that keeps itself a Zarr array is appended to, changed, shrunk and
 * compacted, also to other chunks: they get right values or errors, and never a wrong value.
 */
import { join } from "node:path";
import { create as createArray, edit as openWritable } from "../../src/node/edit.ts";
import { verifyLinkAt } from "../../src/node/index.ts";
import type { ChunkSettings } from "../../src/write/layout/settings.ts";
import type { Suite } from "./suite.ts";

const READERS = ["zarr-python, looping", "zarrs, looping", "tensorstore, looping"] as const;
/** How long each of them reads. */
const SECONDS = Number(process.env["LIVE_SECONDS"] ?? 7);
const MAX_ROWS = 20_000;

export const live: Suite = {
  name: "live",
  peers: READERS,
  async run({ checks, peer, folder }) {
    for (const name of READERS) {
      const reader = peer(name);
      if (reader === undefined) continue;
      const path = join(folder, name.split(",")[0] ?? name);
      const start = await createArray(path, {
        dtype: "<i8",
        chunkLength: 500,
        superchunkLength: 4,
        fillValue: -1,
        zarr: true,
        threads: 0,
      });
      await start.append(rows(0, 3000, 0));
      await start.close();
      let isReading = true;
      const answered = reader.read([{ path, seconds: SECONDS }]).finally(() => {
        isReading = false;
      });
      let changes = 0;
      for (let random = 1; isReading; changes++) random = await changeSome(path, random);
      const [answer] = await answered;
      if (answer?.kind !== "values") {
        checks.fail(name, JSON.stringify(answer));
        continue;
      }
      const [reads = 0, errors = 0, wrong = 0, kept = 0, pastEnd = 0] = answer.shape;
      console.log(
        `${name}: ${reads} reads (${kept} by a former shape), ${errors} errors, ${pastEnd} fill values after the last row, ${changes} rounds of changes`,
      );
      checks.equal(`${name}: wrong values (${JSON.stringify(answer.attrs)})`, wrong, 0);
      // How many fail depends on how busy the machine is: a slow reader meets the next change more often.
      checks.equal(`${name}: many reads succeed`, reads - errors >= 30 && changes > 0, true);
      checks.equal(`${name}: the array is right at the end`, await verifyLinkAt(path), []);
    }
  },
};

/** Other chunk lengths, each with a unique number of chunks per shard. */
const CUTS: readonly ChunkSettings[] = [
  { chunkLength: 500, superchunkLength: 4 },
  { chunkLength: 300, superchunkLength: 6, compressor: { cname: "zstd" } },
  { chunkLength: 700, superchunkLength: 3, checksum: "None" },
  { compressor: { cname: "lz4", shuffle: "noshuffle" } },
];

/** Values of rows that were set the given number of times. */
function rows(first: number, count: number, times: number): BigInt64Array {
  return BigInt64Array.from({ length: count }, (_, i) => BigInt((first + i) * 1000 + times));
}

/** Opens the array, changes it a few times, and closes it. Returns the next number of the sequence. */
async function changeSome(path: string, seed: number): Promise<number> {
  let random = seed;
  const below = (limit: number): number => {
    random = (random * 48_271) % 0x7fff_ffff;
    return random % Math.max(1, limit);
  };
  const array = await openWritable(path, { threads: 0 });
  for (let i = 0; i < 8; i++) {
    const { length } = array;
    const kind = below(10);
    if (kind < 5 && length < MAX_ROWS) await array.append(rows(length, 1 + below(1500), 0));
    else if (kind < 8 && length > 0) {
      const first = below(length);
      const count = 1 + below(Math.min(700, length - first));
      const selection = [{ start: first, stop: first + count, step: null }];
      await array.set(selection, rows(first, count, 1 + below(998)));
    } else if (kind === 8) await array.resize(length - below(length));
    else await array.compact(below(2) === 0 ? {} : CUTS[below(CUTS.length)]);
    await array.flush();
    // Gives readers on the same machine their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await array.close();
  return random;
}
