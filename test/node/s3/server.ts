/**
 * An S3-compatible server on loopback: s3rver, with a front that adds what it lacks.
 *
 * s3rver 3.7 knows no conditional requests, and gets ranges wrong that count from the end or end at byte 0. The
 * front adds both as Amazon documents them, and serializes writes of one key; it also counts requests, and fails
 * those that a test chooses. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
 */
import crypto, { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import S3rver from "s3rver";

/** Answers a request instead of the server; false passes it on. */
export type Intercept = (request: IncomingMessage, response: ServerResponse) => boolean;

export interface TestS3 {
  readonly endpoint: string;
  readonly bucket: string;
  /** `METHOD path range` of each request. */
  readonly log: string[];
  intercept: Intercept;
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
  const directory = await mkdtemp(join(tmpdir(), "superchunk-s3-"));
  const bucket = "archives";
  const back = new S3rver({
    address: "127.0.0.1",
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: bucket, configs: [] }],
    allowMismatchedSignatures: true,
  });
  const { store } = back;
  // s3rver answers before the bytes are in the file, which is empty or the old one until then.
  store.putObject = async ({ bucket: name, key, content, metadata }) => {
    const pieces: Buffer[] = Buffer.isBuffer(content) ? [content] : await content.toArray();
    const bytes = Buffer.concat(pieces);
    const path = store.getResourcePath(name, key, "object");
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, bytes);
    const md5 = createHash("md5").update(bytes).digest("hex");
    await store.putMetadata(name, key, metadata, md5);
    return { size: bytes.length, md5 };
  };
  const { port } = await back.run();
  // Clients keep connections for longer than Node's five seconds, and lose a request if one is closed under it.
  if (back.httpServer !== undefined) back.httpServer.keepAliveTimeout = 0;
  const log: string[] = [];
  const writes = new Map<string, Promise<unknown>>();
  const reads = new Map<string, Promise<unknown>>();
  const front = createServer((asked, response) => {
    log.push(
      `${asked.method} ${asked.url}${asked.headers.range === undefined ? "" : ` ${asked.headers.range}`}`,
    );
    if (running.intercept(asked, response)) return;
    const key = (asked.url ?? "").replace(/\?.*$/, "");
    const isWrite = asked.method !== "GET" && asked.method !== "HEAD";
    // s3rver shows half-written objects: reads wait for writes of the key, and writes for its reads.
    const before = [writes.get(key), isWrite ? reads.get(key) : undefined];
    const turn = Promise.allSettled(before).then(async () => {
      if (response.destroyed) return; // the client did not wait for its turn
      if (!(await holds(asked, port, key))) {
        asked.resume();
        const isKnown = !isWrite && asked.headers["if-none-match"] !== undefined;
        response.writeHead(isKnown ? 304 : 412, { "content-type": "application/xml" });
        response.end(isKnown ? "" : "<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>");
        return;
      }
      await pass(asked, response, port);
    });
    if (isWrite) writes.set(key, turn);
    else reads.set(key, Promise.allSettled([reads.get(key), turn]));
    turn.catch(() => response.destroy());
  });
  front.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  const running: TestS3 = {
    endpoint: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    bucket,
    log,
    intercept: () => false,
    close: async () => {
      front.closeAllConnections();
      await new Promise((resolve) => front.close(resolve));
      back.httpServer?.closeAllConnections();
      await back.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
  return running;
}

async function holds(asked: IncomingMessage, port: number, key: string): Promise<boolean> {
  const none = asked.headers["if-none-match"];
  const match = asked.headers["if-match"];
  if (none === undefined && match === undefined) return true;
  const there = await fetch(`http://127.0.0.1:${port}${key}`, { method: "HEAD" });
  if (none === "*") return there.status === 404;
  const isRead = asked.method === "GET" || asked.method === "HEAD";
  // The server itself reports missing objects.
  if (isRead && there.status !== 200) return true;
  if (none !== undefined) return unquote(there.headers.get("etag")) !== unquote(none);
  // Amazon also accepts an ETag without its quotes, and Icechunk sends it so.
  return there.status === 200 && unquote(there.headers.get("etag")) === unquote(match);
}

function unquote(etag: string | null | undefined): string | undefined {
  return etag?.replace(/^"(.*)"$/, "$1");
}

function pass(asked: IncomingMessage, response: ServerResponse, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const { "if-none-match": _, "if-match": __, range, ...headers } = asked.headers;
    const sent = request(
      { host: "127.0.0.1", port, method: asked.method, path: asked.url, headers },
      (answer) => {
        answer.on("end", resolve);
        response.on("close", resolve); // the client disconnected
        if (range !== undefined && answer.statusCode === 200) return cut(answer, range, response);
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
        answer.on("error", reject);
      },
    );
    sent.on("error", reject);
    asked.on("close", () => {
      if (!asked.complete) sent.destroy(new Error("the client went away in the middle of what it sent"));
    });
    asked.pipe(sent);
  });
}

/** Answers a range from the whole object. */
function cut(answer: IncomingMessage, range: string, response: ServerResponse): void {
  const pieces: Buffer[] = [];
  answer.on("data", (piece: Buffer) => pieces.push(piece));
  answer.on("end", () => {
    const whole = Buffer.concat(pieces);
    const [, from = "", to = ""] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
    const first = from === "" ? Math.max(0, whole.length - Number(to)) : Number(from);
    const last = from === "" || to === "" ? whole.length - 1 : Math.min(whole.length - 1, Number(to));
    if (first > last) {
      response.writeHead(416, { "content-type": "application/xml" });
      response.end("<Error><Code>InvalidRange</Code><Message>no</Message></Error>");
      return;
    }
    response.writeHead(206, {
      ...answer.headers,
      "content-length": last - first + 1,
      "content-range": `bytes ${first}-${last}/${whole.length}`,
    });
    response.end(whole.subarray(first, last + 1));
  });
}
