/**
 * The lock of a writer: a file that names its holder. Knows processes and hosts; must not know what is written.
 *
 * The lock keeps two writers from working in vain. The data are protected by the commits, which compare before they swap.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { makeFolder, notAFolder, removeFolder, renameWhenFree, syncFolderNow } from "./fs-folders.ts";
import { explainError, isAbsence, lacksHardLinks, lstat, readPlain, systemCode } from "./fs-handles.ts";
import { isTemporary, newMark, temporaryName } from "./fs-write.ts";

export interface LockHolder {
  readonly host: string;
  /** Id of the installation; empty if the system has none. */
  readonly machine: string;
  /** Changes when the host restarts; empty if the system does not report it. */
  readonly boot: string;
  /** Namespace of the process number; empty if the system does not report it. */
  readonly namespace: string;
  readonly pid: number;
  /** Start of the process in the system's own unit; empty if the system does not report it. */
  readonly started: string;
  /** When the lock was taken, for people. */
  readonly since: string;
  /** Distinguishes locks of the same process. */
  readonly token: string;
}

/** A held lock. */
export interface FileLock {
  readonly path: string;
  /** False if it was broken. */
  isHeld(): boolean;
  /** Releases it; not an error if it was broken. */
  release(): Promise<void>;
}

/** How a lock is taken. */
export interface LockOptions {
  /** Takes the lock from its holder. The next commit of the holder, or of the caller, then fails. */
  readonly breakLock?: boolean | undefined;
}

/** Most bytes of a lock. */
const MAX_LOCK = 4096;
/** Times to try creating the file while others come and go. */
const MAX_TRIES = 20;

/**
 * Takes the lock, creating the file and its folder. A lock whose holder is proven dead (this host, and either restarted
 * since, or without such a process) is taken over.
 *
 * @throws CONFLICT naming the holder; UNSUPPORTED if a pipe, a socket or a device is in its place; READ_ONLY, NO_SPACE, IO
 */
export async function acquireLock(path: string, options: LockOptions = {}): Promise<FileLock> {
  const me = describeMyself();
  let made: readonly string[] = [];
  try {
    made = makeFolders(dirname(path));
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (makeFile(path, JSON.stringify(me))) {
        // A lock was taken from another holder, which may have been killed before too.
        if (tries > 0) removeLeft(path);
        return heldLock(path, me);
      }
      const text = readText(path);
      if (text === undefined) continue; // released meanwhile
      const holder = parseHolder(text);
      if (options.breakLock !== true && !isProvenDead(holder)) throw held(path, holder);
      await takeAway(path, text, path);
    }
  } catch (error) {
    for (const folder of made) removeFolder(folder);
    throw inTheWay(path, isAbsence(error)) ?? explainError(error, path, "taking the lock", true);
  }
  throw new SuperchunkError("CONFLICT", "other writers keep taking the lock; try again", { path });
}

/** How often, and how long in milliseconds, {@link withLock} waits. */
const WAITS = 100;
const WAIT_MS = 5;

/**
 * Runs `work` with a lock that others hold briefly. Throws `CONFLICT`, for the object `shown`, if one of them still holds it after a while,
 * and `STALE` if another process has broken it meanwhile.
 */
export async function withLock<T>(
  path: string,
  shown: string,
  work: () => Promise<T>,
  options?: LockOptions,
): Promise<T> {
  for (let waits = 0; ; waits++) {
    let lock: FileLock;
    try {
      lock = await acquireLock(path, options);
    } catch (error) {
      if (!isSuperchunkError(error, "CONFLICT") || error.details.path !== path) throw error;
      const { found } = error.details;
      const reason = `another writer is changing it; if none is running, remove ${path}`;
      if (waits >= WAITS) throw new SuperchunkError("CONFLICT", reason, { path: shown, found, cause: error });
      await delay(WAIT_MS);
      continue;
    }
    let isOurs = false;
    const result = await work().finally(async () => {
      isOurs = lock.isHeld();
      await lock.release();
    });
    if (!isOurs) throw new SuperchunkError("STALE", BROKEN, { path: shown, field: "lock" });
    return result;
  }
}

const BROKEN =
  "another process has taken the lock over meanwhile, and may have changed this too; look at it again";

/**
 * Creates a folder and its parents, and makes their entries durable, which later commits below them rely on. Returns the
 * created ones, innermost first. One by one, because Node's own `recursive` never ends where the system lets no folder be created and
 * says `ENOENT`, as automounters do.
 */
