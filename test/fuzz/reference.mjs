/** libblosc, in a separate process: damaged chunks may crash it. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("reference.py", import.meta.url));
const ANSWER = 20;

/** The version of libblosc, or undefined if this Python has none. */
export function describeReference(python) {
  const program =
    "import blosc; print('python-blosc', blosc.__version__, 'with c-blosc', blosc.blosclib_version)";
  const { status, stdout } = spawnSync(python, ["-c", program], { encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

/** The result of libblosc for each chunk: { nbytes, digest }, "refused" or "crashed". */
export function decodeByReference(python, chunks) {
  const answers = [];
  while (answers.length < chunks.length) {
    const rest = chunks.slice(answers.length);
    const input = Buffer.concat(rest.flatMap((chunk) => [lengthOf(chunk), chunk]));
    const { stdout, signal, status, stderr } = spawnSync(python, [SCRIPT], { input, maxBuffer: 1 << 28 });
    for (let at = 0; at + ANSWER <= stdout.length; at += ANSWER) {
      const nbytes = stdout.readInt32LE(at);
      answers.push(nbytes < 0 ? "refused" : { nbytes, digest: stdout.toString("hex", at + 4, at + ANSWER) });
    }
    if (status === 0) break;
    if (signal === null && status === 1) throw new Error(`the reference failed: ${stderr}`);
    if (answers.length < chunks.length) answers.push("crashed");
  }
  return answers;
}

function lengthOf(chunk) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(chunk.length);
  return bytes;
}
