/**
 * What lies at a path of a view: as JSON for programs, as a page for people. Must not know sockets. The page has no
 * scripts: the policy it is sent with allows none.
 */
import type { ServedNode } from "./serve-errors.ts";

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

/** The list of nodes as JSON: the node itself first, then what is directly under it; paths from the view's root. */
export function listingJson(nodes: readonly ServedNode[]): string {
  return `${JSON.stringify({ zarr_format: 3, nodes }, undefined, 2)}\n`;
}

/** The list of nodes, the node itself first, as a page. `url`: the node's own address, with a `/` at its end. */
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
<footer>Zarr v3, as it lies in the archive: <a href="zarr.json">zarr.json</a></footer>
</html>
`;
}

/** Links to the groups that a node is in. */
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
  const size = nbytes === undefined ? "" : `, ${formatSize(nbytes)} uncompressed`;
  return `An array of ${dataType}, shape (${shape.join(", ")}${shape.length === 1 ? "," : ""})${size}.`;
}

/** What opens the node in Python. */
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
  const size = nbytes === undefined ? "" : formatSize(nbytes);
  return `<tr>${link}<td class="d">${escapeHtml(dataType ?? "group")}</td><td class="d">${escapeHtml(shape?.join(" × ") ?? "")}</td><td class="n" title="${nbytes ?? ""}">${size}</td></tr>`;
}

/** Bytes in units of 1024, three digits. */
function formatSize(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toPrecision(3)} ${units[unit]}`;
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
