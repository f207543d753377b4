/**
 * The lock of a writer: a file that says who holds it. Knows processes and hosts; must not know what is written.
 *
 * It keeps two writers from working for nothing; what keeps the data whole are the commits, which compare before they swap.
 */
import * as fs from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { SuperchunkError } from "../../errors.ts";
import { syncFolderNow } from "./fs-folders.ts";
import { explainError, isAbsence, readPlain, systemCode } from "./fs-open.ts";
import { newMark, temporaryName } from "./fs-publish.ts";

/** Who holds a lock. */
export interface LockHolder {
  readonly host: string;
  /** The installation; empty where the system does not tell. */
  readonly machine: string;
  /** Changes when the host restarts; empty where the system does not tell. */
  readonly boot: string;
  /** In which namespace the process number counts; empty where the system does not tell. */
  readonly namespace: string;
  readonly pid: number;
  /** When the process was started, as the system counts it; empty where it does not tell. */
  readonly started: string;
  /** When the lock was taken, for people. */
  readonly since: string;
  /** Tells two locks of one process apart. */
  readonly token: string;
}

/** A held lock. */
export interface FileLock {
  readonly path: string;
  /** Gives it up; not an error where somebody broke it. */
  release(): Promise<void>;
}

/** How a lock is taken. */
export interface LockOptions {
  /** Takes the lock from its holder. The next commit of the holder, or of the caller, then fails. */
  readonly breakLock?: boolean | undefined;
}

/** Times that the file is tried to be made, while others come and go. */
const MAX_TRIES = 20;

/**
 * Takes the lock, making the file and its folder. A lock whose holder is proven dead (this host, and restarted since,
 * or without such a process) is taken over.
 *
 * @throws CONFLICT naming the holder; UNSUPPORTED if a pipe, a socket or a device is in its place; READ_ONLY, NO_SPACE, IO
 */
export async function acquireLock(path: string, options: LockOptions = {}): Promise<FileLock> {
  const me = describeMyself();
  let made: readonly string[] = [];
  try {
    made = makeFolders(dirname(path));
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (makeFile(path, JSON.stringify(me))) return heldLock(path, me);
      const text = readText(path);
      if (text === undefined) continue; // given up in between
      const holder = parseHolder(text);
      if (options.breakLock !== true && !isProvenDead(holder)) throw held(path, holder);
      takeAway(path, text);
    }
  } catch (error) {
    for (const folder of made) removeEmpty(folder);
    throw inTheWay(path, isAbsence(error)) ?? explainError(error, path, "taking the lock", true);
  }
  throw new SuperchunkError("CONFLICT", "other writers take and give up the lock all the time; try again", {
    path,
  });
}

/**
 * Makes a folder and those above it, and their entries durable: what is committed below them later counts on that. The ones
 * that were made, the innermost first.
 */
function makeFolders(path: string): readonly string[] {
  const first = fs.mkdirSync(path, { recursive: true });
  if (first === undefined) return [];
  const made: string[] = [];
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    made.push(folder);
    if (folder === resolve(first)) break;
  }
  for (const folder of made) syncFolderNow(dirname(folder));
  return made;
}

function whyClosed(folder: string): unknown {
  try {
    return fs.accessSync(folder, fs.constants.W_OK);
  } catch (error) {
    return explainError(error, folder, "taking the lock", true);
  }
}

function removeEmpty(folder: string): void {
  try {
    fs.rmdirSync(folder);
  } catch {
    // Not empty: another writer came. What kept from taking the lock is the error to tell.
  }
}

/**
 * What to say where a part of the path is a file: no folder can be made there. Where none was made all the same, the folder that is
 * there may not be written to; Node says of a read-only file system only that something is absent.
 */
function inTheWay(path: string, isAbsent: boolean): unknown {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    let isFolder: boolean;
    try {
      isFolder = fs.statSync(folder).isDirectory();
    } catch (error) {
      if (isAbsence(error)) continue;
      return undefined; // what went wrong first is to be told
    }
    if (isFolder) return isAbsent ? whyClosed(folder) : undefined;
    return new SuperchunkError(
      "CONFLICT",
      "this is a file, but a folder is needed; choose another path, or move the file away",
      { path: folder, expected: "a folder", found: "a file" },
    );
  }
  return undefined;
}

