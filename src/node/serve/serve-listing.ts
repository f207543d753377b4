/**
 * The list of what is at a path of a view: JSON for programs, a page for people. Must not know sockets. The page has no
 * scripts, which its policy forbids.
 */
import { formatBytes } from "../../bytes/arrays.ts";
import type { ErrorCode, SuperchunkError } from "../../errors.ts";
import type { ViewNode } from "../../view/view.ts";

const STYLE = `
:root { color-scheme: light dark; --line: #8883; --soft: #777; --link: #0b62c4; --box: #8881; --bad: #c0362c }
@media (prefers-color-scheme: dark) { :root { --soft: #999; --link: #7db7ff; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 2.5rem 1.25rem }
nav { color: var(--soft) } nav a, td a, footer a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .25rem 0 .5rem; overflow-wrap: anywhere }
p { color: var(--soft); margin: 0 0 1.25rem; overflow-wrap: anywhere }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .5rem; margin: 0 0 1.75rem; overflow-x: auto; padding: .75rem 1rem }
code, td.d { font: 13px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.t { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th { color: var(--soft); font-weight: 500; font-size: .85rem } td, th { padding: .4rem .75rem; text-align: left; vertical-align: baseline }
td:first-child, th:first-child { padding-left: 0 } td:last-child, th:last-child { padding-right: 0 }
tr { border-bottom: 1px solid var(--line) } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td:first-child { overflow-wrap: anywhere; min-width: 8rem } .e { color: var(--bad) } footer { color: var(--soft); font-size: .85rem; margin-top: 1.5rem }
`;

/** The list of nodes as JSON: the node itself first, then those directly under it, with paths from the view's root. */
export function listingJson(nodes: readonly ServedNode[]): string {
  return `${JSON.stringify({ zarr_format: 3, nodes }, undefined, 2)}\n`;
}

/** The list of nodes, the node itself first, as a page. `url`: the node's own address, with a final `/`. */
export function listingPage(nodes: readonly ServedNode[], url: string): string {
  const [self, ...below] = nodes;
  const path = self?.path ?? "";
  const title = path === "" ? "Archives" : (path.split("/").at(-1) ?? path);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
<nav>${breadcrumbs(path)}</nav>
<h1>${escapeHtml(title)}</h1>
<p${self?.error === undefined ? "" : ' class="e"'}>${self === undefined ? "" : escapeHtml(describe(self, below.length))}</p>
<pre><code>${escapeHtml(snippet(self, url))}</code></pre>
${below.length === 0 ? "" : table(below, path)}
<footer>Zarr v3, with the chunks as stored in the archive: <a href="zarr.json">zarr.json</a></footer>
</html>
`;
}

/** Links to the groups above a node. */
function breadcrumbs(path: string): string {
  if (path === "") return "superchunk";
  const parts = path.split("/");
  const links = ["superchunk", ...parts.slice(0, -1)].map((name, i) => {
    const href = "../".repeat(parts.length - i);
    return `<a href="${href}">${escapeHtml(name)}</a>`;
  });
  return `${links.join(" / ")} /`;
}

function describe(node: ServedNode, below: number): string {
  const { kind, shape = [], dataType, nbytes, error } = node;
  if (error !== undefined) return error;
  if (kind === "group") return `A group of ${below === 1 ? "1 node" : `${below} nodes`}.`;
  const size = nbytes === undefined ? "" : `, ${formatBytes(nbytes)} uncompressed`;
  return `An array of ${dataType}, shape (${shape.join(", ")}${shape.length === 1 ? "," : ""})${size}.`;
}

/** The lines that open the node in Python. */
function snippet(self: ServedNode | undefined, url: string): string {
  const address = url.replace(/\/$/, "");
  const open = `import zarr\n${self?.kind === "array" ? "array" : "group"} = zarr.open(${JSON.stringify(address)}, mode="r")`;
  return self?.kind === "array" ? `${open}\narray[:10]` : open;
}

function table(below: readonly ServedNode[], path: string): string {
  return `<div class="t"><table>
<tr><th>name</th><th>data type</th><th>shape</th><th class="n">size</th></tr>
${below.map((node) => row(node, path)).join("\n")}
</table></div>`;
}

function row({ path: own, kind, dataType, shape, nbytes, error }: ServedNode, path: string): string {
  const name = path === "" ? own : own.slice(path.length + 1);
  const link = `<td><a href="${escapeHtml(encodeURIComponent(name))}/">${escapeHtml(name)}${kind === "group" ? "/" : ""}</a></td>`;
  if (error !== undefined) return `<tr>${link}<td class="e" colspan="3">${escapeHtml(error)}</td></tr>`;
  const size = nbytes === undefined ? "" : formatBytes(nbytes);
  return `<tr>${link}<td class="d">${escapeHtml(dataType ?? "group")}</td><td class="d">${escapeHtml(shape?.join(" × ") ?? "")}</td><td class="n" title="${nbytes ?? ""}">${size}</td></tr>`;
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

// The error messages of a server, without paths on its machine or targets of links.
//
// Messages contain paths, targets of links and stored text, which no filter removes reliably. So a client gets a sentence
// made from the code alone; the full message goes to the server's own log.

/** A node of a view, without the place of its archive. */
type ServedNode = Omit<ViewNode, "source">;

const SENTENCES: Readonly<Record<ErrorCode, string>> = {
  BAD_MAGIC: "a file of the archive is not of the kind that its name says",
  TRUNCATED: "a file of the archive ends early",
  BAD_FIELD: "a field that the archive stores contradicts the rest of it",
  BAD_CHUNK: "a chunk of the archive cannot be decoded",
  CHECKSUM_MISMATCH: "bytes of the archive do not match their checksum",
  INCOMPLETE: "a part of the archive is missing",
  UNSAFE_PATH: "a name or a link in the archive leads out of it",
  UNSUPPORTED: "the archive stores this in a way that cannot be shown",
  NOT_FOUND: "something that the archive names does not exist",
  BAD_ARGUMENT: "the request cannot be understood",
  CONFLICT: "the archive is being changed",
  STALE: "the archive was changed while it was read",
  READ_ONLY: "the server may not read the archive",
  LIMIT: "the archive goes past a limit of this server",
  NO_SPACE: "the server has no room",
  IO: "the storage of the archive failed",
};

/** File names that the formats define. They show where the damage is, and reveal nothing about the machine. */
const OWN_NAME =
  /(?:^|[\\/])((?:data[\\/]|meta[\\/])?(?:__\d+(?:__)?\.(?:bin|blp)|sizes|storage|attributes|__attrs__|__rootdirs__|zarr\.json))$/;

/** An error as clients see it: the format's own file name, the chunk, the byte, and the sentence. */
export function servedMessage({ code, details: { path, chunk, offset } }: SuperchunkError): string {
  const name = OWN_NAME.exec(path ?? "")?.[1];
  const where = [
    ...(name === undefined ? [] : [name.replaceAll("\\", "/")]),
    ...(chunk === undefined ? [] : [`chunk ${chunk}`]),
    ...(offset === undefined ? [] : [`byte ${offset}`]),
  ];
  return `${where.length === 0 ? "" : `${where.join(", ")}: `}${sentence(code)}`;
}

function sentence(code: ErrorCode | undefined): string {
  return `${code === undefined ? "it cannot be read" : SENTENCES[code]}; the server's messages say more`;
}

export function servedNodes(nodes: readonly ViewNode[]): ServedNode[] {
  return nodes.map(({ source: _, ...node }) =>
    node.error === undefined ? node : { ...node, error: sentence(node.code) },
  );
}
