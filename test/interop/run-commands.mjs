/**
 * Runs many commands of the built `superchunk` in one process: `run-commands.mjs RESULTS`, the arguments of each as
 * a JSON list on stdin. Output goes into the file RESULTS, where nothing that native code prints can mix in.
 */
import { writeFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { run } from "../../build/cli/run.js";

const results = [];
for (const argv of JSON.parse(await text(process.stdin))) {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const printed = [text(streams.stdout), text(streams.stderr)];
  const code = await run(argv, { ...streams, signal: new AbortController().signal });
  streams.stdout.end();
  streams.stderr.end();
  const [out, err] = await Promise.all(printed);
  results.push({ code, out, err });
}
writeFileSync(process.argv[2], JSON.stringify(results));
