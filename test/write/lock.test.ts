import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { hostname } from "node:os";
import { join, relative } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { acquireLock } from "../../src/node/fs/lock.ts";
import { temporaryFolder } from "../folder.ts";

let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
});
const place = (name: string): string => join(folder, name, "meta", "lock");

test("a held lock refuses others and names its holder, and is free after its release", async () => {
  const path = place("held");
  const lock = await acquireLock(path);
  await expect(acquireLock(path)).rejects.toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining(`process ${process.pid} on ${hostname()}`),
  });
  await lock.release();
  expect(fs.readdirSync(join(path, ".."))).toEqual([]);
  await (await acquireLock(path)).release();
});

test("takes a lock in folders that do not exist yet, given by a relative path", async () => {
  const path = relative(process.cwd(), place("relative"));
  expect(path.startsWith("..")).toBe(true);
  const lock = await acquireLock(path);
  expect(fs.existsSync(path)).toBe(true);
  await lock.release();
  expect(fs.existsSync(path)).toBe(false);
});

/** Writes a lock file as another holder would, derived from what this process writes. */
async function forge(path: string, changes: object): Promise<void> {
  const lock = await acquireLock(path);
  const mine = JSON.parse(fs.readFileSync(path, "utf8"));
  await lock.release();
  fs.writeFileSync(path, JSON.stringify({ ...mine, token: "other", ...changes }));
}

/** A process number that no process has. */
function deadPid(): number {
  for (let pid = 4_000_000; ; pid--) {
    try {
      process.kill(pid, 0);
    } catch {
      return pid;
    }
  }
}

test("takes over the lock of a process that has ended", async () => {
  const path = place("dead");
  await forge(path, { pid: deadPid() });
  const lock = await acquireLock(path);
  expect(JSON.parse(fs.readFileSync(path, "utf8")).pid).toBe(process.pid);
  await lock.release();
});

test("takes over the lock of a process whose number another one now has", async () => {
  const path = place("reused");
  await forge(path, { started: "1" });
  const lock = await acquireLock(path);
  expect(JSON.parse(fs.readFileSync(path, "utf8")).started).not.toBe("1");
  await lock.release();
});

test.each([
  ["another host", { host: "elsewhere", pid: 1 }],
  ["another installation under the same name", { machine: "other", boot: "other" }],
  ["another container of the host", { namespace: "pid:[1]", pid: 999_999 }],
])("never takes over the lock of %s, unless it is broken", async (name, changes) => {
  const path = place(name.replaceAll(" ", "-"));
  await forge(path, changes);
  await expect(acquireLock(path)).rejects.toMatchObject({ code: "CONFLICT" });
  const lock = await acquireLock(path, { breakLock: true });
  expect(JSON.parse(fs.readFileSync(path, "utf8")).token).not.toBe("other");
  await lock.release();
});

test.runIf(process.platform === "linux")(
  "takes over the lock of a killed process whose parent never collected its exit status",
  async () => {
    const parent = spawn("sh", ["-c", "sleep 1000 & echo $!; exec sleep 1000"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const pid = Number(line.toString());
    const stat = (): string => fs.readFileSync(`/proc/${pid}/stat`, "utf8");
    const started = stat().split(") ")[1]?.split(" ")[19];
    // Until then the parent is a shell, which collects the status.
    while (fs.readFileSync(`/proc/${parent.pid}/comm`, "utf8") !== "sleep\n") await nextTurn();
    const path = place("zombie");
    await forge(path, { pid, started });
    await expect(acquireLock(path)).rejects.toMatchObject({ code: "CONFLICT" });
    process.kill(pid, "SIGKILL");
    while (!stat().includes(") Z ")) await nextTurn();
    await (await acquireLock(path)).release();
  },
);

test("never takes over a lock without contents, unless it is broken", async () => {
  const path = place("empty");
  await (await acquireLock(path)).release();
  fs.writeFileSync(path, "");
  await expect(acquireLock(path)).rejects.toMatchObject({ code: "CONFLICT" });
  await (await acquireLock(path, { breakLock: true })).release();
  expect(fs.existsSync(path)).toBe(false);
});

test("a process that lost its lock does not release another one's", async () => {
  const path = place("lost");
  const first = await acquireLock(path);
  const second = await acquireLock(path, { breakLock: true });
  await first.release();
  expect(fs.existsSync(path)).toBe(true);
  await second.release();
});

test("of many that take it concurrently, one at a time has it", async () => {
  const path = place("many");
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => acquireLock(path)));
  expect(outcomes.filter(({ status }) => status === "fulfilled").length).toBe(1);
});

test("who takes over a lock removes the temporaries of dead holders, and of no others", async () => {
  const path = place("temporaries");
  const beside = (digit: string): string => join(path, "..", `.lock.${digit.repeat(16)}.tmp`);
  await forge(path, { pid: deadPid() });
  fs.copyFileSync(path, beside("0"));
  const dead = fs.readFileSync(path);
  await forge(beside("1"), {});
  fs.writeFileSync(beside("2"), "");
  fs.writeFileSync(path, dead);
  const lock = await acquireLock(path);
  expect([..."012"].map((digit) => fs.existsSync(beside(digit)))).toEqual([false, true, true]);
  await lock.release();
});

test.runIf(process.platform === "linux")(
  "ends where the system says that a folder to be created is absent",
  async () => {
    const path = "/proc/superchunk-test/array/meta/lock";
    await expect(acquireLock(path)).rejects.toMatchObject({ code: "NOT_FOUND", details: { path } });
  },
);
