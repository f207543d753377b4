/**
 * A view of archives over HTTP: the server, its limits and its end.
 *
 * Knows sockets; must not know archives.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { SuperchunkError } from "../../errors.ts";
import type { ZarrView } from "../../view/view-types.ts";
import { type AnswerContext, answer, refuse } from "./serve-answer.ts";
import { ServeBuffers } from "./serve-buffers.ts";
import { Gate } from "./serve-gate.ts";
import { bracket, makeHostCheck } from "./serve-host.ts";

/** Connections at a time; more are closed at once. */
const MOST_CONNECTIONS = 512;
/** Bytes of a request's line and headers. */
const MOST_HEADER_BYTES = 16 * 1024;
/** A connection on which nothing moves for this long is closed, so that a stalled reader holds nothing. */
const STALL_MS = 60_000;
/** Answers under way at the end have this long to be finished. */
const GRACE_MS = 3000;

/** How a view is served. */
export interface ServeOptions {
  /** Address to listen on; default 127.0.0.1, which other machines do not reach. */
  readonly host?: string | undefined;
  /** Default 0: any that is free. */
  readonly port?: number | undefined;
  /** Origin whose pages may read what is served, `*` for all; default none. */
  readonly cors?: string | undefined;
  /** Further names by which the server may be called, for example behind a proxy. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Told of every object that exists and could not be read. */
  readonly onError?: ((path: string, error: unknown) => void) | undefined;
}

/** A running server. */
export interface ServedView {
  /** The address of the view's root, with a `/` at its end. */
  readonly url: string;
  readonly port: number;
  /** Stops listening, lets answers under way end for a moment, and closes all connections. */
  close(): Promise<void>;
}

/**
 * Serves a view over HTTP/1.1: GET and HEAD, ranges, conditions, lists at paths that end with `/`.
 *
 * Throws `IO` where it cannot listen.
 */
export async function serveView(view: ZarrView, options: ServeOptions = {}): Promise<ServedView> {
  const { host = "127.0.0.1", port = 0, cors, allowedHosts, onError } = options;
  const isOwn = makeHostCheck(host, allowedHosts);
  const gate = new Gate();
  let context: AnswerContext | undefined;
  const server = createServer(
    {
      maxHeaderSize: MOST_HEADER_BYTES,
      headersTimeout: 10_000,
      requestTimeout: 20_000,
      keepAliveTimeout: 30_000,
    },
    (request, response) => {
      const answered =
        context !== undefined && isOwn(request.headers.host)
          ? answer(request, response, context)
          : refuse(
              response,
              421,
              "BAD_ARGUMENT",
              "this server does not answer to the name in the Host header",
            );
      answered.catch((error: unknown) => {
        onError?.(request.url ?? "/", error);
        response.destroy();
      });
    },
  );
  server.maxConnections = MOST_CONNECTIONS;
  server.timeout = STALL_MS;
  await listen(server, host, port);
  const { port: found } = server.address() as AddressInfo;
  const url = `http://${bracket(host)}:${found}/`;
  context = {
    view,
    gate,
    buffers: new ServeBuffers(),
    url,
    cors,
    onError: (path, error) => onError?.(path, error),
  };
  return { url, port: found, close: () => close(server) };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why =
        cause.code === "EADDRINUSE"
          ? "the port is taken; choose another, or 0 for any that is free"
          : `cannot listen (${cause.message})`;
      reject(new SuperchunkError("IO", why, { path: `${bracket(host)}:${port}`, field: "port", cause }));
    });
    server.listen(port, host, () => resolve());
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
