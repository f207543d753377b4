/** Syncs of the system that fail on request. Used as `vi.mock("node:fs", mockSyncs)`. */
import type * as Fs from "node:fs";

type Done = (error: NodeJS.ErrnoException | null) => void;

/** What is synced: a file or folder under its name, or a new file that has none yet. */
export type Synced = "named" | "new";

/** Which sync fails, once, as a disk fails. */
export const plan: {
  /** Its number, from 1, among the counted ones. */
  failAt: number;
  /** Which syncs are counted; undefined: all. */
  of: Synced | undefined;
  count: number;
  code: string;
  /** What the failed one was of. */
  failed: Synced | undefined;
} = { failAt: Number.POSITIVE_INFINITY, of: undefined, count: 0, code: "EIO", failed: undefined };

/** The next `failAt`th sync fails. */
export function failSync(failAt: number, of?: Synced, code = "EIO"): void {
  Object.assign(plan, { failAt, of, count: 0, code, failed: undefined });
}

export async function mockSyncs(load: () => Promise<typeof Fs>): Promise<typeof Fs> {
  const fs = await load();
  const failing =
    (sync: (file: number, done: Done) => void) =>
    (file: number, done: Done): void => {
      const synced = fs.readlinkSync(`/proc/self/fd/${file}`).endsWith(".tmp") ? "new" : "named";
      if ((plan.of === undefined || plan.of === synced) && ++plan.count === plan.failAt) {
        plan.failed = synced;
        const error = new Error(`${plan.code}: fsync`);
        done(Object.assign(error, { code: plan.code, syscall: "fsync" }));
      } else sync(file, done);
    };
  return { ...fs, fsync: failing(fs.fsync), fdatasync: failing(fs.fdatasync) } as typeof Fs;
}
