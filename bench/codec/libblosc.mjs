/** libblosc as a peer, through the python-blosc that `npm run test:interop` installs. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const environments = fileURLToPath(new URL("../../.cache/interop/", import.meta.url));

function findPython() {
  if (!existsSync(environments)) return undefined;
  const name = readdirSync(environments).find((each) => each.startsWith("python-blosc-"));
  const python = name === undefined ? undefined : join(environments, name, "python", "bin", "python");
  return python !== undefined && existsSync(python) ? python : undefined;
}

/** libblosc in a separate process; undefined if python-blosc is missing: `npm run test:interop` installs it. */
export async function startLibblosc() {
  const python = findPython();
  if (python === undefined) return undefined;
  const script = fileURLToPath(new URL("libblosc.py", import.meta.url));
  // With these, a result reuses the memory of the previous one. Otherwise libblosc would be timed with new pages for each.
  const env = {
    ...process.env,
    MALLOC_MMAP_THRESHOLD_: String(1 << 30),
    MALLOC_TRIM_THRESHOLD_: String(1 << 30),
  };
  const libblosc = new Libblosc(spawn(python, [script], { stdio: ["pipe", "pipe", "inherit"], env }));
  const { version } = await libblosc.ask({});
  return Object.assign(libblosc, { version });
}

class Libblosc {
  #process;
  #lines;
  #folder = mkdtempSync(join(tmpdir(), "bench-"));

  constructor(process) {
    this.#process = process;
    this.#lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]();
  }

  async ask(request) {
    this.#process.stdin.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("libblosc's process ended");
    return JSON.parse(value);
  }

  /** Prepares `{work, chunks, …}`, replacing the previous job, for `leastSeconds`; `size` is that of all encoded chunks. */
  async prepare({ chunks, ...job }) {
    const file = join(this.#folder, "data");
    writeFileSync(file, Buffer.concat(chunks));
    const { size } = await this.ask({ job: { ...job, file, lengths: chunks.map(({ length }) => length) } });
    return { size, seconds: async (round) => (await this.ask({ seconds: round })).seconds };
  }

  end() {
    this.#process.stdin.end();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