function makeFolders(path: string): readonly string[] {
  const missing: string[] = [];
  // A drive that is not there has no parent.
  for (let folder = resolve(path); !fs.existsSync(folder) && folder !== missing[0]; folder = dirname(folder))
    missing.unshift(folder);
  const made: string[] = [];
  try {
    for (const folder of missing) if (makeFolder(folder)) made.unshift(folder);
    for (const folder of made) syncFolderNow(dirname(folder));
    return made;
  } catch (error) {
    for (const folder of made) removeFolder(folder);
    throw error;
  }
}

function whyClosed(folder: string): unknown {
  try {
    return fs.accessSync(folder, fs.constants.W_OK);
  } catch (error) {
    return explainError(error, folder, "taking the lock", true);
  }
}

/**
 * The error if a part of the path is a file, so that no folder can be created there; undefined if none is. If the folder exists but
 * cannot be written to, an error for that: on a read-only file system Node only reports that something is absent.
 */
function inTheWay(path: string, isAbsent: boolean): unknown {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    let isFolder: boolean;
    try {
      isFolder = fs.statSync(folder).isDirectory();
    } catch (error) {
      if (!isAbsence(error)) return undefined; // the first error is the one to report
      if (lstat(folder) === undefined) continue;
      isFolder = false;
    }
    if (isFolder) return isAbsent ? whyClosed(folder) : undefined;
    return notAFolder(folder);
  }
  return undefined;
}

function heldLock(path: string, me: LockHolder): FileLock {
  const isHeld = (): boolean => parseHolder(readText(path) ?? "")?.token === me.token;
  return {
    path,
    isHeld,
    async release() {
      if (isHeld()) fs.rmSync(path, { force: true });
    },
  };
}

/** Creates the file with its text in one step, so that no process sees it empty. Returns false if it exists. */
function makeFile(path: string, text: string): boolean {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  try {
    fs.writeFileSync(temporary, text, { flag: "wx" });
    fs.linkSync(temporary, path);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    // The holder of the lock has just removed the temporary, with what others left.
    if (isAbsence(error) && (error as NodeJS.ErrnoException).syscall === "link") return false;
    if (!lacksHardLinks(error)) throw error;
    return makePlain(path, text);
  } finally {
    fs.rmSync(temporary, { force: true });
  }
}

/** For file systems without hard links. */
function makePlain(path: string, text: string): boolean {
  let file: number;
  try {
    file = fs.openSync(path, "wx");
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error; // an existing file belongs to another writer
  }
  try {
    fs.writeFileSync(file, text);
  } catch (error) {
    // After a full disk, an empty lock file must not be left.
    fs.rmSync(path, { force: true });
    throw error;
  } finally {
    fs.closeSync(file);
  }
  return true;
}

/** Removes a temporary, unless it is a lock, or the temporary of one, whose holder may be alive. */
export async function removeUnlessHeld(path: string): Promise<void> {
  const info = fs.lstatSync(path, { throwIfNoEntry: false });
  const mayBeLock = info?.isFile() === true && info.size <= MAX_LOCK;
  const holder = mayBeLock ? parseHolder(readText(path) ?? "") : undefined;
  if (holder === undefined || isProvenDead(holder)) await fs.promises.rm(path, { force: true });
}

/**
 * Removes an abandoned lock with this text, or an abandoned right to do that. The right is a file whose name is made from the text, and
 * which names its holder. Without it, a process that read the same text but acts later would remove the lock of the next holder.
 */
async function takeAway(path: string, text: string, lock: string): Promise<void> {
  const mark = createHash("sha256").update(text).digest("hex").slice(0, 16);
  const right = join(dirname(lock), temporaryName(basename(lock), mark));
  if (!makeFile(right, JSON.stringify(describeMyself()))) {
    const other = readText(right);
    if (other !== undefined && isProvenDead(parseHolder(other))) await takeAway(right, other, lock);
    else await delay(1);
    return;
  }
  try {
    if (readText(path) === text) await moveAway(path, text, lock);
  } finally {
    fs.rmSync(right, { force: true });
  }
}

/** Moves the lock away. If it was released meanwhile, and this is the lock of the next holder, puts that back. */
async function moveAway(path: string, text: string, lock: string): Promise<void> {
  const aside = join(dirname(lock), temporaryName(basename(lock)));
  try {
    await renameWhenFree(() => fs.renameSync(path, aside));
  } catch (error) {
    if (systemCode(error) === "ENOENT") return; // released
    throw error;
  }
  const found = readText(aside);
  if (found !== undefined && found !== text) makeFile(path, found);
  fs.rmSync(aside, { force: true });
}

