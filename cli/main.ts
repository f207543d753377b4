#!/usr/bin/env node
/** The command `superchunk`: ties one run to this process, its streams and its signals. */
import { addAbortSignal } from "node:stream";
import { Interruption } from "./failure.ts";
import { showsColour } from "./output/output.ts";
import { run } from "./run.ts";

// Ten lines of the SDK for S3 at every command on versions of Node.js that it is going to leave, are no message for who types it.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";

const controller = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    const reason = new Interruption(signal);
    // Whoever presses Ctrl-C twice does not want to wait for the cleaning up.
    if (controller.signal.aborted) process.exit(reason.exitCode);
    controller.abort(reason);
  });
}
process.stderr.on("error", () => {});
// What waits for more input is ended by the signal too; the error that it gets is not another one to report.
addAbortSignal(controller.signal, process.stdin).on("error", () => {});

process.exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: controller.signal,
  hasColour: showsColour(process.stdout.isTTY === true, process.env),
});
