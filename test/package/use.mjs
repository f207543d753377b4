/** What a user does with the package in Node.js, Deno and Bun: `use.mjs ARCHIVES`, which prints values as JSON. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPool, decode, encode } from "superchunk/blosc";
import { convert, create, open, openArray, openTable } from "superchunk/node";

const archives = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), "superchunk-use-"));
const hash = ({ buffer, byteOffset, byteLength }) =>
  createHash("sha256")
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest("hex");

try {
  const table = await openTable(join(archives, "ctable/bcolz-daily-equities"));
  const columns = {};
  for (const name of table.names) columns[name] = hash((await table.column(name).get()).data);
  await table.close();

  const floats = await openArray(join(archives, "bloscpack-3/array-f8.blp"), { dtype: "float64" });
  const { data } = await floats.get();
  await floats.close();

  const made = await create(join(folder, "made"), { dtype: "float64", compressor: { cname: "lz4" } });
  await made.append(data);
  await made.close();
  await convert(join(folder, "made"), join(folder, "made.zarr"), { verify: true });
  const zarr = await open(join(folder, "made.zarr"));
  const carried = hash((await zarr.get()).data);
  await zarr.close();

  const chunk = await encode(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), {
    cname: "zstd",
  });
  // Node.js before 20.16 has no workers that a program without imports could start.
  const hasWorkers = typeof Worker === "function" || process.getBuiltinModule !== undefined;
  const pool = createPool({ workers: hasWorkers ? 1 : 0 });
  const pooled = hash(await pool.decode(await pool.encode(await decode(chunk), { cname: "zstd" })));
  await pool.close();
  // A package that is not installed is looked for by its name.
  const { details } = await open("s3://bucket/x.blp").catch((error) => error);
  const isMissing = String(details?.cause).includes("'@aws-sdk/client-s3'");
  console.log(
    JSON.stringify({
      columns,
      floats: hash(data),
      carried,
      chunk: hash(await decode(chunk)),
      pooled,
      isMissing,
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
