/**
 * Serves a view of archives over HTTP: the server, its names, its limits and its end.
 *
 * Knows sockets; must not know archives.
 */

import type { Server, ServerResponse } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import { hostname } from "node:os";
import { addTo } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { StoreOptions } from "../../store/types.ts";
import { ParquetView } from "../../view/parquet-view.ts";
import type { ViewOptions, ZarrView } from "../../view/view.ts";
import { zarrTreeView } from "../../view/view-tree.ts";
import { locateEntries, refuseSets } from "../entries.ts";
import { closeOnFailure } from "../locate.ts";
import { placeOpener } from "../open.ts";
import { encoderOf } from "../threads/threads.ts";
import { PageFiles } from "./page-files.ts";
import { type AnswerContext, answer, refuse } from "./serve-answer.ts";
import { AnswerGate, type GateLimits, ServeBuffers } from "./serve-gate.ts";

/** Connections at a time; if all are busy, further ones are closed immediately. */
const MOST_CONNECTIONS = 512;
/** From this many connections on, an idle one is closed for each new one. */
const CROWDED = 496;
/** Bytes of a request's first line and headers. */
const MOST_HEADER_BYTES = 16 * 1024;
/** A connection without any traffic is closed after this time, even if no other request waits. */
const STALL_MS = 60_000;
/** Time for answers under way to finish when the server closes. */
const GRACE_MS = 3000;

/** Options of serving a view. */
export interface ServeOptions extends Pick<ViewOptions, "portable" | "encoder">, StoreOptions {
  /** Address to listen on; default 127.0.0.1, which other machines cannot reach. */
  readonly host?: string | undefined;
  /** Default 0: any free port. */
  readonly port?: number | undefined;
  /** Origin whose pages may read the served data, `*` for all; default none. */
  readonly cors?: string | undefined;
  /** Other names of the server, for example for use with a proxy. */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * Serves the page that shows the archives to a browser that asks for `/` (default true, if the package has it). The page may read stored
   * files at the paths, if they belong to what it shows. `only`: also for places with nothing but Zarr, which are not served as Zarr again.
   */
  readonly page?: boolean | "only" | undefined;
  /** For references: folders, and places on the web, whose objects may be read, and so are served to clients. */
  readonly allow?: readonly string[] | undefined;
  /** Called with the whole error for every object that exists and could not be read. Clients get only its code. */
  readonly onError?: ((path: string, error: unknown) => void) | undefined;
  /** Limits and timeouts of the server, if not the usual ones. */
  readonly limits?: Partial<GateLimits> | undefined;
}

/** A running server. */
export interface ServedView {
  /** Address of the view's root, with a final `/`. */
  readonly url: string;
  readonly port: number;
  /** The served view. */
  readonly view: ZarrView;
  /** Number of archives found at the given paths. */
  readonly archives?: number;
  /** Folders of Zarr at the given paths, which are not served, because they are Zarr already. */
  readonly leftOut?: readonly string[];
  /** Stops listening, gives running answers a moment to end, and closes all connections. */
  close(): Promise<void>;
}

/**
 * Serves archives as Zarr over HTTP/1.1: GET and HEAD, ranges, conditions, lists at paths that end with `/`. Takes a view, or paths and
 * addresses of archives or of folders of many. A single folder is the root; with several paths, each has its own name below the root. With
 * paths, each table and array is also served as a Parquet file: its name with `.parquet` added.
 *
 * @throws NOT_FOUND if a path has no archives; BAD_ARGUMENT for two paths of one name; IO if it cannot listen
 */
export async function serveView(
  source: ZarrView | string | readonly string[],
  options: ServeOptions = {},
): Promise<ServedView> {
  checkOptions(options, "allow allowedHosts cors encoder host limits onError page port portable signal");
  if (typeof source === "object" && "get" in source) return serveOne(source, options);
  const { portable, encoder = encoderOf(), signal, page = true } = options;
  const isOther = (error: unknown): boolean => page === "only" && isSuperchunkError(error, "UNSUPPORTED");
  const paths = typeof source === "string" ? [source] : source;
  const openPlace = placeOpener(options);
  if (page === "only") await refuseSets(paths);
  const leftOut: string[] = [];
  const found = await locateEntries(
    paths,
    { signal, openPlace },
    page === "only"
      ? { isOther }
      : { sets: { allow: options.allow ?? [] }, onZarr: (folder) => void leftOut.push(folder) },
  );
  const view = zarrTreeView(found.entries, { portable, encoder });
  // The page reads stored bytes, which a set of references does not have. For it, browsers get a list of its nodes.
  const files =
    page === false || found.places.length === 0
      ? undefined
      : await closeOnFailure(found, PageFiles.load(found.places, openPlace));
  const tables = new ParquetView(
    found.entries.filter((entry) => entry.view === undefined),
    encoder,
  );
  const served = await closeOnFailure(found, serveOne(view, options, { files, tables }));
  const close = async (): Promise<void> => {
    await served.close();
    await files?.close();
    await found.close();
  };
  return { ...served, archives: found.entries.length, leftOut, close };
}

