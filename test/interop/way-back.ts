/** Zarr arrays that came back are read by the programs whose formats they came back in, with the values of their producers. */
import { join } from "node:path";
import { convertBack } from "../../src/bridge/way-back/convert-back.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/open.ts";
import { type ArrayFixture, loadFixtures } from "../fixtures/manifest.ts";
import type { PeerName } from "./peers.ts";
import type { Suite } from "./suite.ts";

/** Who reads what is written. */
const READERS = [
  ["bcolz", "bcolz-zipline"],
  ["bcolz", "bcolz 1.2.1"],
  ["bloscpack", "bloscpack"],
] as const satisfies readonly (readonly ["bcolz" | "bloscpack", PeerName])[];

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
        await convertBack(array, new FileStore(folder), key, format, { verify: true });
      }
    }
    for (const [format, name] of READERS) {
      const reader = peer(name);
      if (reader === undefined) continue;
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
