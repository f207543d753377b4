/** Converted Zarr arrays are read by the programs of the formats that they became, with the values of their producers. */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { open } from "../../src/archive/open/open.ts";
import { FileStore } from "../../src/node/index.ts";
import { compressArray } from "../../src/write/bloscpack/bloscpack-write.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { type ArrayFixture, loadFixtures } from "../fixtures/manifest.ts";
import type { PeerName } from "./peers.ts";
import type { Suite } from "./suite.ts";

/** Which program reads what is written. */
const READERS = [
  ["bcolz", "bcolz-zipline"],
  ["bcolz", "bcolz 1.2.1"],
  ["bloscpack", "bloscpack"],
] as const satisfies readonly (readonly ["bcolz" | "bloscpack", PeerName])[];

/** Typesizes of chunks of 8-byte items with which bcolz would find wrong rows if the chunks were copied. */
const ODD = [1, 4, 16] as const;
/** Rows that are read, in two chunks. */
const PART = { offset: 1983, length: 31 } as const;

function makeValues(): Float64Array {
  return Float64Array.from({ length: 10_000 }, (_, i) => i * 1.5);
}

function partOfOdd(): Uint8Array {
  return new Uint8Array(makeValues().slice(PART.offset, PART.offset + PART.length).buffer);
}

async function makeOdd(folder: string): Promise<void> {
  const store = new FileStore(folder);
  const dtype = { kind: "float", itemSize: 8, byteOrder: "little" } as const;
  const data = new Uint8Array(makeValues().buffer);
  for (const typesize of ODD) {
    const options = { typesize, chunkSize: 16_000 };
    await compressArray({ dtype, shape: [10_000], data }, store, `odd-${typesize}.blp`, options);
    const source = await open(store, `odd-${typesize}.blp`);
    await convert(source, { store, path: `odd-${typesize}` }, { to: "bcolz", verify: true });
  }
}

export const wayBack: Suite = {
  name: "way-back",
  peers: READERS.map(([, peer]) => peer),
  async run({ checks, folder, peer }) {
    const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
      (row): row is ArrayFixture & { readonly sha256: string } => row.kind === "array" && row.sha256 !== null,
    );
    for (const format of ["bcolz", "bloscpack"] as const) {
      for (const row of rows) {
        const key = `${format}/${row.path.replaceAll("/", "-")}`;
        const array = await openZarrArray(new FileStore(row.file), row.arrayPath);
        await convert(array, { store: new FileStore(folder), path: key }, { to: format, verify: true });
      }
    }
    await makeOdd(folder);
    for (const [format, name] of READERS) {
      const reader = peer(name);
      if (reader === undefined) continue;
      if (format === "bcolz") {
        const jobs = ODD.map((typesize) => ({
          path: join(folder, `odd-${typesize}`),
          dtype: "<f8",
          ...PART,
        }));
        for (const [i, answer] of (await reader.read(jobs)).entries()) {
          const sha256 = createHash("sha256").update(partOfOdd()).digest("hex");
          const what = `rows of a carray that was made of chunks of typesize ${ODD[i]}`;
          checks.values(`${name} finds ${what}`, answer, { shape: [PART.length], sha256 });
        }
      }
      const answers = await reader.read(
        rows.map(({ path, dtype }) => ({
          path: join(folder, format, path.replaceAll("/", "-")),
          dtype,
        })),
      );
      for (const [i, answer] of answers.entries()) {
        const row = rows[i];
        if (row === undefined) continue;
        const { shape, sha256 } = row;
        checks.values(`${name} reads ${row.path} that came back`, answer, { shape, sha256 });
      }
    }
  },
};