async function serveOne(
  view: ZarrView,
  options: ServeOptions,
  { files: page, tables }: { readonly files?: PageFiles | undefined; readonly tables?: ParquetView } = {},
): Promise<ServedView> {
  const { host = "127.0.0.1", port = 0, cors, allowedHosts, onError } = options;
  const isOwn = makeHostCheck(host, allowedHosts);
  const gate = new AnswerGate(options.limits);
  const connections = new Connections();
  let context: AnswerContext | undefined;
  // Loading it takes 0.04 s with Node.js 26, and every command loads this file.
  const { createServer } = await import("node:http");
  const server = createServer(
    {
      maxHeaderSize: MOST_HEADER_BYTES,
      headersTimeout: 10_000,
      requestTimeout: 20_000,
      keepAliveTimeout: 30_000,
    },
    (request, response) => {
      connections.noteRequest(request.socket, response);
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
  server.on("connection", (socket: Socket) => connections.add(socket));
  server.timeout = STALL_MS;
  await listen(server, host, port);
  const { port: found } = server.address() as AddressInfo;
  const url = `http://${WILDCARDS.get(host) ?? bracket(host)}:${found}/`;
  context = {
    view,
    page,
    tables,
    gate,
    buffers: new ServeBuffers(),
    url,
    cors,
    onError: (path, error) => onError?.(path, error),
  };
  return { url, port: found, view, close: () => close(server) };
}

/** The open connections, and which of them are idle. */
class Connections {
  /** Requests under way on each connection; the idle ones are in order of their idle time, longest first. */
  readonly #busy = new Map<Socket, number>();

  /** Adds a connection. If there are very many, an idle one is closed for it. */
  add(socket: Socket): void {
    if (this.#busy.size >= CROWDED) this.#closeIdle();
    this.#busy.set(socket, 0);
    socket.once("close", () => this.#busy.delete(socket));
  }

  noteRequest(socket: Socket, response: ServerResponse): void {
    this.#busy.set(socket, (this.#busy.get(socket) ?? 0) + 1);
    response.once("close", () => {
      const left = this.#busy.get(socket);
      if (left === undefined) return;
      this.#busy.delete(socket);
      this.#busy.set(socket, left - 1);
    });
  }

  /** Closes the longest idle connection of the address with the most idle ones. */
  #closeIdle(): void {
    const idleOf = new Map<string, Socket[]>();
    for (const [socket, requests] of this.#busy) {
      if (requests > 0) continue;
      const address = socket.remoteAddress ?? "";
      addTo(idleOf, address, socket);
    }
    let most: readonly Socket[] = [];
    for (const sockets of idleOf.values()) if (sockets.length > most.length) most = sockets;
    most[0]?.destroy();
  }
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

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];
/** Addresses that stand for all of this machine, which are not ones to connect to, with one that is. */
const WILDCARDS = new Map([
  ["0.0.0.0", "127.0.0.1"],
  ["::", "[::1]"],
]);

/**
 * Checks whether a `Host` header names a server that listens on `host`; `allowed` are further names.
 *
 * A web page can make a browser send requests to this machine under the page's own host name (DNS rebinding), and read the
 * answers. So other names are refused. IP addresses cannot be rebound.
 */
export function makeHostCheck(
  host: string,
  allowed: readonly string[] = [],
): (header: string | undefined) => boolean {
  const own = new Set([...LOOPBACK, ...[host, ...allowed].map((name) => bracket(name.toLowerCase()))]);
  const isOpen = WILDCARDS.has(host);
  if (isOpen) own.add(hostname().toLowerCase());
  return (header) => {
    const match = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d+)?$/i.exec(header?.trim() ?? "");
    const name = match?.[1]?.toLowerCase();
    if (name === undefined) return false;
    return own.has(name) || (isOpen && isIP(name.replace(/^\[|\]$/g, "")) !== 0);
  };
}

/** An address in URL form: IPv6 in brackets. */
function bracket(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
