/** Openings and writes of the system that a test answers. Used as `vi.mock("node:fs", mockWrites)`. */
import type * as Fs from "node:fs";

/** Writes the first `taken` bytes, by default all; resolves with how many the system took. */
export type Write = (taken?: number) => Promise<number>;

/** What answers instead of the system; undefined: the system itself. */
export const system: {
  /** `open` opens the file with other flags. */
  open?: ((flags: number | string, open: (flags: number | string) => number) => number) | undefined;
  /** `write` is the one that would be made. */
  write?: ((file: number, position: number, length: number, write: Write) => Promise<number>) | undefined;
} = {};

type Done = (error: unknown, written?: number) => void;

export async function mockWrites(load: () => Promise<typeof Fs>): Promise<typeof Fs> {
  const fs = await load();
  const openSync = (path: string, flags: number | string, mode?: number): number =>
    system.open?.(flags, (other) => fs.openSync(path, other, mode)) ?? fs.openSync(path, flags, mode);
  const write = (file: number, bytes: Uint8Array, at: number, length: number, ...rest: [number, Done]) => {
    const [position, done] = rest;
    if (system.write === undefined) return fs.write(file, bytes, at, length, position, done);
    const own: Write = (taken = length) =>
      new Promise((resolve, reject) => {
        fs.write(file, bytes, at, taken, position, (error, written) =>
          error ? reject(error) : resolve(written),
        );
      });
    void system.write(file, position, length, own).then((written) => done(null, written), done);
  };
  return { ...fs, openSync, write } as unknown as typeof Fs;
}
