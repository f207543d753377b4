/** What lies at a path of a view: as JSON for programs, as a plain page for people. Must not know sockets. */
import type { ViewNode } from "../bridge/view-types.ts";

/** The list as JSON: the node itself first, then what is directly under it; paths from the view's root. */
export function listingJson(nodes: readonly ViewNode[]): string {
  return `${JSON.stringify({ zarr_format: 3, nodes }, undefined, 2)}\n`;
}

/** The list as a page. */
export function listingPage(nodes: readonly ViewNode[], url: string): string {
  const [self, ...below] = nodes;
  const path = self?.path ?? "";
  const title = `/${path}`;
  const rows = below.map((node) => row(node, path));
  if (path !== "") rows.unshift('<tr><td><a href="../">..</a></td><td></td><td></td><td></td><td></td></tr>');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .6rem; text-align: left }
tr + tr { border-top: 1px solid #8884 } .n { text-align: right } .e { color: #c22 } code { overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } a { color: #8bf } }
</style>
<h1>${escapeHtml(title)}</h1>
<p>${self === undefined ? "" : escapeHtml(describe(self))} Open it as Zarr: <code>${escapeHtml(url)}</code></p>
<table>
<tr><th>name</th><th>kind</th><th>data type</th><th>shape</th><th class="n">bytes</th></tr>
${rows.join("\n")}
</table>
</html>
`;
}

function row(node: ViewNode, path: string): string {
  const name = path === "" ? node.path : node.path.slice(path.length + 1);
  const kind = node.error === undefined ? node.kind : `<span class="e">${escapeHtml(node.error)}</span>`;
  const cells = [
    `<a href="${escapeHtml(encodeURIComponent(name))}/">${escapeHtml(name)}</a>`,
    kind,
    escapeHtml(node.dataType ?? ""),
    escapeHtml(node.shape?.join(" × ") ?? ""),
  ].map((cell) => `<td>${cell}</td>`);
  return `<tr>${cells.join("")}<td class="n">${node.nbytes ?? ""}</td></tr>`;
}

function describe({ kind, shape, dataType, error }: ViewNode): string {
  if (error !== undefined) return error;
  return kind === "group" ? "A group." : `An array of ${dataType} with shape (${shape?.join(", ")}).`;
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
