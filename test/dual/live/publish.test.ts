/** Arrays that are shown less often than they are written: nothing is forgotten, and nothing is shown too early. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { verifyLinkAt } from "../../../src/node/index.ts";
import type { Editable } from "../../../src/write/editable.ts";
import { readForeign } from "./foreign-reader.ts";
import { ramp, temporaryFolder } from "./support.ts";

const OPTIONS = { dtype: "<i4", chunkLength: 4, superchunkLength: 3, zarr: true, threads: 0 } as const;

const json = (path: string): unknown => JSON.parse(fs.readFileSync(path, "utf8"));

describe.each(["full", { everySeconds: 3600 }] as const)("[FY-01] publish: %j", (publish) => {
  const beginLate = async (root: string): Promise<Editable> => {
    const array = await createArray(root, { ...OPTIONS, fillValue: -1 });
    await array.append(ramp(0, 36));
    await array.close();
    const again = await openWritable(root, { threads: 0, publish });
    await again.append(ramp(36, 1));
    await again.flush(); // the first publication is due now
    return again;
  };

  test.each([
    [
      "rows deleted, at the end of a session",
      async (array: Editable) => void (await array.deleteRows(0, 12)),
    ],
    [
      "values set, compacted",
      async (array: Editable) => {
        await array.set([{ start: 5, stop: 20, step: 1 }], 7);
        await array.compact();
      },
    ],
    [
      "rows removed and appended again, compacted in between",
      async (array: Editable) => {
        await array.resize(13);
        await array.compact();
        await array.append(ramp(500, 20));
        await array.compact();
        await array.set([2], 8);
      },
    ],
  ])("changed chunks are shown at the end, wherever they have moved since: %s", async (_name, change) => {
    const root = join(temporaryFolder(), "array");
    const array = await beginLate(root);
    await change(array);
    const { data } = (await array.get(null)) as { readonly data: Int32Array };
    await array.close();
    expect(await readForeign(root)).toEqual([...data]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("attributes are shown at once, with the rows that are shown", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await beginLate(root);
    const shown = await readForeign(root);
    await array.resize(5);
    await array.compact();
    await array.setAttributes({ unit: "m" });
    expect(json(join(root, "zarr.json"))).toMatchObject({
      shape: [shown.length],
      attributes: { unit: "m" },
    });
    expect(await readForeign(root)).toEqual(shown);
    await array.close();
    expect(await readForeign(root)).toEqual([...ramp(0, 5)]);
  });
});
