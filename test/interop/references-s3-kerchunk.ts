/**
 * Kerchunk sets of an archive in S3, in a folder and in the bucket itself: read by the printed lines, in Python through s3fs and
 * in JavaScript.
 */
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { S3Store } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { setEnvironment, startS3 } from "../node/s3/server.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { checkSets, makeLong } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const ARRAY = "bloscpack-3/array-i4-2d.blp";

const FORMS = [
  { file: "set.json", args: ["--to", "kerchunk"] },
  { file: "set2.json", args: ["--to", "kerchunk", "--zarr-format", "2"] },
  { file: "set.parq", args: ["--to", "kerchunk-parquet"] },
] as const;

/** Refers to an archive in S3 in every form of kerchunk, from a folder and from its bucket, and has it read. */
export async function checkKerchunkInS3(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const fixture = findFixture(ARRAY);
  if (fixture.kind !== "array") throw new Error("no array");
  const name = basename(ARRAY, ".blp");
  const wanted = { [name]: [fixture.shape, fixture.sha256] };
  const s3 = await startS3();
  const reset = setEnvironment(s3);
  try {
    const { bucket, endpoint } = s3;
    const store = new S3Store({ bucket, prefix: "data", endpoint, region: "us-east-1" });
    await store.put(basename(ARRAY), await readFile(fixture.file));
    const { source: folder, wanted: long } = await makeLong(join(context.folder, "for-s3"));
    for (const key of ["meta/sizes", "meta/storage", "data/__1__.bin"])
      await store.put(`long/${key}`, await readFile(join(folder, key)));
    await store.close();
    const source = `s3://${bucket}/data/${basename(ARRAY)}?endpoint=${endpoint}`;
    const places = [
      { where: "in a folder", place: (file: string) => join(context.folder, "kerchunk-of-s3", file) },
      { where: "in S3", place: (file: string) => `s3://${bucket}/sets/${file}?endpoint=${endpoint}` },
    ];
    const setsOf = (from: string, front = "") =>
      places.flatMap(({ where, place }) =>
        FORMS.map(({ file, args }) => ({
          label: `kerchunk of S3, ${front}${file} ${where}`,
          argv: [from, place(`${front}${file}`), ...args],
        })),
      );
    await checkSets(context, node, python, setsOf(source), wanted);
    // In the bucket the padded chunk is in a file next to the set, in the folder in the set.
    const sets = setsOf(`s3://${bucket}/data/long?endpoint=${endpoint}`, "long-");
    await checkSets(context, node, python, sets, { long: [long.shape, long.sha256] });
  } finally {
    reset();
    await s3.close();
  }
}
