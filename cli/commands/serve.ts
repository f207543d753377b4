/** `superchunk serve`: serves archives as Zarr over HTTP without copying them; `superchunk view`: the page that shows them in a browser. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";

import { InvalidArgumentError } from "commander";
import { SuperchunkError } from "../../src/index.ts";
import { type ServedView, serveView } from "../../src/node/index.ts";
import type { ViewNode } from "../../src/zarr.ts";
import type { Command, Context, Switches } from "../context.ts";
import { describeFailure } from "../failure.ts";
import { closing } from "../input/opening.ts";
import { formatPlural } from "../input/units.ts";
import { firstNames } from "../output/layout.ts";
import { printable } from "../values/cell-text.ts";

const DEFAULT_PORT = 8765;

/** Where `serve` and `view` listen. */
interface HostFlags {
  readonly port: number;
  readonly host: string;
  readonly allowHost?: readonly string[];
}

interface ServeFlags extends HostFlags, Switches<"portable" | "json"> {
  readonly cors?: string | true;
  readonly page: boolean | "only";
}

interface ViewFlags extends HostFlags {
  readonly open: boolean;
}

export function addServe(program: Command, context: Context): void {
  program
    .command("serve")
    .description("serve archives as Zarr v3 and Parquet over HTTP, without converting or copying them")
    .argument(
      "<paths...>",
      "archives, HDF5 and Blosc2 files (also by URL), folders of them, or sets of references",
    )
    .option("--port <n>", "port to listen on; 0 picks a free one", parsePort, DEFAULT_PORT)
    .option("--host <address>", "address to listen on; 0.0.0.0 lets other machines in", "127.0.0.1")
    .option("--cors [origin]", "let web pages of an origin read the archives (default: any origin)")
    .option("--allow-host <name...>", "more host names that the server answers to, such as a proxy's")
    .addAllowOption()
    .option("--portable", "only data types that every Zarr reader supports")
    .option("--no-page", "serve no page for browsers, and no raw bytes of files")
    .option("--json", "print the address and what is served as JSON")
    .notes(`
Nothing is written. Anyone who can reach the address can read the archives; by
default that is only this machine. Stop the server with Ctrl-C. Open the address
in a browser to see what is in the archives, chunk by chunk. Each table and
array is served as a Parquet file too, as its name with .parquet appended.

Examples:
  superchunk serve daily_equities.bcolz
  superchunk serve /data/bundles --port 9000 --cors
  superchunk serve bundles.json --allow /data/bundles`)
    .action((paths: string[], flags: ServeFlags) => serve(paths, flags, context));
}

export function addView(program: Command, context: Context): void {
  program
    .command("view")
    .description("show archives in a browser: tables, values, and the position and health of every chunk")
    .argument("<paths...>", "archives and Zarr arrays (files, folders, URLs), or folders of them")
    .option("--port <n>", "port to listen on; 0 picks a free one", parsePort, 0)
    .option("--host <address>", "address to listen on; 0.0.0.0 lets other machines in", "127.0.0.1")
    .option("--allow-host <name...>", "more host names that the server answers to, such as a proxy's")
    .addAllowOption()
    .option("--no-open", "print the address, and do not start a browser")
    .notes(`
Nothing is written, and the page loads nothing from other servers. Anyone who
can reach the address can read the archives; by default that is only this
machine. Stop the server with Ctrl-C.

Examples:
  superchunk view daily_equities.bcolz
  superchunk view /data/bundles --no-open`)
    .action((paths: string[], flags: ViewFlags) => view(paths, flags, context));
}

async function view(paths: readonly string[], flags: ViewFlags, context: Context): Promise<void> {
  await serveUntilAborted(paths, { ...flags, page: "only" }, context, async ({ url }) => {
    await context.out.lines([
      `showing ${paths.map(printable).join(", ")} at ${url}`,
      ...forOthers(flags.host, url),
      "Ctrl-C ends it.",
    ]);
    await context.out.flush();
    if (flags.open) openBrowser(url);
  });
}

/** How other machines reach a server that listens on all addresses of this one. */
function forOthers(host: string, url: string): string[] {
  if (host !== "0.0.0.0" && host !== "::") return [];
  return [`other machines: http://${hostname()}:${new URL(url).port}/, or this machine's IP address`];
}

