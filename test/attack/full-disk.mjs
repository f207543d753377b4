/**
 * Runs every writing command on a small disk that fills up at each place, and prints the outcome as JSON. Runs where
 * it may mount: in its own namespace, with the disk mounted.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";

const [, , disk, bundle, inputs, settings] = process.argv;
const { sizes, stride } = JSON.parse(settings);
const { run } = await import(bundle);

const at = (...names) => join(disk, ...names);
const input = (...names) => join(inputs, ...names);

/** Runs the command in this process. */
async function call(...argv) {
  const pieces = { out: [], err: [] };
  const capture = (name) =>
    new Writable({
      write(piece, _, done) {
        pieces[name].push(Buffer.from(piece));
        done();
      },
    });
  const stdin = new PassThrough();
  stdin.end();
  const io = { stdin, stdout: capture("out"), stderr: capture("err"), signal: new AbortController().signal };
  const code = await run(argv, io);
  return { code, out: Buffer.concat(pieces.out), err: Buffer.concat(pieces.err).toString() };
}

/** The contents of an archive as a hash, or the exit code if it cannot be read. */
async function contentOf(...path) {
  const { code, out } = await call("cat", at(...path), "--format", "csv");
  const attrs = await call("attrs", at(...path));
  return code === 0 ? createHash("sha1").update(out).update(attrs.out).digest("hex") : `exit ${code}`;
}

/** Bytes of a file, or of every file below a folder, as a hash. */
function hashOf(name) {
  const hash = createHash("sha1");
  const isFolder = fs.existsSync(at(name)) && fs.statSync(at(name)).isDirectory();
  for (const each of isFolder ? fs.readdirSync(at(name), { recursive: true }).map(String).sort() : [""]) {
    const path = at(name, each);
    if (fs.existsSync(path) && fs.statSync(path).isFile()) hash.update(each).update(fs.readFileSync(path));
  }
  return hash.digest("hex");
}

/**
 * `from`: the archive of the inputs that is copied to the disk. `argv`: the command. `again`: the retry, if it
 * differs. `to`: what it makes next to that archive, which must then not change.
 */
const CASES = {
  create: { argv: ["create", at("b"), "--from", input("x.npy")], to: "b" },
  append: { from: "own", argv: ["append", at("a"), input("more.npy")] },
  "append to a carray": { from: "carray", argv: ["append", at("a"), input("more.npy")] },
  "append to a table": { from: "table", argv: ["append", at("a"), input("more-table.npy")], isTable: true },
  "append to a file": { from: "file.blp", argv: ["append", at("a"), input("more.npy")] },
  "append to a file in place": { from: "bytes.blp", argv: ["append", at("a"), input("bytes"), "--in-place"] },
  set: { from: "own", argv: ["set", at("a"), "--slice", "100:5100", input("more.npy")] },
  "set in place": {
    from: "own",
    argv: ["set", at("a"), "--slice", "100:5100", input("more.npy"), "--in-place"],
  },
  grow: { from: "own", argv: ["resize", at("a"), "60000"] },
  shrink: { from: "own", argv: ["resize", at("a"), "3001"] },
  attrs: { from: "own", argv: ["attrs", at("a"), "--set", "a=1"] },
  "attrs of a carray": { from: "carray", argv: ["attrs", at("a"), "--set", "a=1"] },
  compact: { from: "set", argv: ["compact", at("a")] },
  "add a column": {
    from: "table",
    argv: ["columns", at("a"), "--add", `z=${input("x.npy")}`],
    isTable: true,
  },
  "repair in place": {
    from: "damaged",
    argv: ["repair", at("a"), "--in-place", "--holes", "fill"],
    isDamaged: true,
  },
  "repair into another": {
    from: "damaged",
    argv: ["repair", at("a"), at("b"), "--holes", "fill"],
    to: "b",
    isDamaged: true,
  },
  link: { from: "own", argv: ["link", at("a")] },
  compress: { argv: ["compress", input("x.npy"), at("b.blp")], to: "b.blp" },
  decompress: { from: "bytes.blp", argv: ["decompress", at("a"), at("b")], to: "b", isRaw: true },
  "convert to zarr": { from: "own", argv: ["convert", at("a"), at("b")], again: ["--resume"], to: "b" },
  "convert to bcolz": {
    from: "own",
    argv: ["convert", at("a"), at("b"), "--to", "bcolz"],
    again: ["--resume"],
    to: "b",
  },
  "convert to bloscpack": {
    from: "own",
    argv: ["convert", at("a"), at("b.blp"), "--to", "bloscpack"],
    again: ["--resume"],
    to: "b.blp",
  },
  "convert to npy": {
    from: "own",
    argv: ["convert", at("a"), at("b.npy"), "--to", "npy"],
    again: ["--resume"],
    to: "b.npy",
    isRaw: true,
  },
  virtualize: {
    from: "own",
    argv: ["virtualize", at("a"), at("b.json"), "--to", "kerchunk"],
    to: "b.json",
    isRaw: true,
  },
};

/** Prepares the disk as it is before the command. */
function prepare({ from }) {
  for (const left of fs.readdirSync(disk)) fs.rmSync(at(left), { recursive: true, force: true });
  if (from !== undefined) fs.cpSync(input(from), at("a"), { recursive: true, preserveTimestamps: true });
}

/** The command's subject, as a hash. */
async function resultOf({ to, isRaw }) {
  const path = to ?? "a";
  if (!fs.existsSync(at(path))) return "absent";
  if (isRaw)
    return createHash("sha1")
      .update(fs.readFileSync(at(path)))
      .digest("hex");
  return contentOf(path);
}

function fill(free) {
  const { bavail, bsize } = fs.statfsSync(disk);
  const bytes = bavail * bsize - free;
  if (bytes > 0) fs.writeFileSync(at("ballast"), new Uint8Array(bytes));
}

/** Leftovers: files that no reader and no later command would look at. */
const leftovers = () =>
  fs
    .readdirSync(disk, { recursive: true })
    .map(String)
    .filter((name) => /\.tmp$/.test(name));

const outcomes = [];
for (const [i, [name, spec]] of Object.entries(CASES).entries()) {
  if (i % stride !== 0) continue;
  prepare(spec);
  const before = await resultOf(spec);
  const whole = await call(...spec.argv);
  const after = await resultOf(spec);
  for (const free of sizes) {
    prepare(spec);
    const source = hashOf("a");
    fill(free * 1024);
    const { code, err } = await call(...spec.argv);
    fs.rmSync(at("ballast"), { force: true });
    const isSourceKept = source === hashOf("a");
    const found = await resultOf(spec);
    const verified = spec.isRaw || found === "absent" ? 0 : (await call("verify", at(spec.to ?? "a"))).code;
    let again = { code: 0, err: "" };
    if (code !== 0 && found !== after) again = await call(...spec.argv, ...(spec.again ?? []));
    const mended = await resultOf(spec);
    outcomes.push({
      name,
      free,
      whole: whole.code,
      isDamaged: spec.isDamaged === true,
      code,
      err,
      before,
      after,
      found,
      verified,
      again: again.code,
      againErr: again.err,
      mended,
      isSourceKept: isSourceKept || spec.to === undefined,
      leftovers: leftovers(),
    });
  }
}
process.stdout.write(JSON.stringify(outcomes));
