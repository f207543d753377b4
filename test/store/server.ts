/** A loopback HTTP server for tests: objects from a map, ranges, and everything that can go wrong with servers. */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Answers a request itself (true), or leaves it to the server. */
export type Intercept = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A running server. */
export interface TestServer {
  readonly url: string;
  /** `METHOD path?query range` of each request. */
  readonly log: string[];
  readonly headers: IncomingMessage["headers"][];
  readonly objects: Map<string, Uint8Array>;
  intercept: Intercept;
  close(): Promise<void>;
}

/** Serves copies of objects below `/base dir/`, with ETags, ranges and folder pages as nginx has them. */
export async function serveObjects(entries: Iterable<readonly [string, Uint8Array]>): Promise<TestServer> {
  const objects = new Map(entries);
  const log: string[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const server = createServer((request, response) => {
    const range = request.headers.range ?? "";
    log.push(`${request.method} ${request.url}${range === "" ? "" : ` ${range}`}`);
    headers.push(request.headers);
    if (!running.intercept(request, response)) answer(request, response, objects);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const running: TestServer = {
    url: `http://127.0.0.1:${port}/base%20dir`,
    log,
    headers,
    objects,
    intercept: () => false,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return running;
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  objects: ReadonlyMap<string, Uint8Array>,
): void {
  const { pathname } = new URL(request.url ?? "/", "http://host");
  const key = decodeURIComponent(pathname).replace("/base dir/", "");
  const bytes = objects.get(key);
  if (bytes === undefined) {
    const isFolder = [...objects.keys()].some((other) =>
      other.startsWith(key.endsWith("/") ? key : `${key}/`),
    );
    if (isFolder && !key.endsWith("/")) response.writeHead(301, { location: `${pathname}/` }).end();
    else if (isFolder) response.writeHead(200, { "content-type": "text/html" }).end("<ul><li>a folder</ul>");
    else response.writeHead(404).end("no such thing");
    return;
  }
  const etag = `"${createHash("sha1").update(bytes).digest("hex")}"`;
  const part = parseRange(request.headers.range, bytes.length);
  if (part === "unsatisfiable") {
    response.writeHead(416, { "content-range": `bytes */${bytes.length}`, etag }).end("no such range");
    return;
  }
  const body = part === undefined ? bytes : bytes.subarray(part.first, part.last + 1);
  const extra = part && { "content-range": `bytes ${part.first}-${part.last}/${bytes.length}` };
  response.writeHead(part === undefined ? 200 : 206, { etag, "content-length": body.length, ...extra });
  response.end(request.method === "HEAD" ? undefined : body);
}

function parseRange(
  header: string | undefined,
  size: number,
): { first: number; last: number } | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (match === null) return undefined;
  const [, first = "", last = ""] = match;
  if (first === "") {
    return Number(last) === 0 || size === 0
      ? "unsatisfiable"
      : { first: Math.max(0, size - Number(last)), last: size - 1 };
  }
  if (Number(first) >= size) return "unsatisfiable";
  return { first: Number(first), last: Math.min(size - 1, last === "" ? size - 1 : Number(last)) };
}