/** Opens an address in the system's browser if it can; otherwise the user has the printed address. */
function openBrowser(url: string): void {
  const [program, ...args] =
    process.platform === "darwin"
      ? ["open", url]
      : process.platform === "win32"
        ? ["cmd", "/c", "start", "", url]
        : ["xdg-open", url];
  const child = spawn(program, args, { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}

async function serve(paths: readonly string[], flags: ServeFlags, context: Context): Promise<void> {
  const { signal } = context;
  await serveUntilAborted(paths, flags, context, async ({ view, url, archives = 0, leftOut = [] }) => {
    const nodes = await view.list("", { signal });
    assertReadable(nodes);
    if (flags.json === true) await context.json({ url, archives, nodes, leftOut });
    else {
      const group = firstGroup(nodes);
      const inside = group === undefined ? [] : await view.list(group.path, { signal });
      const isTree = inside.slice(1).some(({ kind }) => kind === "group");
      const [first = "", ...lines] = pasteLines(url, nodes, { archives, isTree, leftOut });
      await context.out.lines([first, ...forOthers(flags.host, url), ...lines]);
    }
    await context.out.flush();
  });
}

/** Throws `UNSUPPORTED` if nothing served can be read, because the user would not see the reason here. */
function assertReadable(nodes: readonly ViewNode[]): void {
  const below = nodes.slice(1);
  const [first] = below;
  if (first?.error === undefined || below.some(({ error }) => error === undefined)) return;
  const others = below.length === 1 ? "" : `; nor can the other ${below.length - 1}`;
  throw new SuperchunkError("UNSUPPORTED", `there is nothing to serve: ${first.error}${others}`, {
    field: "paths",
  });
}

/** The first readable group below the address. */
function firstGroup(nodes: readonly ViewNode[]): ViewNode | undefined {
  return nodes
    .slice(1)
    .find(({ kind, source, error }) => kind === "group" && source !== undefined && error === undefined);
}

/** Lines to paste into programs that read it. `isTree`: the first group contains groups. */
function pasteLines(
  url: string,
  nodes: readonly ViewNode[],
  {
    archives,
    isTree,
    leftOut,
  }: { readonly archives: number; readonly isTree: boolean; readonly leftOut: readonly string[] },
): string[] {
  const readable = nodes.slice(1).filter(({ error }) => error === undefined);
  const array = readable.find(({ kind }) => kind === "array");
  const group = firstGroup(nodes);
  const address = (node: ViewNode | undefined): string =>
    node === undefined ? url : `${url}${node.path.split("/").map(encodeURIComponent).join("/")}`;
  const first = address(array ?? group);
  // A single table has a name below the address; arrays in further folders form a tree.
  const isTable = archives === 1 && group !== undefined && !isTree;
  const isFlat = group === undefined && readable.every(({ source }) => source !== undefined);
  const dataset = isTable ? address(group) : url;
  const call =
    isTable || isFlat
      ? `open_zarr(${JSON.stringify(dataset)})`
      : `open_datatree(${JSON.stringify(archives === 1 ? address(group) : url)}, engine="zarr")`;
  const lines = [
    `serving ${formatPlural(archives, "archive")} at ${url}`,
    "",
    `zarr-python   zarr.open(${JSON.stringify(first)}, mode="r")`,
    `xarray        xr.${call}`,
    `zarrita       await zarr.open.v3(new zarr.FetchStore(${JSON.stringify(first)}))`,
  ];
  if (array !== undefined) {
    const spec = `{"driver": "zarr3", "kvstore": ${JSON.stringify(`${address(array)}/`)}}`;
    lines.push(`tensorstore   ts.open(${spec}).result()`);
  }
  const table = readable.find(({ source, isReferred }) => source !== undefined && isReferred !== true);
  if (table !== undefined) {
    const file =
      `${address({ ...table, path: table.path.replace(/\.(?:bcolz|blz|blp)$/i, "") })}.parquet`.replaceAll(
        "'",
        "%27",
      );
    lines.push(
      `duckdb        select * from '${file}'`,
      `polars        pl.scan_parquet(${JSON.stringify(file)})`,
    );
  }
  for (const { path, error } of nodes)
    if (error !== undefined) lines.push(`not readable  ${printable(path)}: ${printable(error)}`);
  if (leftOut.length > 0)
    lines.push(
      "",
      `${formatPlural(leftOut.length, "folder")} of Zarr left out (${firstNames(leftOut)}): any file server can serve them as they are; "superchunk view" shows them`,
    );
  return [...lines, "", "Ctrl-C ends it."];
}

/** Serves paths until Ctrl-C, which is the normal end of a server. `announce` prints how to reach it. */
async function serveUntilAborted(
  paths: readonly string[],
  { host, port, cors, allowHost, portable, page }: ServeFlags,
  context: Context,
  announce: (served: ServedView) => Promise<void>,
): Promise<void> {
  const { signal, allow } = context;
  const served = await serveView(paths, {
    host,
    port,
    portable,
    page,
    allow,
    signal,
    allowedHosts: allowHost,
    cors: cors === true ? "*" : cors,
    onError: (path, error) => context.message(`${path}: ${describeFailure(error)}`),
  });
  await closing(served, async () => {
    try {
      await announce(served);
      if (!signal.aborted) await once(signal, "abort");
    } catch (error) {
      // Ctrl-C while the lines are printed is not a failure either.
      if (!signal.aborted) throw error;
    }
  });
}

function parsePort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65535) return port;
  throw new InvalidArgumentError("Expected a whole number from 0 to 65535.");
}
