/** The command for scripts of a shell, run in this process, because to start it takes longer than most of what it does. */
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { runCli } from "./harness.ts";

/** Passes arguments and input on, and prints what comes back. */
const CLIENT = `
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
const [, , path, ...argv] = process.argv;
const socket = connect(path);
socket.write(JSON.stringify({ argv, cwd: process.cwd() }) + "\\n");
process.stdin.pipe(socket);
let text = "";
socket.setEncoding("utf8");
socket.on("data", (piece) => { text += piece; });
socket.on("end", () => {
  const { code, err, out } = JSON.parse(text);
  writeFileSync(2, err);
  writeFileSync(1, Buffer.from(out, "base64"));
  process.exit(code);
});
`;

/** Puts a program `superchunk` into a folder, which works until the test has finished. */
export async function putCommand(folder: string): Promise<void> {
  const [client, path, start] = ["client.mjs", "socket", "superchunk"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(client, CLIENT);
  writeFileSync(start, `#!/bin/sh\nexec "${process.execPath}" "${client}" "${path}" "$@"\n`);
  chmodSync(start, 0o755);
  // A command answers although its input has ended.
  const server = createServer({ allowHalfOpen: true }, (socket) => void answer(socket));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
}

async function answer(socket: Socket): Promise<void> {
  // The program ends although nobody has read its input.
  socket.on("error", () => undefined);
  const pieces = socket.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Buffer>;
  let head = Buffer.alloc(0);
  while (!head.includes("\n")) head = Buffer.concat([head, (await pieces.next()).value as Buffer]);
  const end = head.indexOf("\n");
  const { argv, cwd } = JSON.parse(head.toString("utf8", 0, end)) as { argv: string[]; cwd: string };
  async function* input(): AsyncGenerator<Uint8Array> {
    yield head.subarray(end + 1);
    yield* pieces;
  }
  const before = process.cwd();
  process.chdir(cwd);
  const { code, err, bytes } = await runCli(argv, { stdin: input() });
  process.chdir(before);
  socket.end(JSON.stringify({ code, err, out: bytes.toString("base64") }));
}
