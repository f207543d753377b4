/** Every archive of the corpus is linked, read as Zarr and in its own format, verified, and unlinked; or refused. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { isSuperchunkError } from "../../../src/errors.ts";
import { link, openArchive, planLinkAt, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { type Fixture, loadArchives } from "../../fixtures/manifest.ts";
import { isExhaustive, sweep } from "../../scope.ts";
import { copyOf, hashOfZarr, sha256, snapshot } from "./support.ts";

const KINDS = ["hard", "symbolic", "copy"] as const;
type LinkKind = (typeof KINDS)[number];

/** Why archives are refused, by the part of the message that gives the reason. */
const REFUSED: Readonly<Record<string, string>> = {
  "bloscpack-3/array-f4-3d-fortran.blp": "chunks of 1024 bytes do not end on rows of the shape [7,9,11]",
  "blz-superchunk/f8-streamed": "its header does not say how many chunks it has",
  "carray/bcolz-i4-snappy": "zarr-python cannot decode Blosc chunks with snappy",
};

const rows = loadArchives()
  .filter(({ refuse }) => !refuse)
  .filter(({ path }, i) => isExhaustive || i % 2 === 0 || path in REFUSED)
  .map((row, i) => ({
    ...row,
    kinds: sweep<readonly LinkKind[]>(KINDS, KINDS.slice(i % KINDS.length, (i % KINDS.length) + 1)),
  }));

async function hashOfArchive(path: string, column: string | undefined): Promise<string> {
  const archive = await openArchive(path);
  try {
    if (archive.kind === "table") {
      return sha256(await archive.column(column ?? "").getBytes());
    }
    if (archive.kind === "bytes") return sha256(await archive.readBytes(0, archive.nbytes));
    return sha256(await (column === undefined ? archive : archive.column(column)).getBytes());
  } finally {
    await archive.close();
  }
}

function columnsOf(root: string): (string | undefined)[] {
  if (fs.existsSync(join(root, "zarr.json"))) {
    const { node_type, attributes } = JSON.parse(fs.readFileSync(join(root, "zarr.json"), "utf8")) as {
      node_type: string;
      attributes: { column_order?: string[] };
    };
    if (node_type === "group") return attributes.column_order ?? [];
  }
  return [undefined];
}

/** Bytes of a big-endian number, which the Zarr reader gives in little-endian. */
function bigEndianSize({ path }: Fixture): number {
  return path.includes("bigendian") ? 2 : 1;
}

describe.each(rows)("$path", (row) => {
  const expected = REFUSED[row.path];
  if (expected !== undefined) {
    test("is refused with the reason, and stays as it is", async () => {
      const copy = copyOf(row.file);
      const before = snapshot(join(copy, ".."));
      const isFile = fs.statSync(copy).isFile();
      const error = await link(copy, isFile ? `${copy}.zarr` : undefined).catch((caught: unknown) => caught);
      expect(isSuperchunkError(error, "UNSUPPORTED") && error.message).toContain(expected);
      expect(snapshot(join(copy, ".."))).toEqual(before);
    });
    return;
  }

  test.each(row.kinds)(
    "%s: all three views are right, and unlink restores every byte and mode",
    async (kind) => {
      const copy = copyOf(row.file);
      const folder = join(copy, "..");
      const before = snapshot(folder);
      const isFile = fs.statSync(copy).isFile();
      const root = isFile ? `${copy}.zarr` : copy;
      const destination = isFile ? root : undefined;

      const plan = await planLinkAt(copy, destination, { kind });
      expect(snapshot(folder)).toEqual(before);
      const result = await link(copy, destination, { kind });
      expect(result.files).toEqual(plan.files);
      expect(result.done).toBe(false);

      for (const column of columnsOf(root)) {
        const hash = await hashOfArchive(row.file, column);
        expect(await hashOfArchive(copy, column)).toBe(hash);
        // Only other readers follow a link out of the folder.
        if (kind !== "symbolic" || !isFile)
          expect(await hashOfZarr(root, column ?? "", bigEndianSize(row))).toBe(hash);
      }
      const opened = await openArchive(copy);
      const { ok } = await opened.verify();
      await opened.close();
      expect(ok).toBe(true);
      expect(await verifyLinkAt(root)).toEqual([]);

      const linked = snapshot(folder);
      expect((await link(copy, destination, { kind })).done).toBe(true);
      expect(snapshot(folder)).toEqual(linked);

      const undone = await unlink(root);
      expect(undone.files).toBe(result.files.length);
      expect(snapshot(folder)).toEqual(before);
    },
  );
});
