/** Long files that bypass the page cache: the same bytes, the same promises, and every way in which systems refuse. */

import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { FileStoreOptions } from "../../../src/node/fs/fs-reader.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { DirectAccess, STAGE } from "../../../src/node/fs/fs-write.ts";
import type { PieceRooms, RoomySource } from "../../../src/store/source.ts";
import type { PutSource } from "../../../src/store/types.ts";
import { scratchBeside } from "../../../src/write/bloscpack/chunk-spool.ts";
import { makeFolder, withStore } from "../../store/folder.ts";
import { bundleScript } from "../../store/script.ts";
import { system, type Write } from "./watched-writes.ts";

const DIRECT = fs.constants.O_DIRECT ?? 0;
const PAGE = 4096;
const isLinux = process.platform === "linux";
/** Linux lets every user mount in their own namespace, unless it is configured not to. */
const canMount =
  isLinux &&
  spawnSync("unshare", ["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], { stdio: "ignore" }).status === 0;

/** The result of direct writes, instead of a disk. */
type Answer = (write: Write, position: number, length: number) => Promise<number>;

vi.mock("node:fs", async (load) => (await import("./watched-writes.ts")).mockWrites(load));

function stopWatching(): void {
  Object.assign(system, { open: undefined, write: undefined });
}

afterEach(() => {
  stopWatching();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

function bytesOf(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 12)) & 255);
}

const sample = bytesOf(2 * STAGE + 2 * PAGE);

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: told by the system`), { code, syscall: "write", errno: -1 });
}

/** Calls `answer` for every direct write of files opened from now on; counts the files opened this way. */
function watchDirect(
  answer: Answer = (write) => write(),
  refusal?: Error,
): { opened: number; writes: number } {
  const seen = { opened: 0, writes: 0 };
  const direct = new Set<number>();
  system.open = (flags, open) => {
    if (typeof flags !== "number" || (flags & DIRECT) === 0) {
      const file = open(flags);
      direct.delete(file); // the number of a closed file
      return file;
    }
    seen.opened++;
    if (refusal !== undefined) throw refusal;
    const file = openForDirect(flags, open);
    direct.add(file);
    return file;
  };
  system.write = async (file, position, length, write) => {
    if (!direct.has(file)) return write();
    seen.writes++;
    return answer(write, position, length);
  };
  return seen;
}

/** If the folder of temporary files takes no direct writes, the answers are what is tested. */
function openForDirect(flags: number, open: (flags: number) => number): number {
  try {
    return open(flags);
  } catch {
    return open(flags & ~DIRECT);
  }
}

function expectSame(root: string, name: string, bytes: Uint8Array): void {
  expect(Buffer.compare(fs.readFileSync(join(root, name)), bytes)).toBe(0);
}

/** The bytes in pieces whose lengths fit no boundary, in memory that is reused. */
function* inPieces(bytes: Uint8Array): Generator<Uint8Array> {
  const room = new Uint8Array(300_007);
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const piece = bytes.subarray(at, at + ([1, 300_007, 4095, 70_001][i % 4] ?? 1));
    room.set(piece);
    yield room.subarray(0, piece.length);
    at += piece.length;
  }
}

/** The bytes in pieces made in the store's buffers, but every fifth one elsewhere. */
class RoomyPieces implements RoomySource {
  /** For each piece whether it was made in a buffer of the store. */
  readonly inRooms: boolean[] = [];
  /** Buffers that the store did not have. */
  refused = 0;
  readonly #bytes: Uint8Array;
  readonly #lengths: readonly number[];
  #rooms: PieceRooms | undefined;

  constructor(bytes: Uint8Array, lengths: readonly number[] = [1, 300_007, 4095, 70_001, 600_000]) {
    this.#bytes = bytes;
    this.#lengths = lengths;
  }

  useRooms(rooms: PieceRooms): void {
    this.#rooms = rooms;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (let at = 0, i = 0; at < this.#bytes.length; i++) {
      const piece = this.#bytes.subarray(at, at + (this.#lengths[i % this.#lengths.length] ?? 1));
      // More space than is used, as encoders need it.
      const room = this.#rooms?.take(piece.length + 1000);
      if (room === undefined) this.refused++;
      const isUsed = room !== undefined && i % 5 !== 4;
      this.inRooms.push(isUsed);
      room?.fill(0xee);
      room?.set(piece);
      yield isUsed ? room.subarray(0, piece.length) : piece;
      at += piece.length;
    }
  }
}

const LENGTHS = [0, 1, PAGE - 1, PAGE, STAGE - PAGE, STAGE - 1].concat(
  [STAGE, STAGE + 1, STAGE + PAGE - 1, STAGE + PAGE, STAGE + PAGE + 1],
  [2 * STAGE - 1, 2 * STAGE, 2 * STAGE + 1, 2 * STAGE + PAGE + 17],
);

describe.skipIf(!isLinux)("a long file bypasses the cache", () => {
  it("with the same bytes, whatever its length and its pieces; a short one goes through the cache", () =>
    withStore(async (store, root) => {
      const seen = watchDirect();
      for (const length of LENGTHS) {
        const bytes = sample.subarray(0, length);
        const half = Math.floor(length / 2);
        const sources: Record<string, PutSource> = {
          whole: bytes,
          list: [bytes.subarray(0, half), bytes.subarray(half)],
          stream: inPieces(bytes),
        };
        for (const [name, source] of Object.entries(sources)) {
          const before = seen.opened;
          const { size } = await store.put(name, source);
          expect([length, name, size, seen.opened - before]).toEqual([
            length,
            name,
            length,
            length >= STAGE ? 1 : 0,
          ]);
          expectSame(root, name, bytes);
        }
      }
      expect(fs.readdirSync(root).sort()).toEqual(["list", "stream", "whole"]);
    }));

  it("with the same bytes if pieces are made in the store's own memory, and those are not copied", () =>
    withStore(async (store, root) => {
      const written: number[] = [];
      const seen = watchDirect((write, position, length) => {
        written.push(position, length);
        return write();
      });
      for (const length of LENGTHS) {
        const source = new RoomyPieces(sample.subarray(0, length));
        const { size } = await store.put("x", source);
        expect([length, size]).toEqual([length, length]);
        expectSame(root, "x", sample.subarray(0, length));
      }
      expect(seen.opened).toBe(LENGTHS.filter((length) => length >= STAGE).length);
      expect(written.filter((number) => number % PAGE !== 0)).toEqual([]);
      // Pieces that also end past the stage: only the first ones find no buffer yet.
      const source = new RoomyPieces(sample, [1_100_001, 4_000_000]);
      await store.put("x", source);
      expectSame(root, "x", sample);
      expect(source.inRooms).toEqual([false, true]);
      expect(source.refused).toBe(1);
    }));

  it("however long its pieces are: those that fit no buffer are copied", () =>
    withStore(async (store, root) => {
      const bytes = bytesOf(4 * STAGE + 5);
      const source = new RoomyPieces(bytes, [PAGE + 1, STAGE, 3 * STAGE, 4]);
      await store.put("x", source);
      expectSame(root, "x", bytes);
    }));

  it("with an encoder's memory only if chunks are made there, and short files in the buffers of earlier ones", async () => {
    vi.resetModules();
    const fresh = await import("../../../src/node/fs/fs-store.ts");
    // The memory of an encoder grows until the buffers fit in it.
    const grow = vi.spyOn(WebAssembly.Memory.prototype, "grow");
    await withStore(async (_, root) => {
      const store = new fresh.FileStore(root);
      const short = bytesOf(300_000);
      await store.put("copied", inPieces(sample));
      await store.put("short", inPieces(short));
      expect(grow).not.toHaveBeenCalled();
      const source = new RoomyPieces(sample);
      await store.put("made", source);
      expect(grow).toHaveBeenCalled();
      expect(source.inRooms.filter((isUsed) => isUsed).length).toBeGreaterThan(5);
      await store.put("again", inPieces(sample));
      expectSame(root, "short", short);
      for (const name of ["copied", "made", "again"]) expectSame(root, name, sample);
      await store.close();
    });
  });

  it("in whole pages only, and several at a time without mixing them up", () =>
    withStore(async (store, root) => {
      const pieces: number[] = [];
      const seen = watchDirect((write, position, length) => {
        pieces.push(position, length);
        return write();
      });
      const names = ["a", "b", "c", "d"];
      await Promise.all(names.map((name, i) => store.put(name, sample.subarray(i, i - 4))));
      names.forEach((name, i) => void expectSame(root, name, sample.subarray(i, i - 4)));
      expect(seen.writes).toBeGreaterThanOrEqual(3 * names.length);
      expect(pieces.filter((number) => number % PAGE !== 0)).toEqual([]);
    }));

  it("and its second buffer is filled while the first one is written", () =>
    withStore(async (store, root) => {
      let taken = 0;
      function* counted(): Generator<Uint8Array> {
        for (const piece of inPieces(sample)) {
          taken += piece.length;
          yield piece;
        }
      }
      watchDirect(async (write, position) => {
        if (position === 0) await vi.waitFor(() => expect(taken).toBeGreaterThan(STAGE + (STAGE >> 1)));
        return write();
      });
      await store.put("x", counted());
      expectSame(root, "x", sample);
    }));

  it("but not scratch objects, which are read again soon: the cache should keep them", () =>
    withStore(async (store, root) => {
      const seen = watchDirect();
      const { key } = scratchBeside(store, "x");
      await store.put(key, sample, { durable: false });
      expect(seen.opened).toBe(0);
      expectSame(root, key, sample);
      await store.put("x", sample.subarray(1), { durable: false });
      expect(seen.opened).toBe(1);
      expectSame(root, "x", sample.subarray(1));
    }));

  it("however few pages a single write accepts", () =>
    withStore(async (store, root) => {
      const seen = watchDirect((write, _position, length) => write(Math.min(length, 150 * PAGE)));
      await store.put("x", sample);
      expect(seen.writes).toBeGreaterThanOrEqual(sample.length / (150 * PAGE));
      expectSame(root, "x", sample);
    }));
});

describe.skipIf(!isLinux)(
  "if direct writes are refused or not wanted, the file goes through the cache",
  () => {
    for (const code of ["EINVAL", "EOPNOTSUPP"]) {
      it(`on opening with ${code}, and the file system is not tried again`, () =>
        withStore(async (store, root) => {
          const seen = watchDirect(undefined, systemError(code));
          await store.put("x", sample);
          await store.put("y", inPieces(sample));
          expect(seen.opened).toBe(1);
          expectSame(root, "x", sample);
          expectSame(root, "y", sample);
        }));
    }

    it("on opening for a temporary reason, and it is tried again", () =>
      withStore(async (store, root) => {
        const seen = watchDirect(undefined, systemError("EMFILE"));
        await store.put("x", sample);
        await store.put("y", sample);
        expect(seen.opened).toBe(2);
        expectSame(root, "y", sample);
      }));

    it("on the first write, and the file system is not tried again", () =>
      withStore(async (store, root) => {
        const seen = watchDirect(async () => {
          throw systemError("EINVAL");
        });
        await store.put("x", sample);
        await store.put("y", sample);
        expect(seen.opened).toBe(1);
        expectSame(root, "x", sample);
        expectSame(root, "y", sample);
      }));

    it("in the middle, only for those bytes", () =>
      withStore(async (store, root) => {
        const seen = watchDirect(async (write, position) => {
          if (position === STAGE) throw systemError("EINVAL");
          return write();
        });
        await store.put("x", sample);
        await store.put("y", sample);
        expect(seen.opened).toBe(2);
        expectSame(root, "x", sample);
        expectSame(root, "y", sample);
      }));

    it("because of the option directWrites, or else SUPERCHUNK_DIRECT", () =>
      withStore(async (_store, root) => {
        const seen = watchDirect();
        const putWith = async (options?: FileStoreOptions): Promise<number> => {
          const before = seen.opened;
          await new FileStore(root, options).put("x", sample);
          expectSame(root, "x", sample);
          return seen.opened - before;
        };
        expect(await putWith({ directWrites: false })).toBe(0);
        expect(await putWith()).toBe(1);
        vi.stubEnv("SUPERCHUNK_DIRECT", "0");
        expect(await putWith()).toBe(0);
        expect(await putWith({ directWrites: true })).toBe(1);
      }));

    it("on systems that have none", () => {
      expect(new DirectAccess(0).isWorthTrying).toBe(false);
      expect(new DirectAccess(1).isWorthTrying).toBe(true);
    });
  },
);

describe.skipIf(!isLinux)("a direct write that fails", () => {
  const failures = [
    ["ENOSPC", "NO_SPACE", 0],
    ["ENOSPC", "NO_SPACE", STAGE],
    ["EIO", "IO", 2 * STAGE],
  ] as const;
  for (const [code, expected, where] of failures) {
    it(`with ${code} at ${where} leaves the old file, no other, nothing open, and a usable store`, () =>
      withStore(async (store, root) => {
        await store.put("x", sample);
        const seen = watchDirect(async (write, position) => {
          if (position === where) throw systemError(code);
          return write();
        });
        await expect(store.put("x", sample.slice().fill(7))).rejects.toMatchObject({
          code: expected,
          details: { path: join(root, "x"), found: code },
        });
        expect(seen.opened).toBe(1);
        expect(fs.readdirSync(root)).toEqual(["x"]);
        expectSame(root, "x", sample);
        const open = fs.readdirSync("/proc/self/fd").filter((fd) => {
          try {
            return fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(root);
          } catch {
            return false; // the descriptor of the listing itself
          }
        });
        expect(open).toEqual([]);
        stopWatching();
        await store.put("x", sample.subarray(1));
        expectSame(root, "x", sample.subarray(1));
      }));
  }

  it.skipIf(!canMount)(
    "on a really full disk says NO_SPACE, and writes again when there is room",
    async () => {
      const { path, dispose } = await makeFolder();
      const script = join(path, "full.mjs");
      const source = `import { readdirSync } from "node:fs";
      import { FileStore } from ${JSON.stringify(join(process.cwd(), "src/node/fs/fs-store.ts"))};
      const store = new FileStore(process.argv[2]);
      const bytes = new Uint8Array(${2 * STAGE + PAGE + 1}).fill(7);
      await store.put("a", bytes);
      const code = await store.put("b", bytes).then(() => "nothing", (error) => error.code);
      const names = readdirSync(process.argv[2]);
      await store.delete("a");
      await store.put("b", bytes);
      const isRight = Buffer.compare(await store.get("b"), bytes) === 0;
      process.stdout.write(JSON.stringify({ code, names, isRight }));`;
      await bundleScript(source, script);
      const disk = join(path, "disk");
      fs.mkdirSync(disk);
      const command = `mount -t tmpfs -o size=${3 * STAGE} tmpfs "$1" && exec "$0" "$2" "$1"`;
      const out = execFileSync("unshare", ["-rm", "sh", "-c", command, process.execPath, disk, script]);
      expect(JSON.parse(out.toString())).toEqual({ code: "NO_SPACE", names: ["a"], isRight: true });
      await dispose();
    },
  );

  it("leaves nothing of the file if its source fails", () =>
    withStore(async (store, root) => {
      const seen = watchDirect();
      function* broken(): Generator<Uint8Array> {
        yield* inPieces(sample);
        throw new RangeError("the source is broken");
      }
      await expect(store.put("x", broken())).rejects.toThrow("the source is broken");
      expect(seen.opened).toBe(1);
      expect(fs.readdirSync(root)).toEqual([]);
    }));
});
