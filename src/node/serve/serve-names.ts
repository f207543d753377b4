/**
 * What a server tells of what it serves: its names in the view, and no place on the machine.
 *
 * Must not know sockets.
 */

import type { SuperchunkError } from "../../errors.ts";
import type { ViewNode } from "../../view/view-types.ts";

/** A node of a view without the place of its archive. */
export type ServedNode = Omit<ViewNode, "source">;

/** Absolute paths and URLs with at least one folder, as they stand in messages: all but the last part. */
const PLACE = /(?:[a-z][a-z0-9+.-]*:\/\/|(?<![\w.)\]~-])(?:[A-Za-z]:)?[\\/])(?:[^\s\\/"']+[\\/])+/g;

/** The nodes as they are told. */
export function servedNodes(nodes: readonly ViewNode[]): ServedNode[] {
  return nodes.map(({ source, ...node }) =>
    node.error === undefined ? node : { ...node, error: withoutPlaces(node.error, source) },
  );
}

/** An error's message as it is told: files are named by the last part of their path. */
export function servedMessage({ message, details }: SuperchunkError): string {
  return withoutPlaces(message, details.path);
}

/**
 * A text without folders: those that `known` lies in, which may have spaces in them, and all else that looks like
 * one. What lies in them stays, by its name.
 */
function withoutPlaces(text: string, known: string | undefined): string {
  let rest = text;
  const path = known ?? "";
  for (let end = path.length; end > 1; end--) {
    const isEnd = path[end - 1] === "/" || path[end - 1] === "\\";
    if (isEnd) rest = rest.replaceAll(path.slice(0, end), "");
  }
  return rest.replace(PLACE, "");
}
