/** A real disk that is full, read-only, or without its folder. */
import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { bundleLibrary } from "./bundle.ts";

let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
});
/** Linux lets every user mount in their own namespace, unless it is configured not to. */
const canMount =
  spawnSync("unshare", ["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], { stdio: "ignore" }).status === 0;

interface Look {
  readonly expected: number;
  readonly rows: number;
  readonly isRight: boolean;
  readonly errors: readonly unknown[];
}

test.skipIf(!canMount)(
  "a full or read-only disk, and a folder that vanishes, are errors; nothing is lost, and the array stays usable",
  async () => {
    const disk = join(folder, "disk");
    fs.mkdirSync(disk);
    const entry = join(folder, "superchunk.mjs");
    await bundleLibrary(entry);
    const script = fileURLToPath(new URL("./full-disk.mjs", import.meta.url));
    const command = 'mount -t tmpfs -o size=400k tmpfs "$1" && exec "$0" "$2" "$1" "$3"';
    const out = execFileSync("unshare", ["-rm", "sh", "-c", command, process.execPath, disk, script, entry]);
    const results = JSON.parse(out.toString()) as Record<string, Record<string, unknown>>;
    expect(Object.keys(results)).toEqual(["superchunks", "carray", "ctable", "bloscpack", "in place"]);
    for (const [kind, result] of Object.entries(results)) {
      const { full, readOnly, vanished, made, ...looks } = result;
      expect([kind, full, readOnly, vanished, made]).toEqual([
        kind,
        "NO_SPACE",
        "READ_ONLY",
        "NOT_FOUND",
        [],
      ]);
      for (const [when, look] of Object.entries(looks as Record<string, Look>)) {
        expect([kind, when, look]).toEqual([
          kind,
          when,
          { expected: look.expected, rows: look.expected, isRight: true, errors: [] },
        ]);
      }
    }
  },
);
