/** The starts of very many files, read by threads: the same as read one by one, and the process exits on its own. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { temporaryFolder } from "../../folder.ts";
import { type Bundles, bundle } from "./bundle.ts";

/** More than are read without threads. */
const FILES = 5100;

const PROGRAM = `
  import { FileStore } from "./fs/fs-store.ts";
  let threads = 0;
  process.on("worker", () => threads++);
  const store = new FileStore(process.argv[2] ?? "");
  const keys = Array.from({ length: ${FILES} }, (_, i) => "data/" + i);
  const differing: string[] = [];
  let absent = 0;
  for (const length of [8, 0])
    for (let at = 0; at < keys.length; at += 500) {
      const lot = keys.slice(at, at + 500);
      for (const [i, head] of (await store.getHeads(lot, length)).entries()) {
        const key = lot[i] ?? "";
        const info = await store.stat(key);
        const bytes = await store.getRange(key, { offset: 0, length });
        if (head === undefined) absent++;
        if (JSON.stringify(head) !== JSON.stringify(info && { bytes, info })) differing.push(key);
      }
    }
  const refused = await store.getHeads([...keys, "outside"], 8).then(() => "read", ({ code }) => code);
  console.log(JSON.stringify({ differing, absent, refused, hasThreads: threads > 0 }));
`;

let bundles: Bundles;
let folder: string;

beforeAll(async () => {
  bundles = await bundle({ "heads.js": PROGRAM });
  folder = temporaryFolder();
  const data = join(folder, "root", "data");
  await mkdir(data, { recursive: true });
  for (let i = 0; i < FILES; i++)
    if (i % 1000 !== 7) writeFileSync(join(data, String(i)), `${i} of ${FILES}`);
  await symlink("8", join(data, "1007"));
  await writeFile(join(folder, "secret"), "secret");
  await symlink("../secret", join(folder, "root", "outside"));
});

afterAll(async () => {
  await bundles.remove();
});

it("reading file heads in threads gives what single reads give, also for links and missing files, and follows no link out", async () => {
  const program = join(bundles.folder, "heads.js");
  const { stdout } = await promisify(execFile)(process.execPath, [program, join(folder, "root")], {
    timeout: 600_000,
    killSignal: "SIGKILL",
  });
  // Files 7, 2007, 3007, 4007 and 5007 are missing, at both lengths; 1007 is a link.
  expect(JSON.parse(stdout)).toEqual({ differing: [], absent: 10, refused: "UNSAFE_PATH", hasThreads: true });
});