/** Removes the temporaries of a lock whose holders are proven dead: they name their holders, as the lock does. */
function removeLeft(path: string): void {
  const own = new Set([basename(path)]);
  for (const name of fs.readdirSync(dirname(path))) {
    const left = join(dirname(path), name);
    if (isTemporary(name, own) && isProvenDead(parseHolder(readText(left) ?? "")))
      fs.rmSync(left, { force: true });
  }
}

function readText(path: string): string | undefined {
  try {
    return readPlain(path).toString("utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function parseHolder(json: string): LockHolder | undefined {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== "object" || value === null) return undefined;
    const { host, pid, ...rest } = value as Partial<Record<keyof LockHolder, unknown>>;
    if (typeof host !== "string" || typeof pid !== "number" || !Number.isSafeInteger(pid) || pid < 1)
      return undefined;
    const text = (field: "machine" | "boot" | "namespace" | "started" | "since" | "token"): string =>
      String(rest[field] ?? "");
    return {
      host,
      machine: text("machine"),
      boot: text("boot"),
      namespace: text("namespace"),
      pid,
      started: text("started"),
      since: text("since"),
      token: text("token"),
    };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** True only if the holder cannot be alive. Never for another host, nor for a file without a holder. */
function isProvenDead(holder: LockHolder | undefined): boolean {
  if (holder === undefined) return false;
  const me = describeMyself();
  if (holder.host !== me.host || holder.machine !== me.machine) return false;
  // Hosts with the same name are distinguished by their installation. Without its id, another boot may be another host.
  if (holder.boot !== me.boot) return me.machine !== "" && me.boot !== "" && holder.boot !== "";
  // Processes of another container are not visible from here.
  if (holder.namespace !== me.namespace) return false;
  if (!isAlive(holder.pid)) return true;
  const started = startOf(holder.pid);
  return started !== "" && holder.started !== "" && started !== holder.started;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !hasEnded(pid);
  } catch (error) {
    return systemCode(error) !== "ESRCH";
  }
}

/**
 * Linux: true for a process that has ended but was not waited for by its living parent (a zombie). Many programs that are the
 * first process of a container never wait. A process with a living thread may still write.
 */
function hasEnded(pid: number): boolean {
  if (!/^[ZX]/.test(factsOf(pid)[0] ?? "")) return false;
  try {
    return fs.readdirSync(`/proc/${pid}/task`).length <= 1;
  } catch {
    return false; // gone meanwhile; the next check shows it
  }
}

function describeMyself(): LockHolder {
  myProcess ??= {
    host: hostname(),
    machine: readSystem("/etc/machine-id"),
    boot: readSystem("/proc/sys/kernel/random/boot_id"),
    namespace: processNamespace(),
    pid: process.pid,
    started: startOf(process.pid),
  };
  return { ...myProcess, since: new Date().toISOString(), token: newMark() };
}

/** The facts that all locks of this process share. */
let myProcess: Omit<LockHolder, "since" | "token"> | undefined;

function processNamespace(): string {
  try {
    return fs.readlinkSync("/proc/self/ns/pid");
  } catch {
    return ""; // not Linux, or not allowed: then it distinguishes nothing
  }
}

/** Linux: ticks from the start of the host to the start of the process. */
function startOf(pid: number): string {
  return factsOf(pid)[19] ?? "";
}

/** Linux: the system's facts about a process, beginning with the state, which is field 3. */
function factsOf(pid: number): readonly string[] {
  const stat = readSystem(`/proc/${pid}/stat`);
  // The name in parentheses may contain anything, so fields are counted from the end of it.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function readSystem(path: string): string {
  try {
    return fs.readFileSync(path, "utf8").trim();
  } catch {
    return ""; // not Linux, or the process is gone: unknown
  }
}

function held(path: string, holder: LockHolder | undefined): SuperchunkError {
  const who =
    holder === undefined
      ? "another writer (its lock cannot be read)"
      : `process ${holder.pid} on ${holder.host} since ${holder.since}`;
  return new SuperchunkError(
    "CONFLICT",
    `the array is being written by ${who}. Wait for it; if it has certainly died, take it over with {breakLock: true}`,
    { path, field: "lock", found: holder },
  );
}
