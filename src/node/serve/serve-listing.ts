/** What lies at a path of a view: as JSON for programs. Must not know sockets. */
import type { ServedNode } from "./serve-names.ts";

/** The list as JSON: the node itself first, then what is directly under it; paths from the view's root. */
export function listingJson(nodes: readonly ServedNode[]): string {
  return `${JSON.stringify({ zarr_format: 3, nodes }, undefined, 2)}\n`;
}
