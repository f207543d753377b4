#!/usr/bin/env node
/** The command `superchunk`: connects one run to this process, its streams and its signals. */
import { setMaxListeners } from "node:events";
import * as nodeModule from "node:module";
import { addAbortSignal } from "node:stream";

// Node.js 22.8 and later caches compiled code for the next start. This must be enabled before the rest is loaded.
if ("enableCompileCache" in nodeModule && typeof nodeModule.enableCompileCache === "function")
  nodeModule.enableCompileCache();

// Dozens of archives are opened ahead, and each listens for an abort. This is not a leak.
setMaxListeners(1000);

const typed = process.argv.slice(2);
if (typed.length === 1 && ["--version", "-V"].includes(typed[0] ?? "")) {
  const { readVersion } = await import("./version.ts");
  process.stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") return; // the reader of the pipe has gone
    process.stderr.write(`superchunk: stdout: ${message}\n`);
    process.exitCode = 1;
  });
  process.stdout.write(`${readVersion()}\n`);
} else await main();

async function main(): Promise<void> {
  const [{ run }, { Interruption }, { showsColour, showsOnlyAscii }] = await Promise.all([
    import("./run.ts"),
    import("./failure.ts"),
    import("./output/output.ts"),
  ]);

  // The S3 SDK prints ten lines at every command on versions of Node.js that it will stop supporting. Users of the command cannot
  // act on them.
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";

  const controller = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      const reason = new Interruption(signal);
      // A user who presses Ctrl-C twice does not want to wait for the cleanup.
      if (controller.signal.aborted) process.exit(reason.exitCode);
      controller.abort(reason);
    });
  process.stderr.on("error", () => {});
  // The signal also ends reads of stdin. The resulting error need not be reported as well.
  addAbortSignal(controller.signal, process.stdin).on("error", () => {});

  process.exitCode = await run(typed, {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    signal: controller.signal,
    hasColour: showsColour(process.stdout.isTTY === true, process.env),
    isAscii: showsOnlyAscii(process.env),
  });
}
