/**
 * An S3-compatible server on loopback: s3rver, with its objects in memory (objects.ts), and what it lacks.
 *
 * s3rver 3.7 knows no conditional requests, and gets ranges wrong that count from the end. Both are added here as Amazon documents
 * them; writes of one key wait for each other, requests are counted, and those that a test chooses fail.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
 */
import crypto from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import S3rver from "s3rver";
import { Objects } from "./objects.ts";

/** Answers a request instead of the server; false passes it on. */
export type Intercept = (request: IncomingMessage, response: ServerResponse) => boolean;

export interface TestS3 {
  readonly endpoint: string;
  readonly bucket: string;
  /** `METHOD path range` of each request. */
  readonly log: string[];
  intercept: Intercept;
  /** Puts an object, without a request. */
  fill(key: string, bytes: Uint8Array): void;
  close(): Promise<void>;
}

/** The credentials that s3rver accepts. */
export const CREDENTIALS = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" };

/** Sets what the command takes from the environment to reach a server; returns a function that restores it. */
export function setEnvironment(
  { endpoint }: TestS3,
  secret: string = CREDENTIALS.secretAccessKey,
): () => void {
  const variables = {
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: secret,
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_REGION: "us-east-1",
  };
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

/**
 * s3rver encrypts where the next page of a listing begins by DES, which newer versions of OpenSSL lack: it answers listings of more
 * than 1,000 objects with status 500. Triple DES with one key is the same cipher.
 */
function allowLongListings(): void {
  for (const name of ["createCipheriv", "createDecipheriv"] as const) {
    const make = crypto[name] as (cipher: string, key: Buffer, iv: Buffer) => unknown;
    if (make.name === "triple") continue;
    const triple: typeof make = (cipher, key, iv) =>
      cipher === "des" ? make("des-ede3-cbc", Buffer.concat([key, key, key]), iv) : make(cipher, key, iv);
    Object.assign(crypto, { [name]: triple });
  }
}

/** Starts a server with one empty bucket. */
export async function startS3(): Promise<TestS3> {
  allowLongListings();
  const bucket = "archives";
  const back = new S3rver({ address: "127.0.0.1", port: 0, silent: true, allowMismatchedSignatures: true });
  const objects = new Objects(bucket);
  back.store = objects;
  back.context.store = objects;
  // Otherwise each message is composed before nobody sees it.
  back.logger.silent = true;
  const answer = back.callback();
  await back.run();
  const server = back.httpServer;
  if (server === undefined) throw new Error("s3rver does not listen");
  // Clients keep connections for longer than Node's five seconds, and lose a request if one is closed under it.
  server.keepAliveTimeout = 0;
  const log: string[] = [];
  const writes = new Map<string, Promise<unknown>>();
  server.removeAllListeners("request");
  server.on("request", (asked: IncomingMessage, response: ServerResponse) => {
    log.push(
      `${asked.method} ${asked.url}${asked.headers.range === undefined ? "" : ` ${asked.headers.range}`}`,
    );
    if (running.intercept(asked, response)) return;
    const path = (asked.url ?? "").replace(/\?.*$/, "");
    const isWrite = asked.method !== "GET" && asked.method !== "HEAD";
    const turn = Promise.allSettled([isWrite ? writes.get(path) : undefined]).then(async () => {
      if (response.destroyed) return; // the client did not wait for its turn
      const there = objects.find(path);
      if (holds(asked, there?.etag)) {
        prepare(asked, there?.size ?? 0);
        await answer(asked, response);
        return;
      }
      asked.resume();
      const isKnown = !isWrite && asked.headers["if-none-match"] !== undefined;
      response.writeHead(isKnown ? 304 : 412, { "content-type": "application/xml" });
      response.end(isKnown ? "" : "<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>");
    });
    if (isWrite) writes.set(path, turn);
    turn.catch(() => response.destroy());
  });
  const running: TestS3 = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bucket,
    log,
    intercept: () => false,
    fill: (key, bytes) => objects.fill(key, bytes),
    close: async () => {
      server.closeAllConnections();
      await back.close();
    },
  };
  return running;
}

/** Whether the conditions of a request hold, for an object with this ETag, or for none. */
function holds({ method, headers }: IncomingMessage, etag: string | undefined): boolean {
  const none = headers["if-none-match"];
  const match = headers["if-match"];
  if (none === undefined && match === undefined) return true;
  if (none === "*") return etag === undefined;
  // The server itself reports missing objects.
  if ((method === "GET" || method === "HEAD") && etag === undefined) return true;
  if (none !== undefined) return unquote(etag) !== unquote(none);
  // Amazon also accepts an ETag without its quotes, and Icechunk sends it so.
  return etag !== undefined && unquote(etag) === unquote(match);
}

function unquote(etag: string | undefined): string | undefined {
  return etag?.replace(/^"(.*)"$/, "$1");
}

/** Makes a request one that s3rver understands: without conditions, and with a range that counts from the beginning. */
function prepare({ headers }: IncomingMessage, size: number): void {
  delete headers["if-none-match"];
  delete headers["if-match"];
  const [, last] = /^bytes=-(\d+)$/.exec(headers.range ?? "") ?? [];
  if (last !== undefined) headers.range = `bytes=${last === "0" ? size : Math.max(0, size - Number(last))}-`;
}
