/** Icechunk without its native code: the message if that is missing, and which of two writers wins. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type * as Icechunk from "@earthmover/icechunk";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { CommitDraft, explainMissing } from "../../src/node/icechunk/icechunk.ts";
import { open } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";

/**
 * Branches as Icechunk has them: a session flushes snapshots that no branch shows, and a branch moves only from its
 * expected position.
 */
class Branches {
  readonly heads = new Map([["main", "s0"]]);
  #snapshots = 0;

  asRepository(): Icechunk.Repository {
    const { heads } = this;
    const flush = async (): Promise<string> => `s${++this.#snapshots}`;
    const repository = {
      writableSession: async (branch: string) => ({
        snapshotId: heads.get(branch),
        flush,
        commit: async () => heads.set(branch, await flush()),
      }),
      lookupBranch: async (branch: string) => heads.get(branch),
      createBranch: async (branch: string, snapshot: string) => heads.set(branch, snapshot),
      deleteBranch: async (branch: string) => heads.delete(branch),
      resetBranch: async (branch: string, snapshot: string, from: string) => {
        if (heads.get(branch) !== from) throw new Error(`branch update conflict on ${branch}`);
        heads.set(branch, snapshot);
      },
    };
    return repository as unknown as Icechunk.Repository;
  }
}

describe("two writers of one Icechunk branch", () => {
  it("have one winner: the other gets the conflict, and leaves the branch unchanged and no draft behind", async () => {
    const branches = new Branches();
    const repository = branches.asRepository();
    const first = await CommitDraft.begin(repository, "main");
    const second = await CommitDraft.begin(repository, "main");
    await second.endPart();
    await second.endPart();
    const [early, late] = [await first.finish("first"), await second.finish("second")];
    await first.publish(early);
    await expect(second.publish(late)).rejects.toMatchObject({
      code: "CONFLICT",
      details: { field: "branch", expected: "s0", found: early },
    });
    await second.end();
    expect([...branches.heads]).toEqual([["main", early]]);
  });

  it("do not conflict if the branch is at the writer's own snapshot: only the answer to its success was lost", async () => {
    const branches = new Branches();
    const repository = branches.asRepository();
    const reset = repository.resetBranch.bind(repository);
    repository.resetBranch = async (...args) => {
      await reset(...args);
      return reset(...args); // sent again
    };
    const draft = await CommitDraft.begin(repository, "main");
    const own = await draft.finish("x");
    await expect(draft.publish(own)).resolves.toBeUndefined();
    expect(branches.heads.get("main")).toBe(own);
  });

  it("do not conflict if the branch did not move: then the failure itself is reported", async () => {
    const branches = new Branches();
    const refused = new Error("access denied");
    const repository = Object.assign(branches.asRepository(), { resetBranch: () => Promise.reject(refused) });
    const draft = await CommitDraft.begin(repository, "main");
    await expect(draft.publish(await draft.finish("x"))).rejects.toBe(refused);
  });
});

describe("Icechunk that cannot be loaded", () => {
  it.each([
    ["/lib/libc.so.6: version `GLIBC_2.38' not found", /needs a newer C library/],
    ["icechunk.linux-x64-gnu.node: undefined symbol: __isoc23_sscanf", /needs a newer C library/],
  ])("is explained by the C library if %s", (text, message) => {
    const cause = new Error("Cannot find native binding", { cause: new Error(text) });
    expect(explainMissing(cause)).toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(message),
    });
  });

  it("is explained by the package if that is missing", () => {
    const cause = new Error("Cannot find package '@earthmover/icechunk' imported from here");
    expect(explainMissing(cause).message).toContain("npm install @earthmover/icechunk");
  });
});

it("a repository is opened with any options of opening, of which its references take some", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "repo"), "no repository");
  const options = {
    damaged: "fill",
    verify: false,
    columns: ["x"],
    concurrency: 2,
    allow: [folder],
  } as const;
  const error = await open(join(folder, "x"), options).catch((reason: unknown) => reason);
  // It cannot be read, or Icechunk is not there.
  expect(isSuperchunkError(error)).toBe(true);
  expect(String(error)).not.toContain("unknown option");
});
