/** Passwords and tokens in addresses, variables and redirects: no command prints one, whatever goes wrong. */
import { readFileSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { open } from "../../src/node/index.ts";
import { HttpStore } from "../../src/store/http.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { sample } from "../scope.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

/** No secret is part of another word. */
const SECRETS = ["5ecretUser", "5ecretPassword", "5ecretToken", "5ecretKey", "5ecretSession"] as const;
const [USER, PASSWORD, TOKEN, KEY, SESSION] = SECRETS;

let folder: string;
let server: TestServer;
const bytes = new Uint8Array(readFileSync(join(corpusFolder, "bloscpack-3", "array-f8.blp")));

beforeAll(() => {
  folder = temporaryFolder();
});
beforeEach(async () => {
  const damaged = bytes.slice();
  damaged.fill(255, 4000, 4100);
  server = await serveObjects([
    ["a.blp", bytes],
    ["damaged.blp", damaged],
    ["short.blp", bytes.slice(0, 3000)],
    ["text.blp", new TextEncoder().encode("no archive at all")],
    ["c/meta/sizes", new TextEncoder().encode("{")],
    ["c/meta/storage", new TextEncoder().encode("{}")],
  ]);
  vi.stubEnv("AWS_ACCESS_KEY_ID", USER);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", KEY);
  vi.stubEnv("AWS_SESSION_TOKEN", SESSION);
  vi.stubEnv("AWS_REGION", "us-east-1");
  vi.stubEnv("AWS_MAX_ATTEMPTS", "1");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
});

/** Every command that reads from an address, and those that write next to it. */
const COMMANDS: readonly ((address: string, out: string) => string[])[] = [
  (address) => ["info", address],
  (address) => ["info", address, "--json"],
  (address) => ["--debug", "info", address],
  (address) => ["ls", address],
  (address) => ["ls", address, "--json"],
  (address) => ["chunks", address],
  (address) => ["cat", address, "--slice", "0:2"],
  (address) => ["verify", address],
  (address) => ["verify", address, "--json"],
  (address, out) => ["convert", address, out],
  (address, out) => ["convert", address, out, "--dry-run", "--json"],
  (address, out) => ["virtualize", address, `${out}.json`, "--to", "kerchunk"],
  (address, out) => ["decompress", address, `${out}.bin`],
  (address) => ["append", address, join(folder, "input.npy")],
  (address) => ["attrs", address, "--set", "a=1"],
  (address) => ["repair", address, "--in-place"],
];

/** What a server does apart from answering. */
const TROUBLE: Readonly<Record<string, (response: ServerResponse) => boolean>> = {
  nothing: () => false,
  forbidden: (response) => Boolean(response.writeHead(403, { "x-echo": TOKEN }).end(TOKEN)),
  "redirect elsewhere": (response) =>
    Boolean(response.writeHead(302, { location: `https://127.0.0.1:1/?sig=${TOKEN}` }).end()),
  "redirect to a file": (response) =>
    Boolean(response.writeHead(302, { location: `file:///${TOKEN}` }).end()),
};

let outputs = 0;
async function textOf(command: (typeof COMMANDS)[number], address: string): Promise<string> {
  const { out, err } = await runCli(command(address, join(folder, `out${outputs++}`)));
  return `${out}\n${err}`;
}

function expectNone(text: string, what: string): void {
  for (const secret of SECRETS) expect(text.includes(secret), `${what} shows ${secret}: ${text}`).toBe(false);
}

it("no error of the library contains the secrets of an address that it refuses", async () => {
  for (const address of [
    `ftp://${USER}:${PASSWORD}@host/a?sig=${TOKEN}`,
    `http://${USER}:${PASSWORD}@[/a?sig=${TOKEN}`,
    `http://${USER}:${PASSWORD}@host/%zz?sig=${TOKEN}`,
    `s3://${USER}:${PASSWORD}@bucket/a?token=${TOKEN}`,
  ]) {
    const error: unknown = await open(address).catch((caught: unknown) => caught);
    expect(isSuperchunkError(error), address).toBe(true);
    expectNone(inspect(error, { depth: 20, showHidden: true }), address);
  }
  expect(() => new HttpStore(`${USER}:${PASSWORD}`)).toThrow(expect.not.stringContaining(PASSWORD));
});

describe("no command prints the secrets", () => {
  beforeAll(() => writeFileSync(join(folder, "input.npy"), ""));

  it.each(Object.keys(TROUBLE))("of a web address when something goes wrong: %s", async (trouble) => {
    const base = server.url.replace("http://", `http://${USER}:${PASSWORD}@`);
    server.intercept = (_, response) => TROUBLE[trouble]?.(response) ?? false;
    const names =
      trouble === "nothing" ? ["a.blp", "damaged.blp", "short.blp", "text.blp", "c", "none"] : ["a.blp"];
    for (const name of names) {
      const address = `${base}/${name}?sig=${TOKEN}`;
      for (const command of sample(COMMANDS, 2)) {
        const what = command("ADDRESS", "OUT").join(" ");
        expectNone(await textOf(command, address), `${what} of ${name}`);
      }
    }
    // The secrets were actually used.
    expect(server.log.some((line) => line.includes(TOKEN))).toBe(true);
    expect(server.headers.some(({ authorization }) => authorization !== undefined)).toBe(true);
  });

  it("of S3 addresses, of the environment, and of strings that are not addresses", async () => {
    server.intercept = (_, response) =>
      Boolean(
        response.writeHead(403).end(`<Error><Code>AccessDenied</Code><Message>${TOKEN}</Message></Error>`),
      );
    const endpoint = encodeURIComponent(new URL(server.url).origin);
    for (const address of [
      `s3://bucket/a.blp?endpoint=${endpoint}`,
      `s3://bucket/a.blp?endpoint=${encodeURIComponent(`http://${USER}:${PASSWORD}@127.0.0.1:1`)}`,
      `s3://${USER}:${PASSWORD}@bucket/a.blp`,
      `s3://bucket/a.blp?token=${TOKEN}`,
      `ftp://${USER}:${PASSWORD}@host/a.blp?sig=${TOKEN}`,
      `http://${USER}:${PASSWORD}@127.0.0.1:1/a.blp?sig=${TOKEN}`,
      `http://${USER}:${PASSWORD}@[/a.blp?sig=${TOKEN}`,
      `https:/${USER}:${PASSWORD}@host/a.blp?sig=${TOKEN}`,
    ])
      for (const command of sample(COMMANDS, 2)) {
        const what = command("ADDRESS", "OUT").join(" ");
        expectNone(await textOf(command, address), `${what} of ${address}`);
      }
  });
});