function heldLock(path: string, me: LockHolder): FileLock {
  return {
    path,
    async release() {
      const text = readText(path);
      if (text !== undefined && parseHolder(text)?.token === me.token) fs.rmSync(path, { force: true });
    },
  };
}

/** Makes the file with its text at once, so that no process sees it empty; false if there is one. */
function makeFile(path: string, text: string): boolean {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  try {
    fs.writeFileSync(temporary, text, { flag: "wx" });
    fs.linkSync(temporary, path);
    return true;
  } catch (error) {
    const code = systemCode(error);
    if (code === "EEXIST") return false;
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "EOPNOTSUPP" && code !== "ENOSYS") throw error;
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
    throw error; // what is there, if anything, is another's
  }
  try {
    fs.writeFileSync(file, text);
  } catch (error) {
    // A full disk: a lock that says nothing must not be taken.
    fs.rmSync(path, { force: true });
    throw error;
  } finally {
    fs.closeSync(file);
  }
  return true;
}

/** Moves a lock away that was found to be abandoned; puts it back where it is another one by now. */
function takeAway(path: string, text: string): void {
  const aside = join(dirname(path), temporaryName(basename(path)));
  try {
    fs.renameSync(path, aside);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return; // another writer was faster
    throw error;
  }
  if (readText(aside) !== text) {
    try {
      fs.linkSync(aside, path);
    } catch (error) {
      if (systemCode(error) !== "EEXIST") throw error;
    }
  }
  fs.rmSync(aside, { force: true });
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

/** True only where nothing else can be: never for another host, never for a file that says nothing. */
function isProvenDead(holder: LockHolder | undefined): boolean {
  if (holder === undefined) return false;
  const me = describeMyself();
  if (holder.host !== me.host || holder.machine !== me.machine) return false;
  // Hosts of one name are told apart by their installation; without that, another start may be another host.
  if (holder.boot !== me.boot) return me.machine !== "" && me.boot !== "" && holder.boot !== "";
  // Processes of another container are not seen from here.
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
 * Linux: true for a process that has ended and waits for its parent to ask how (a zombie), as long as the parent lives: many
 * programs that are the first process of a container never ask. While one of its threads lives, it may still write.
 */
function hasEnded(pid: number): boolean {
  if (!/^[ZX]/.test(factsOf(pid)[0] ?? "")) return false;
  try {
    return fs.readdirSync(`/proc/${pid}/task`).length <= 1;
  } catch {
    return false; // gone meanwhile: the next look tells
  }
}

function describeMyself(): LockHolder {
  myProcess ??= describeProcess();
  return { ...myProcess, since: new Date().toISOString(), token: newMark() };
}

/** What is the same for all locks of this process. */
let myProcess: Omit<LockHolder, "since" | "token"> | undefined;

function describeProcess(): Omit<LockHolder, "since" | "token"> {
  return {
    host: hostname(),
    machine: readSystem("/etc/machine-id"),
    boot: readSystem("/proc/sys/kernel/random/boot_id"),
    namespace: processNamespace(),
    pid: process.pid,
    started: startOf(process.pid),
  };
}

function processNamespace(): string {
  try {
    return fs.readlinkSync("/proc/self/ns/pid");
  } catch {
    return ""; // not Linux, or not allowed: then it does not tell anything apart
  }
}

/** Linux: ticks from the start of the host to that of the process. */
function startOf(pid: number): string {
  return factsOf(pid)[19] ?? "";
}

/** Linux: what the system tells of a process, from the state on, which is field 3. */
function factsOf(pid: number): readonly string[] {
  const stat = readSystem(`/proc/${pid}/stat`);
  // The name in parentheses may hold anything; fields are counted from behind it.
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
    `the array is being written by ${who}. Wait for it; if it has certainly died, break the lock (--break-lock)`,
    { path, field: "lock", found: holder },
  );
}
