/**
 * Kerchunk sets of an archive in S3, in a folder and in the bucket itself: read by the printed lines, in Python through s3fs and
 * in JavaScript.
 */
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { S3Store } from "../../src/node/index.ts";
import { findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { setEnvironment, startS3 } from "../s3/server.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import { askJavaScript, askPython } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const ARRAY = "bloscpack-3/array-i4-2d.blp";

const FORMS = [
  { file: "set.json", args: ["--to", "kerchunk"] },
  { file: "set2.json", args: ["--to", "kerchunk", "--zarr-format", "2"] },
  { file: "set.parq", args: ["--to", "kerchunk-parquet"] },
] as const;

/** Refers to an archive in S3 in every form of kerchunk, from a folder and from its bucket, and has it read. */
export async function checkKerchunkInS3(
  { checks, folder }: SuiteContext,
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
    await store.close();
    const source = `s3://${bucket}/data/${basename(ARRAY)}?endpoint=${endpoint}`;
    const sets = [
      { where: "in a folder", place: (file: string) => join(folder, "kerchunk-of-s3", file) },
      { where: "in S3", place: (file: string) => `s3://${bucket}/sets/${file}?endpoint=${endpoint}` },
    ].flatMap(({ where, place }) => FORMS.map(({ file, args }) => ({ file, args, where, at: place(file) })));
    const results = join(folder, "kerchunk-of-s3.json");
    const script = join(repositoryRoot, "test", "interop", "run-commands.mjs");
    const done = await runProgram(node.program, [...node.args, script, results], {
      input: JSON.stringify(sets.map(({ at, args }) => ["virtualize", source, at, ...args, "--json"])),
    });
    if (done.code !== 0) return checks.fail("kerchunk of S3", lastLines(done));
    const printed = JSON.parse(await readFile(results, "utf8")) as {
      readonly code: number;
      readonly out: string;
      readonly err: string;
    }[];
    for (const [id, { file, where }] of sets.entries()) {
      const label = `kerchunk of S3, ${file} ${where}`;
      const { code, out = "", err = "" } = printed[id] ?? {};
      if (code !== 0) {
        checks.fail(label, err);
        continue;
      }
      const { open } = JSON.parse(out) as { open: { Python: string; JavaScript: string } };
      const [inPython] = await askPython(python, [{ id, names: [name], lines: open.Python }]);
      checks.equal(`${label}: Python`, inPython?.values ?? inPython?.error, wanted);
      const [inNode] = await askJavaScript(node, folder, [{ id, names: [name], lines: open.JavaScript }]);
      checks.equal(`${label}: JavaScript`, inNode?.values ?? inNode?.error, wanted);
    }
  } finally {
    reset();
    await s3.close();
  }
}
