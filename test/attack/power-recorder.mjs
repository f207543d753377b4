/**
 * Loaded before a program (`node --import`): records what it writes below the folder RECORD_ROOT, when each write
 * and sync began and ended, and the bytes. A test makes from this the disks that a power cut may leave. Written to
 * RECORD_LOG when the program ends.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname, sep } from "node:path";

const root = process.env["RECORD_ROOT"];
const target = process.env["RECORD_LOG"];
const original = { ...fs, promises: { ...fs.promises } };

/** One entry for each start; `done` is the number of entries when it ended. */
const events = [];
const blobs = [];
let blobSize = 0;
/** What a file descriptor is: a file with its own number, or a folder. */
const opened = new Map();
const files = new Map();
let nextFile = 0;

const isInside = (path) => typeof path === "string" && (path === root || path.startsWith(root + sep));

function begin(event) {
  const entry = { ...event, done: undefined };
  events.push(entry);
  return () => {
    entry.done = events.length;
  };
}

function register(fd, path, flags) {
  if (!isInside(path)) return;
  const info = original.fstatSync(fd);
  if (info.isDirectory()) {
    opened.set(fd, { folder: path });
    return;
  }
  const isNew = typeof flags === "string" && flags.startsWith("wx");
  if (isNew || !files.has(info.ino)) files.set(info.ino, nextFile++);
  const file = files.get(info.ino);
  opened.set(fd, { file });
  if (isNew) begin({ kind: "link", folder: dirname(path), name: path, file })();
  if (typeof flags === "number" && (flags & (fs.constants.O_DIRECT ?? 0)) !== 0)
    events.push({ kind: "direct", file });
}

function write(fd, bytes, position) {
  const file = opened.get(fd)?.file;
  if (file === undefined) return () => undefined;
  const copy = Buffer.from(bytes);
  blobs.push(copy);
  blobSize += copy.length;
  return begin({ kind: "write", file, position, length: copy.length, at: blobSize - copy.length });
}

function sync(fd) {
  const known = opened.get(fd);
  return known === undefined ? () => undefined : begin({ kind: "sync", ...known });
}

const cut = (fd, length) => {
  const file = opened.get(fd)?.file;
  return file === undefined ? () => undefined : begin({ kind: "truncate", file, length: length ?? 0 });
};

const move = (from, to) =>
  isInside(to) ? begin({ kind: "rename", from, to, file: fileAt(from) }) : () => undefined;
const link = (from, to) =>
  isInside(to) ? begin({ kind: "link", folder: dirname(to), name: to, file: fileAt(from) }) : () => undefined;
const remove = (path) =>
  isInside(path) ? begin({ kind: "unlink", folder: dirname(path), name: path }) : () => undefined;
/** With the missing folders above it, if they are created too. */
const folder = (path, options) => {
  if (!isInside(path) || original.existsSync(path)) return () => undefined;
  const above = options?.recursive === true ? folder(dirname(path), options) : () => undefined;
  const end = begin({ kind: "mkdir", folder: dirname(path), name: path });
  return () => {
    above();
    end();
  };
};

function fileAt(path) {
  const info = original.statSync(path, { throwIfNoEntry: false });
  return info?.isFile() ? files.get(info.ino) : undefined;
}

/** Records an operation around a synchronous call, one with a callback, or one with a promise. */
const atOnce = (name, note) => {
  fs[name] = (...args) => {
    const end = note(...args);
    const result = original[name](...args);
    end(result);
    return result;
  };
};
const withCallback = (name, note) => {
  fs[name] = (...args) => {
    const end = note(...args);
    const callback = args.pop();
    return original[name](...args, (...results) => {
      end();
      callback(...results);
    });
  };
};
const withPromise = (name, note) => {
  fs.promises[name] = async (...args) => {
    const end = note(...args);
    const result = await original.promises[name](...args);
    end();
    return result;
  };
};

atOnce("openSync", (path, flags) => (fd) => register(fd, path, flags));
withCallback("write", (fd, bytes, offset, length, position) =>
  write(fd, bytes.subarray(offset, offset + length), position),
);
atOnce("writeSync", (fd, bytes, offset, length, position) =>
  write(fd, bytes.subarray(offset, offset + length), position),
);
withCallback("fsync", sync);
withCallback("fdatasync", sync);
atOnce("fsyncSync", sync);
atOnce("fdatasyncSync", sync);
atOnce("ftruncateSync", cut);
atOnce("renameSync", move);
withPromise("rename", move);
atOnce("linkSync", link);
withPromise("link", link);
atOnce("rmSync", remove);
withPromise("rm", remove);
atOnce("unlinkSync", remove);
withPromise("unlink", remove);
atOnce("mkdirSync", folder);
withPromise("mkdir", folder);

syncBuiltinESMExports();

/** For the program: records a moment, for example that something is durable. */
globalThis.noteMoment = (text) => events.push({ kind: "moment", text });

process.on("exit", () => {
  original.writeFileSync(`${target}.json`, JSON.stringify(events));
  original.writeFileSync(`${target}.bin`, Buffer.concat(blobs));
});
