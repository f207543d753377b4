/** A repaired copy is never written into what is repaired. */
import { cpSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repairArray } from "../../src/node/convert.ts";
import { plan } from "../../src/node/plan.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

test.each(["blz-superchunk/f8-default", "ctable/bcolz-daily-equities", "zarr3-sharded/zp-u2-2d-missing"])(
  "a destination that is %s, inside it, or around it is refused, and nothing is written",
  async (path) => {
    const folder = temporaryFolder();
    const at = (name: string): string => join(folder, name);
    cpSync(join(corpusFolder, path), at("all/a"), { recursive: true });
    symlinkSync(at("all/a"), at("link"));
    const files = (): readonly unknown[] => readdirSync(folder, { recursive: true }).sort();
    const before = files();
    for (const [source, into] of [
      ["all/a", "all/a"],
      ["all/a", "all/a/repaired"],
      ["link", "all/a/data/repaired"],
      ["all/a", "all"],
    ] as const) {
      const refused = {
        code: "CONFLICT",
        message: expect.stringMatching(/the destination (?:is|contains) /),
      };
      await expect(repairArray(at(source), { into: at(into), holes: "fill" })).rejects.toMatchObject(refused);
      const planned = plan(at(source), at(into), { command: "repair", holes: "fill" });
      await expect(planned).rejects.toMatchObject(refused);
    }
    expect(files()).toEqual(before);
    await repairArray(at("all/a"), { into: at("all/b"), holes: "fill" });
  },
);
