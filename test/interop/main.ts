/** One run: makes the peers ready, runs the suites, counts. Ends with the line `N passed, N failed`. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blosc2 } from "./blosc2.ts";
import { buckets } from "./buckets.ts";
import { Checks } from "./checks.ts";
import { codec } from "./codec.ts";
import { convert } from "./convert.ts";
import { fixtures } from "./fixtures.ts";
import { foreign } from "./foreign.ts";
import { guides } from "./guides.ts";
import { hdf5 } from "./hdf5.ts";
import { killed } from "./killed.ts";
import { link } from "./link.ts";
import { live } from "./live.ts";
import { machines } from "./machines.ts";
import { native } from "./native.ts";
import { pageLines } from "./page-lines.ts";
import { parquet } from "./parquet.ts";
import { type PeerName, peerNames, preparePeers, type ReadyPeer } from "./peers.ts";
import { product } from "./product.ts";
import { queue } from "./queue.ts";
import { references } from "./references.ts";
import { serve } from "./serve.ts";
import type { Suite } from "./suite.ts";
import { superchunks } from "./superchunks.ts";
import { wayBack } from "./way-back.ts";
import { xarray } from "./xarray.ts";
import { zarrArrays } from "./zarr-arrays.ts";

const SUITES: readonly Suite[] = [
  fixtures,
  codec,
  foreign,
  killed,
  superchunks,
  convert,
  wayBack,
  parquet,
  pageLines,
  hdf5,
  blosc2,
  link,
  live,
  zarrArrays,
  product,
  serve,
  references,
  buckets,
  native,
  guides,
  xarray,
  machines,
  queue,
];

/** Runs the named suites, or all. Resolves with the exit code: 0 if every check passed, 1, or 2 for wrong usage. */
export async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !SUITES.some((suite) => suite.name === name));
  if (unknown.length > 0) {
    console.error(
      `no suite "${unknown.join('", "')}"; there are ${SUITES.map(({ name }) => name).join(", ")}`,
    );
    return 2;
  }
  const suites = SUITES.filter(({ name }) => names.length === 0 || names.includes(name));
  const checks = new Checks();
  const peers = await readyPeers(suites, checks);
  for (const suite of suites) {
    const started = performance.now();
    const before = { ...checks };
    const folder = await mkdtemp(join(tmpdir(), "superchunk-interop-"));
    try {
      await suite.run({ checks, folder, peer: (name) => peers.get(name) });
    } catch (error) {
      checks.fail(
        `suite ${suite.name}`,
        error instanceof Error ? (error.stack ?? error.message) : String(error),
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const passed = checks.passed - before.passed;
    console.log(
      `${suite.name}: ${passed} passed, ${checks.failed - before.failed} failed, ${seconds(started)}`,
    );
    // A suite that checked nothing proves nothing.
    if (passed === 0) checks.fail(`suite ${suite.name}`, "no check passed");
  }
  console.log(`${checks.passed} passed, ${checks.failed} failed`);
  return checks.failed === 0 ? 0 : 1;
}

async function readyPeers(suites: readonly Suite[], checks: Checks): Promise<Map<PeerName, ReadyPeer>> {
  const started = performance.now();
  const wanted = peerNames.filter((name) => suites.some(({ peers }) => peers.includes(name)));
  const ready = new Map<PeerName, ReadyPeer>();
  for (const peer of await preparePeers(wanted)) {
    if ("read" in peer) {
      ready.set(peer.name, peer);
      continue;
    }
    console.log(`absent${peer.optional ? " (optional)" : ""}: ${peer.name}: ${peer.absent}`);
    if (process.env["CI"] === "true" && !peer.optional)
      checks.fail(`peer ${peer.name}`, "is absent, and CI=true");
  }
  console.log(`peers: ${[...ready.keys()].join(", ")}, ${seconds(started)}`);
  return ready;
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
