/**
 * A commit of any size: written in parts beside the branch, and shown by it at once.
 *
 * Icechunk's session holds what it has not written, some 700 bytes a reference, and twice that while it commits. Parts
 * keep that flat. Knows Icechunk's branches and snapshots; must not know references.
 */
import { randomUUID } from "node:crypto";
import type * as Icechunk from "@earthmover/icechunk";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";

/** References of a part, and of a manifest: parts that fill whole manifests write none of them twice. */
export const PART: number = 25_000;

/** How Icechunk cuts manifests. Readers fetch and decode the manifest that a chunk is in as a whole. */
export const MANIFESTS: JsonObject = {
  splitting: {
    split_sizes: [[{ path_matches: { regex: ".*" } }, [{ condition: "Any", num_chunks: PART }]]],
  },
};

/** Changes to a branch that nobody sees until {@link Draft.publish}. */
export class Draft {
  readonly #repository: Icechunk.Repository;
  readonly #branch: string;
  readonly #base: string;
  #session: Icechunk.Session;
  /** The branch that holds the parts written so far, if there are any. */
  #own: string | undefined;
  #parts = 0;

  private constructor(repository: Icechunk.Repository, branch: string, session: Icechunk.Session) {
    this.#repository = repository;
    this.#branch = branch;
    this.#base = session.snapshotId;
    this.#session = session;
  }

  /** Begins changes to a branch. */
  static async begin(repository: Icechunk.Repository, branch: string): Promise<Draft> {
    return new Draft(repository, branch, await repository.writableSession(branch));
  }

  /** What is changed: another one after every part. */
  get store(): Icechunk.Store {
    return this.#session.store;
  }

  /** Writes what was changed so far, and lets go of its memory. */
  async endPart(): Promise<void> {
    const message = `Part ${++this.#parts} of references, more follow`;
    if (this.#own === undefined) {
      const snapshot = await this.#session.flush(message);
      const name = `superchunk-draft-${randomUUID()}`;
      await this.#repository.createBranch(name, snapshot);
      this.#own = name;
    } else await this.#session.commit(message);
    this.#session = await this.#repository.writableSession(this.#own);
  }

  /** Writes the last part, and resolves with the snapshot that has everything. The branch does not show it yet. */
  finish(message: string): Promise<string> {
    return this.#session.flush(message);
  }

  /** Shows a snapshot of {@link finish} on the branch. Throws `CONFLICT` where another writer was faster. */
  async publish(snapshot: string): Promise<void> {
    try {
      await this.#repository.resetBranch(this.#branch, snapshot, this.#base);
    } catch (cause) {
      const found = await this.#repository.lookupBranch(this.#branch);
      // The answer to our own success was lost, and the request that was sent again found the branch moved.
      if (found === snapshot) return;
      if (found === this.#base) throw cause;
      throw new SuperchunkError(
        "CONFLICT",
        `another writer committed to the branch "${this.#branch}" meanwhile; nothing was changed, run it again`,
        { field: "branch", expected: this.#base, found, cause },
      );
    }
  }

  /** Removes what the branch does not need: to be called in any case. */
  async end(): Promise<void> {
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined) await this.#repository.deleteBranch(own);
  }
}
