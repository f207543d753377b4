/** Every command that reads, on every archive of the corpus. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type Fixture, type FixtureValues, loadArchives, parseExactJson } from "../fixtures/manifest.ts";
import { sample } from "../scope.ts";
import { runCli } from "./harness.ts";

const readable = loadArchives().filter((fixture) => !fixture.refuse);
const single = readable.filter((fixture) => fixture.kind !== "table");
const columns = readable.flatMap((fixture) =>
  fixture.kind !== "table"
    ? []
    : fixture.names.map((name) => ({ fixture, path: fixture.path, name, values: columnOf(fixture, name) })),
);

function columnOf(fixture: Extract<Fixture, { kind: "table" }>, name: string): FixtureValues {
  const values = fixture.columns[name];
  if (values === undefined) throw new Error(`${fixture.path} has no column ${name}`);
  return values;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

describe("info --json", () => {
  it.each(sample(readable, 34))(
    "reports dialect, kind, dtype, shape and checksum of $path",
    async (fixture) => {
      const { code, out, err } = await runCli(["info", fixture.file, "--json"]);
      const found = parseExactJson(out) as Record<string, unknown>;
      expect(err).toBe("");
      expect(code).toBe(0);
      expect(found).toMatchObject({
        path: fixture.file,
        dialect: fixture.dialect,
        kind: fixture.kind,
        shape: fixture.shape,
        dtype: fixture.dtype,
        attrs: fixture.attrs,
        checksum: fixture.checksum === "None" ? null : fixture.checksum,
      });
      if (fixture.kind === "array") expect(found["order"]).toBe(fixture.order);
      if (fixture.kind === "table") {
        const listed = found["columns"] as Record<string, unknown>[];
        expect(listed.map((column) => column["name"])).toEqual(fixture.names);
        for (const [i, name] of fixture.names.entries()) {
          const { dtype, shape } = columnOf(fixture, name);
          expect(listed[i]).toMatchObject({ dtype, shape });
        }
      } else {
        expect(found["chunks"]).toMatchObject({ nchunks: fixture.chunks["nchunks"] });
      }
    },
  );
});

describe("cat", () => {
  it.each(sample(single, 24))("--format raw prints the bytes of $path", async (fixture) => {
    const { code, bytes } = await runCli(["cat", fixture.file, "--format", "raw"]);
    expect(code).toBe(0);
    expect(sha256(bytes)).toBe(fixture.sha256);
  });

  it.each(sample(columns, 24))(
    "--format raw --column $name prints the bytes of the column of $path",
    async ({ fixture, name, values }) => {
      const { code, bytes } = await runCli(["cat", fixture.file, "--format", "raw", "--column", name]);
      expect(code).toBe(0);
      // Rows of a column past the shortest one are not the table's.
      expect(sha256(bytes)).toBe(values.sha256);
    },
  );

  it.each(sample(single, 24))("--format json prints head and tail of $path", async (fixture) => {
    const { code, out } = await runCli(["cat", fixture.file, "--format", "json"]);
    expect(code).toBe(0);
    const flat = flatten(JSON.parse(out), fixture.kind === "bytes" ? 1 : fixture.shape.length);
    const count = fixture.shape.reduce((product, n) => product * n, 1);
    expect(flat).toHaveLength(count);
    expect(flat.slice(0, fixture.head.length)).toEqual(fixture.head);
    expect(flat.slice(flat.length - fixture.tail.length)).toEqual(fixture.tail);
  });

  it.each(sample(columns, 24))(
    "--format json prints head and tail of column $name of $path",
    async ({ fixture, name, values }) => {
      const { out } = await runCli(["cat", fixture.file, "--format", "json", "--column", name]);
      const flat = flatten(JSON.parse(out), values.shape.length);
      expect(flat.slice(0, values.head.length)).toEqual(values.head);
      expect(flat.slice(flat.length - values.tail.length)).toEqual(values.tail);
    },
  );

  it.each(sample(single, 24))(
    "--format npy prints a header that ends before the bytes of $path",
    async (fixture) => {
      const { code, bytes } = await runCli(["cat", fixture.file, "--format", "npy"]);
      expect(code).toBe(0);
      const start = 10 + bytes.readUInt16LE(8);
      const shape = fixture.shape.length === 1 ? `(${fixture.shape[0]},)` : `(${fixture.shape.join(", ")})`;
      expect(bytes.subarray(10, start).toString("latin1")).toContain(
        `'fortran_order': False, 'shape': ${shape}, }`,
      );
      expect(start % 64).toBe(0);
      expect(sha256(bytes.subarray(start))).toBe(fixture.sha256);
    },
  );

  it.each(sample(single, 24))(
    "--slice ::3 of $path as raw is every third row of the whole array",
    async (fixture) => {
      const whole = (await runCli(["cat", fixture.file, "--format", "raw"])).bytes;
      const part = (await runCli(["cat", fixture.file, "--format", "raw", "--slice", "::3"])).bytes;
      const rows = fixture.shape[0] ?? 1;
      const rowBytes = rows === 0 ? 0 : whole.length / rows;
      const expected = Buffer.concat(
        Array.from({ length: Math.ceil(rows / 3) }, (_, i) =>
          whole.subarray(3 * i * rowBytes, (3 * i + 1) * rowBytes),
        ),
      );
      expect(part.equals(expected)).toBe(true);
    },
  );
});

describe("verify", () => {
  it.each(sample(readable, 34))("finds nothing wrong with $path", async (fixture) => {
    const { code, out } = await runCli(["verify", fixture.file, "--json"]);
    const found = JSON.parse(out) as {
      ok: boolean;
      archives: { ok: boolean; findings: { severity: string }[] }[];
    };
    expect(found.archives).toHaveLength(1);
    expect(found.archives[0]?.findings.filter((finding) => finding.severity === "error")).toEqual([]);
    expect(found.ok).toBe(true);
    expect(code).toBe(0);
  });
});

describe("chunks", () => {
  it.each(sample(single, 24))(
    "lists as many chunks of $path as its producer wrote, none outside the archive",
    async (fixture) => {
      const { code, out } = await runCli(["chunks", fixture.file, "--json"]);
      const chunks = JSON.parse(out) as {
        nbytes: number;
        cbytes: number;
        checksum: string | null;
        column?: string;
      }[];
      expect(code).toBe(0);
      const columnCount = new Set(chunks.map((chunk) => chunk.column)).size;
      expect(chunks).toHaveLength(Number(fixture.chunks["nchunks"]) * Math.max(1, columnCount));
      expect(chunks.every((chunk) => chunk.cbytes >= 16)).toBe(true);
      expect(
        chunks.every((chunk) => chunk.checksum === (fixture.checksum === "None" ? null : fixture.checksum)),
      ).toBe(true);
    },
  );
});

describe("archives that must be refused", () => {
  it.each(["raw", "npy", "json", "csv", "text"])(
    "an aborted write is damage, and cat --format %s prints no value",
    async (format) => {
      const file = loadArchives().find((fixture) => fixture.path === "blz-superchunk/aborted")?.file ?? "";
      const { code, out, err } = await runCli(["cat", file, "--format", format]);
      expect(code).toBe(3);
      expect(err).toMatch(/^superchunk: .*__1__\.bin: [^\n]+\n$/);
      expect(out).not.toMatch(/\d{2}/);
    },
  );

  it.each(["raw", "npy", "json", "csv", "text"])(
    "Python objects are never read by cat --format %s",
    async (format) => {
      const file = loadArchives().find((fixture) => fixture.path === "carray/bcolz-object")?.file ?? "";
      const { code, err } = await runCli(["cat", file, "--format", format]);
      expect(code).toBe(1);
      expect(err).toMatch(/^superchunk: .*pickle[^\n]+\n$/);
    },
  );
});

describe("verify of Python objects", () => {
  it("says that they are checked only in part, and ends with 1", async () => {
    const file = loadArchives().find((fixture) => fixture.path === "carray/bcolz-object")?.file ?? "";
    const text = await runCli(["verify", file]);
    expect(text.code).toBe(1);
    expect(text.out).toMatch(/^PARTLY /);
    expect(text.out).toContain("1 archive: 0 ok, 1 checked in part, 4 chunks");
    const json = JSON.parse((await runCli(["verify", file, "--json"])).out);
    expect(json).toMatchObject({ ok: false, totals: { partly: 1, damaged: 0 } });
    expect(json.archives[0]).toMatchObject({ ok: true, unchecked: expect.stringContaining("pickles") });
  });
});

/** The values of nested lists, in C order. Values that are lists themselves (complex numbers, structs) stay whole. */
function flatten(value: unknown, depth: number): unknown[] {
  let flat: unknown[] = depth === 0 ? [value] : (value as unknown[]);
  for (let d = 1; d < depth; d++) flat = flat.flat();
  return flat;
}
