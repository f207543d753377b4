/** References to an archive on a web server, read by the printed lines in Python and JavaScript. */
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects } from "../store/server.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import { askJavaScript, askPython } from "./references-answers.ts";
import type { SuiteContext } from "./suite.ts";

const ARRAY = "bloscpack-3/array-i4-2d.blp";

/** Refers to an archive over HTTP in every form of kerchunk, and has it read. */
export async function checkKerchunkOverHttp(
  { checks, folder }: SuiteContext,
  { program, args }: NodeCommand,
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
    const commands = forms.map(([file, form, format]) => [
      "virtualize",
      `${server.url}/${basename(ARRAY)}`,
      join(folder, file),
      ...["--to", form, "--json"],
      ...(format === undefined ? [] : ["--zarr-format", format]),
    ]);
    const results = join(folder, "web-printed.json");
    const script = join(repositoryRoot, "test", "interop", "run-commands.mjs");
    const done = await runProgram(program, [...args, script, results], { input: JSON.stringify(commands) });
    if (done.code !== 0) return checks.fail("kerchunk over HTTP", lastLines(done));
    const printed = JSON.parse(await readFile(results, "utf8")) as {
      code: number;
      out: string;
      err: string;
    }[];
    for (const [id, [file]] of forms.entries()) {
      const label = `kerchunk over HTTP, ${file}`;
      const { code, out = "", err = "" } = printed[id] ?? {};
      if (code !== 0) {
        checks.fail(label, err);
        continue;
      }
      const { open } = JSON.parse(out) as { open: { Python: string; JavaScript: string } };
      const [inPython] = await askPython(python, [{ id, names: [name], lines: open.Python }]);
      checks.equal(`${label}: Python`, inPython?.values ?? inPython?.error, wanted);
      const question = { id, names: [name], lines: open.JavaScript };
      const [inNode] = await askJavaScript({ program, args }, folder, [question]);
      checks.equal(`${label}: JavaScript`, inNode?.values ?? inNode?.error, wanted);
    }
  } finally {
    await server.close();
  }
}
