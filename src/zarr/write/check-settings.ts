/** What writers can be told, looked at before anything is written: programs without types tell anything. Pure. */
import { badArgument, type ErrorDetails, SuperchunkError } from "../../errors.ts";
import type { ChunkOrder } from "./chunk-order.ts";
import type { ShardStrategy } from "./shard-plan.ts";

const STRATEGIES: readonly unknown[] = ["rewrite", "append", "fixed"] satisfies readonly ShardStrategy[];
const ORDERS: readonly unknown[] = [
  "row-major",
  "column-major",
  "morton",
  "as-written",
] satisfies readonly ChunkOrder[];

/** Throws `BAD_ARGUMENT` for a strategy or an order that there is not, and a limit that is no number of bytes. */
export function checkWriteSettings({
  strategy,
  maxUnused,
  chunkOrder,
}: {
  readonly strategy?: ShardStrategy | undefined;
  readonly maxUnused?: number | undefined;
  readonly chunkOrder?: ChunkOrder | undefined;
}): void {
  if (strategy !== undefined && !STRATEGIES.includes(strategy))
    throw badArgument("strategy", strategy, '"rewrite", "append" or "fixed"');
  if (chunkOrder !== undefined && !ORDERS.includes(chunkOrder))
    throw badArgument("chunkOrder", chunkOrder, '"row-major", "column-major", "morton" or "as-written"');
  if (maxUnused !== undefined && !(typeof maxUnused === "number" && maxUnused >= 0))
    throw badArgument("maxUnused", maxUnused, "a number of bytes of 0 or more");
}

/** Chunks of a shard that is written, at most: its index then takes 1 GB. */
const MAX_CAPACITY = 2 ** 26;

/** Throws `LIMIT` for a shard of so many chunks that none is written; `place`: what asks for them. */
export function checkCapacity(capacity: number, place: Pick<ErrorDetails, "path" | "field">): void {
  if (capacity <= MAX_CAPACITY) return;
  throw new SuperchunkError(
    "LIMIT",
    `a shard of ${capacity} chunks is not written; at most ${MAX_CAPACITY}`,
    { ...place, expected: MAX_CAPACITY, found: capacity },
  );
}
