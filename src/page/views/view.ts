/** What a view is: a part of the page that shows an archive or a column in one way. */
import type { ColumnFacts, Engine, NodeFacts, Source } from "../engine/protocol.ts";
import type { Now } from "../state.ts";

/** What a view shows, and what it may use. `signal` ends with the view. */
export interface Shown {
  readonly engine: Engine;
  /** Another worker, for what takes long: what is clicked does not wait for it. */
  readonly background: Engine;
  readonly now: Now;
  readonly source: Source;
  readonly node: NodeFacts;
  /** The column that is looked at; undefined for a whole table or group. */
  readonly column: ColumnFacts | undefined;
  readonly signal: AbortSignal;
}

/** Makes the view's part of the page. */
export type View = (shown: Shown) => HTMLElement;

/** What went wrong, as a sentence; undefined for what was broken off. */
export function sentenceOf(error: unknown): string | undefined {
  if (error instanceof Error && error.name === "AbortError") return undefined;
  return error instanceof Error ? error.message : String(error);
}

/** How a command names the archive. */
export function commandPath({ source, node }: Pick<Shown, "source" | "node">): string {
  const path = source.kind === "url" ? source.url : node.name === "/" ? "." : node.name;
  return /^[\w./:+@%=,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
