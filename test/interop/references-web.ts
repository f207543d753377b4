/** References to an archive on a web server, read by the printed lines in Python and JavaScript. */
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { findFixture } from "../fixtures/manifest.ts";
import { serveObjects } from "../store/server.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { checkSets } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const ARRAY = "bloscpack-3/array-i4-2d.blp";

/** Refers to an archive over HTTP in every form of kerchunk, and has it read. */
export async function checkKerchunkOverHttp(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
): Promise<void> {
  const fixture = findFixture(ARRAY);
  if (fixture.kind !== "array") throw new Error("no array");
  const name = basename(ARRAY).replace(/\.blp$/, "");
  const wanted = { [name]: [fixture.shape, fixture.sha256] };
  const server = await serveObjects([[basename(ARRAY), new Uint8Array(await readFile(fixture.file))]]);
  try {
    const forms = [
      ["web.json", "kerchunk", "3"],
      ["web2.json", "kerchunk", "2"],
      ["web.parq", "kerchunk-parquet"],
    ] as const;
    const sets = forms.map(([file, form, format]) => ({
      label: `kerchunk over HTTP, ${file}`,
      argv: [
        `${server.url}/${basename(ARRAY)}`,
        join(context.folder, file),
        ...["--to", form],
        ...(format === undefined ? [] : ["--zarr-format", format]),
      ],
    }));
    await checkSets(context, node, python, sets, wanted);
  } finally {
    await server.close();
  }
}
