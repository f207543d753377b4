import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { makeFolder, withStore } from "../../store/folder.ts";
import { bundleScript } from "../../store/script.ts";
import { system } from "./watched-writes.ts";

vi.mock("node:fs", async (load) => (await import("./watched-writes.ts")).mockWrites(load));

const one = Uint8Array.of(1);
const isRoot = process.getuid?.() === 0;

describe("the file store", () => {
  it("leaves nothing but the object in its folder", () =>
    withStore(async (store, root) => {
      await store.put("a/x", new Uint8Array(3 << 20));
      await store.put("a/y", one, { ifAbsent: true });
      await expect(store.put("a/y", one, { ifAbsent: true })).rejects.toMatchObject({ code: "CONFLICT" });
      await expect(store.put("a/y", one, { ifVersion: "0" })).rejects.toMatchObject({ code: "CONFLICT" });
      expect(fs.readdirSync(join(root, "a")).sort()).toEqual(["x", "y"]);
    }));

  it("shows a draft to no reader before it is published, and leaves nothing of an unpublished one", () =>
    withStore(async (store, root) => {
      await store.put("a/x", one);
      const draft = await store.draft("a/x", Uint8Array.of(2, 3));
      expect(await store.get("a/x")).toEqual(one);
      expect(fs.readdirSync(join(root, "a")).sort()).toEqual([expect.stringMatching(/^\.x\..*\.tmp$/), "x"]);
      const info = await draft.publish();
      expect(await store.get("a/x")).toEqual(Uint8Array.of(2, 3));
      expect(await store.stat("a/x")).toMatchObject(info);
      await (await store.draft("a/x", one)).discard();
      const late = await store.draft("a/y", one, { ifAbsent: true });
      await store.put("a/y", Uint8Array.of(4));
      await expect(late.publish()).rejects.toMatchObject({
        code: "CONFLICT",
        details: { path: join(root, "a", "y") },
      });
      expect(fs.readdirSync(join(root, "a")).sort()).toEqual(["x", "y"]);
    }));

  it("creates a folder again that another program has removed", () =>
    withStore(async (store, root) => {
      await store.put("a/b/x", one);
      fs.rmSync(join(root, "a"), { recursive: true });
      await store.put("a/b/x", one);
      expect(await store.get("a/b/x")).toEqual(one);
    }));

  it("hides temporary files while they are written, and removes those of dead processes on request", () =>
    withStore(async (store, root) => {
      let seen: string[] = [];
      async function* make(): AsyncGenerator<Uint8Array> {
        yield one;
        seen = fs.readdirSync(root);
        for await (const entry of store.list("")) seen.push(`listed ${entry.name}`);
      }
      await store.put("x", make());
      expect(seen).toEqual([expect.stringMatching(/^\.x\.[0-9a-f]{16}\.tmp$/)]);
      fs.writeFileSync(join(root, ".x.0123456789abcdef.tmp"), "left over");
      fs.writeFileSync(join(root, ".x.tmp"), "somebody's own");
      await store.removeLeftovers("");
      expect(fs.readdirSync(root).sort()).toEqual([".x.tmp", "x"]);
    }));

  it("removes no claim of a living writer, whose put another one's would replace", () =>
    withStore(async (store, root) => {
      const other = new FileStore(root);
      await store.put("x", one);
      await store.claim("x", async () => {
        const names = fs.readdirSync(root).sort();
        expect(names).toEqual([".x.0000000000000000.tmp", "x"]);
        fs.writeFileSync(
          join(root, ".lock.0123456789abcdef.tmp"),
          fs.readFileSync(join(root, names[0] ?? "")),
        );
        await other.removeLeftovers("");
        expect(fs.readdirSync(root).sort()).toEqual([".lock.0123456789abcdef.tmp", ...names]);
        const dead = { ...JSON.parse(fs.readFileSync(join(root, names[0] ?? ""), "utf8")), started: "1" };
        fs.writeFileSync(join(root, ".lock.0123456789abcdef.tmp"), JSON.stringify(dead));
        await other.removeLeftovers("");
        expect(fs.readdirSync(root).sort()).toEqual(names);
      });
      expect(fs.readdirSync(root)).toEqual(["x"]);
    }));

  it("names a file in the way of a folder, and a folder in the way of a file", () =>
    withStore(async (store, root) => {
      await store.put("x", one);
      await store.put("d/y", one);
      await expect(store.put("x/y", one)).rejects.toMatchObject({
        code: "CONFLICT",
        details: { path: join(root, "x") },
      });
      await expect(store.put("d", one)).rejects.toMatchObject({
        code: "CONFLICT",
        details: { path: join(root, "d") },
      });
      expect(await store.get("d/y")).toEqual(one);
    }));

  it("has space for long names, and says LIMIT if the file system has none", () =>
    withStore(async (store) => {
      const longest = `${"ü".repeat(127)}x`; // 255 bytes
      await store.put(longest, one);
      expect(await store.get(longest)).toEqual(one);
      await expect(store.put(`${longest}y`, one)).rejects.toMatchObject({ code: "LIMIT" });
    }));

  it.runIf(process.platform === "linux")("says READ_ONLY where the system allows no folder", async () => {
    const store = new FileStore("/sys/superchunk-test");
    const refused = { code: "READ_ONLY", details: { path: "/sys/superchunk-test" } };
    await expect(store.claim("x", async () => undefined)).rejects.toMatchObject(refused);
  });

  it.skipIf(isRoot || process.platform === "win32")("says READ_ONLY if it may not write", () =>
    withStore(async (store, root) => {
      await store.put("d/x", one);
      fs.chmodSync(join(root, "d"), 0o555);
      await expect(store.put("d/y", one)).rejects.toMatchObject({ code: "READ_ONLY" });
      await expect(store.delete("d/x")).rejects.toMatchObject({ code: "READ_ONLY" });
      fs.chmodSync(join(root, "d"), 0o755);
    }),
  );

  it.skipIf(!fs.existsSync("/dev/full"))("says NO_SPACE if the disk is full, and keeps what was there", () =>
    withStore(async (store) => {
      await store.put("x", one);
      // Writes on the way to the temporary file end on a device that is always full.
      const full = fs.openSync("/dev/full", "w");
      system.write = async () => fs.writeSync(full, one);
      try {
        await expect(store.put("x", new Uint8Array(5 << 20))).rejects.toMatchObject({
          code: "NO_SPACE",
          message: expect.stringContaining(
            "the storage is full; free space and run it again (ENOSPC while writing)",
          ),
        });
      } finally {
        system.write = undefined;
        fs.closeSync(full);
      }
      expect(await store.get("x")).toEqual(one);
      expect(fs.readdirSync(store.root)).toEqual(["x"]);
    }),
  );

  it("loses no bytes if one write accepts only a part of them", () =>
    withStore(async (store) => {
      const bytes = Uint8Array.from({ length: 300_001 }, (_, i) => i % 253);
      system.write = (_file, _position, length, write) => write(Math.max(1, length >> 1));
      try {
        await store.put("x", [bytes.subarray(0, 7), bytes.subarray(7)]);
      } finally {
        system.write = undefined;
      }
      expect(Buffer.compare((await store.get("x")) ?? one, bytes)).toBe(0);
    }));

  it("keeps few files open, however many are read, and none after close", () =>
    withStore(async (store, root) => {
      for (let i = 0; i < 200; i++) fs.writeFileSync(join(root, `${i}`), Uint8Array.of(i));
      const target = new Uint8Array(1);
      for (let i = 0; i < 600; i++) {
        expect(store.readIntoSync(`${i % 200}`, 0, target)).toBe(1);
        expect(target[0]).toBe(i % 200);
      }
      const reads = await Promise.all(Array.from({ length: 200 }, (_, i) => store.get(`${i}`)));
      expect(reads.map((bytes) => bytes?.[0])).toEqual(Array.from({ length: 200 }, (_, i) => i));
      if (process.platform !== "linux") return;
      const count = () => {
        let found = 0;
        for (const fd of fs.readdirSync("/proc/self/fd")) {
          if (fs.existsSync(`/proc/self/fd/${fd}`) && fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(root))
            found++;
        }
        return found;
      };
      expect(count()).toBe(64);
      await store.close();
      expect(count()).toBe(0);
    }));

  it.skipIf(process.platform === "win32")(
    "continues reading if the process may open fewer files than are read at a time",
    async () => {
      const { path, dispose } = await makeFolder();
      for (let i = 0; i < 300; i++) fs.writeFileSync(join(path, `${i}`), Uint8Array.of(i));
      const script = join(path, "reader.mjs");
      const source = `import { FileStore } from ${JSON.stringify(join(process.cwd(), "src/node/fs/fs-store.ts"))};
      const store = new FileStore(${JSON.stringify(path)});
      const read = async (i) => ((await store.get(String(i)))[0] === i % 256 ? 1 : 0);
      const right = await Promise.all(Array.from({ length: 300 }, (_, i) => read(i)));
      await store.put("x", new Uint8Array(1));
      process.stdout.write(String(right.reduce((a, b) => a + b)));`;
      await bundleScript(source, script);
      const out = execFileSync("sh", ["-c", `ulimit -n 48; exec "$0" "$1"`, process.execPath, script], {
        encoding: "utf8",
      });
      expect(out).toBe("300");
      await dispose();
    },
  );

  it("continues reading the file it has opened when the path gets another one", () =>
    withStore(async (store) => {
      const old = new Uint8Array(8 << 20).fill(1);
      await store.put("x", old);
      const reading = store.get("x");
      await store.put("x", new Uint8Array(8 << 20).fill(2));
      expect(Buffer.compare((await reading) ?? one, old)).toBe(0);
      expect((await store.getRange("x", { offset: 5, length: 1 }))?.[0]).toBe(2);
    }));

  it("shows other processes the old object or the new one, never a part, and survives a kill at any time", async () => {
    const { path, dispose } = await makeFolder();
    const script = join(path, "writer.mjs");
    const source = `import { FileStore } from ${JSON.stringify(join(process.cwd(), "src/node/fs/fs-store.ts"))};
      const store = new FileStore(${JSON.stringify(join(path, "root"))});
      for (let i = 0; ; i++) {
        await store.put("x", (function* () { for (let k = 0; k < 4; k++) yield new Uint8Array(300_000).fill(i); })());
        process.stdout.write(".");
      }`;
    await bundleScript(source, script);
    const store = new FileStore(join(path, "root"));
    let looked = 0;
    for (let round = 1; round <= 6; round++) {
      const writer = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
      let puts = 0;
      await new Promise<void>((resolve) => {
        writer.stdout.on("data", (dots: Buffer) => {
          puts += dots.length;
          const bytes = new Uint8Array(fs.readFileSync(join(path, "root", "x")));
          expect(bytes.length).toBe(1_200_000);
          expect(bytes.every((byte) => byte === bytes[0])).toBe(true);
          looked++;
          if (puts >= round * 3) writer.kill("SIGKILL");
        });
        writer.on("exit", () => resolve());
      });
      const bytes = (await store.get("x")) ?? one;
      expect(bytes.length).toBe(1_200_000);
      expect(bytes.every((byte) => byte === bytes[0])).toBe(true);
    }
    expect(looked).toBeGreaterThan(6);
    await store.removeLeftovers("");
    expect(fs.readdirSync(join(path, "root"))).toEqual(["x"]);
    await store.close();
    await dispose();
  });
});
