/**
 * The producers themselves read the fixtures, and find what the manifest says.
 *
 * Proves the fixtures, and the readers that the other suites rely on.
 */
import { existsSync } from "node:fs";
import { cp, mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { type Fixture, type FixtureDialect, loadFixtures } from "../fixtures/manifest.ts";
import type { Job } from "./answers.ts";
import type { PeerName } from "./peers.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const BLZ_ARCHIVES = {
  "carray/blz-f8": "knows no bparams, which blz writes in place of cparams",
  "carray/blz-i2-2d": "knows no bparams, which blz writes in place of cparams",
  "ctable/blz-btable": "knows no bparams, which blz writes in place of cparams",
};

/** Which reader reads which dialect, and which archives of it one does not read, with the reason. */
const READERS: readonly {
  readonly peer: PeerName;
  readonly dialects: readonly FixtureDialect[];
  readonly refuses: Readonly<Record<string, string>>;
}[] = [
  {
    peer: "bloscpack",
    dialects: ["bloscpack-1", "bloscpack-2", "bloscpack-3"],
    refuses: {
      "bloscpack-1/v1-chunks.blp": "reads version 3 of the format only",
      "bloscpack-1/v1-single.blp": "reads version 3 of the format only",
      "bloscpack-2/v2-default.blp": "reads version 3 of the format only",
      "bloscpack-2/v2-nooffsets-md5.blp": "reads version 3 of the format only",
    },
  },
  {
    peer: "bcolz-zipline",
    dialects: ["carray", "ctable"],
    refuses: { ...BLZ_ARCHIVES, "carray/bcolz-i4-snappy": "built without snappy" },
  },
  { peer: "bcolz 1.2.1", dialects: ["carray", "ctable"], refuses: BLZ_ARCHIVES },
  {
    peer: "reference reader",
    dialects: ["bloscpack-1", "bloscpack-2", "bloscpack-3", "blz-superchunk", "carray", "ctable"],
    refuses: { "carray/bcolz-i4-snappy": "its Blosc was built without snappy" },
  },
  { peer: "zarr-python", dialects: ["zarr3-sharded", "zarr3-rectilinear"], refuses: {} },
  { peer: "zarrs", dialects: ["zarr3-sharded", "zarr3-rectilinear"], refuses: {} },
  {
    peer: "tensorstore",
    dialects: ["zarr3-sharded", "zarr3-rectilinear"],
    refuses: {
      "zarr3-rectilinear/f8-1d": "knows regular grids only",
      "zarr3-rectilinear/i4-2d": "knows regular grids only",
    },
  },
  { peer: "zarr 2.18", dialects: ["zarr3-transformer"], refuses: {} },
];

export const fixtures: Suite = {
  name: "fixtures",
  peers: READERS.map(({ peer }) => peer),
  async run(context) {
    for (const { peer, dialects, refuses } of READERS) {
      const rows = loadFixtures(...dialects).filter(({ refuse }) => !refuse);
      await readAll(
        context,
        peer,
        await Promise.all(rows.map((row) => restoreFolders(context, row))),
        refuses,
      );
    }
  },
};

async function readAll(
  { checks, peer }: SuiteContext,
  name: PeerName,
  rows: readonly Fixture[],
  refuses: Readonly<Record<string, string>>,
): Promise<void> {
  const reader = peer(name);
  if (reader === undefined) return;
  const asked = rows.flatMap(listReadings);
  const answers = await reader.read(asked.map(({ job }) => job));
  for (const [index, { row, job, values }] of asked.entries()) {
    const answer = answers[index] ?? { kind: "error", error: "no answer" };
    const what = `${name} reads ${row.path}${job.column === undefined ? "" : `, column ${job.column}`}`;
    if (row.path in refuses) {
      checks.refused(`${name} refuses ${row.path} (${refuses[row.path]})`, answer);
      continue;
    }
    if (values !== undefined) checks.values(what, answer, values);
    else if (answer.kind !== "group")
      checks.fail(what, answer.kind === "error" ? answer.error : "found values");
    else if (row.kind === "table") checks.equal(`${what}: columns`, answer.members, row.names);
    if (answer.kind === "values" && answer.attrs !== null && row.kind !== "table" && hasAttributes(row)) {
      checks.equal(`${what}: attributes`, answer.attrs, row.attrs);
    }
    if (answer.kind === "group") checks.equal(`${what}: attributes`, answer.attrs, row.attrs);
  }
}

/** bcolz requires the `data` folder of an empty array, and git keeps no empty folders: a copy with it. */
async function restoreFolders({ folder }: SuiteContext, row: Fixture): Promise<Fixture> {
  if (row.dialect !== "carray" || existsSync(join(row.file, "data"))) return row;
  const file = join(folder, basename(row.file));
  await cp(row.file, file, { recursive: true });
  await mkdir(join(file, "data"), { recursive: true });
  return { ...row, file };
}

interface Reading {
  readonly row: Fixture;
  readonly job: Job;
  readonly values?: { readonly shape: readonly number[]; readonly sha256: string | null };
}

function listReadings(row: Fixture): Reading[] {
  if (row.kind === "bytes") return [{ row, job: { path: row.file }, values: row }];
  if (row.kind === "array") {
    return [{ row, job: { path: row.file, dtype: row.dtype, arrayPath: row.arrayPath }, values: row }];
  }
  const columns = row.names.flatMap((name) => {
    const values = row.columns[name];
    return values === undefined
      ? []
      : [{ row, job: { path: row.file, dtype: values.dtype, column: name }, values }];
  });
  return [{ row, job: { path: row.file, group: true } }, ...columns];
}

/** bloscpack's numpy reader returns no metadata: an array has only those that describe it. */
function hasAttributes({ dialect, kind }: Fixture): boolean {
  return !(dialect === "bloscpack-3" && kind === "array");
}
