/**
 * What other programs cannot do of the product, in one table: tested with the versions in `requirements/` and
 * `package.json`. Every run tries it anyway, so that no entry outlives its reason.
 */
import type { PeerName } from "./peers.ts";
import type { ProductCase, ProductSettings } from "./product-cases.ts";

/** Cases that a program cannot do. */
export interface Limit {
  readonly peer: PeerName;
  /** What it cannot do; absent: neither. */
  readonly does?: "reading" | "writing";
  /** Whether it says so, or not. */
  readonly gives: "an error" | "wrong values";
  readonly reason: string;
  readonly matches: (settings: ProductSettings) => boolean;
}

const LIMITS: readonly Limit[] = [
  {
    peer: "zarrs",
    gives: "an error",
    reason: "it takes no transpose of an array without dimensions",
    matches: ({ codecs, dimensions }) => codecs.startsWith("transpose") && dimensions === 0,
  },
  {
    peer: "zarrs",
    does: "reading",
    gives: "wrong values",
    reason: "it swaps the parts of big-endian complex numbers where it reads a part of a chunk",
    matches: ({ codecs, dtype, dimensions, edges }) =>
      codecs.includes("big-endian") && dtype.startsWith("<c") && dimensions > 0 && !edges.startsWith("whole"),
  },
  {
    peer: "zarrita",
    gives: "an error",
    reason: "it has no complex numbers",
    matches: ({ dtype }) => dtype.startsWith("<c"),
  },
  {
    peer: "zarrita",
    gives: "an error",
    reason: "it needs JavaScript's Float16Array, which this Node.js has not",
    matches: ({ dtype }) => dtype === "<f2" && !("Float16Array" in globalThis),
  },
];

/** Why a program cannot do a case, or undefined if it must. */
export function findLimit(
  peer: PeerName,
  does: "reading" | "writing",
  { settings }: ProductCase,
): Limit | undefined {
  return LIMITS.find(
    (limit) =>
      limit.peer === peer && (limit.does === undefined || limit.does === does) && limit.matches(settings),
  );
}
