/**
 * The beginnings of very many files: by threads of their own, so that several files are waited for at a time.
 *
 * Knows when threads are worth their start; must not know roots.
 */
import * as fs from "node:fs";
import { availableParallelism } from "node:os";
import type { ObjectHead } from "../../store/types.ts";
import { WorkerPool } from "../threads/worker-pool.ts";
import { describeFile } from "./fs-publish.ts";
import { HEAD_FACTS, type HeadJob, type HeadReply, OTHER, readHeads } from "./head-reads.ts";

/** Files that one store looks at before threads are started: that many take about as long as the threads' start. */
const FEW = 4096;
/** A disk answers several questions sooner than one after the other; more threads than these only take memory. */
const MAX_THREADS = 4;
/** What the threads make is garbage at once: room for more of it would only add to the memory of the process. */
const LIMITS = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 32 };

let pool: WorkerPool<HeadJob, HeadReply> | undefined;

/** Looks at files for one store. */
export class HeadReads {
  #seen = 0;

  /**
   * The first bytes of each file and what it is; undefined for what is no plain file or could not be read, which is
   * to be looked at in another way. Where no flag keeps from following links (Windows) that is all of them.
   */
  async read(
    keys: readonly string[],
    length: number,
    locate: (key: string) => string | undefined,
  ): Promise<(ObjectHead | undefined)[]> {
    const heads = new Array<ObjectHead | undefined>(keys.length).fill(undefined);
    const paths: string[] = [];
    const places: number[] = [];
    for (const [place, key] of keys.entries()) {
      const path = locate(key);
      if (path === undefined) continue;
      paths.push(path);
      places.push(place);
    }
    if (paths.length === 0 || fs.constants.O_NOFOLLOW === undefined) return heads;
    const job = { paths: paths.join("\0"), length };
    this.#seen += paths.length;
    const threads = this.#seen > FEW ? await startThreads() : undefined;
    const { bytes, read, facts } = threads === undefined ? readHeads(job) : await threads.run(job, []);
    for (const [i, place] of places.entries()) {
      const got = read[i] ?? OTHER;
      if (got === OTHER) continue;
      const at = i * HEAD_FACTS;
      const info = describeFile({
        size: facts[at] ?? 0n,
        mtimeNs: facts[at + 1] ?? 0n,
        ino: facts[at + 2] ?? 0n,
        nlink: facts[at + 3] ?? 1n,
      });
      heads[place] = { bytes: bytes.subarray(i * length, i * length + got), info };
    }
    return heads;
  }
}

async function startThreads(): Promise<WorkerPool<HeadJob, HeadReply> | undefined> {
  const size = Math.min(MAX_THREADS, Math.max(2, availableParallelism()));
  pool ??= new WorkerPool<HeadJob, HeadReply>(size, new URL("./head-worker.js", import.meta.url), LIMITS);
  return (await pool.start()) ? pool : undefined;
}
