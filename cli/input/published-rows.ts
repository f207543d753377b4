/** Rows of a stream that become visible while more are on their way. */

import { InvalidArgumentError } from "commander";
import type { Editable, PublishPolicy } from "../../src/node/index.ts";
import { countItems } from "./units.ts";

/** What `--publish` says, in the help. */
export const PUBLISH_HELP =
  "show rows of a stream before its end: flush (as they come), full (by superchunks), or when so many SECONDS have passed";

/** `flush`, `full`, or a number of seconds. Throws commander's `InvalidArgumentError`. */
export function parsePublish(text: string): PublishPolicy {
  if (text === "flush" || text === "full") return text;
  const everySeconds = Number(text);
  if (/^\d+(?:\.\d+)?$/.test(text) && everySeconds > 0) return { everySeconds };
  throw new InvalidArgumentError("Expected flush, full, or a number of seconds above 0.");
}

/** When the Zarr side shows what is flushed: flushes come in time by themselves. */
export function mirrorPolicy(policy: PublishPolicy | undefined): "flush" | "full" {
  return policy === "full" ? "full" : "flush";
}

/** Appends a stream of bytes; with a policy it is flushed in between, at ends of rows. Throws as `append` and `flush`. */
export async function appendStream(
  array: Editable,
  source: AsyncIterable<Uint8Array>,
  policy: PublishPolicy | undefined,
): Promise<void> {
  const rowBytes = countItems(array.shape.slice(1)) * array.dtype.itemSize;
  if (policy === undefined || rowBytes === 0) return array.append(source);
  const fullRows = (array.chunkLength ?? 1) * (array.superchunkLength ?? 1);
  let shown = { rows: array.length, at: performance.now() };
  let rest = new Uint8Array(0);
  for await (const piece of source) {
    const bytes = new Uint8Array(rest.length + piece.length);
    bytes.set(rest);
    bytes.set(piece, rest.length);
    const whole = bytes.length - (bytes.length % rowBytes);
    rest = bytes.slice(whole);
    if (whole > 0) await array.append([bytes.subarray(0, whole)]);
    const isDue =
      policy === "flush" ||
      (policy === "full"
        ? Math.floor(array.length / fullRows) > Math.floor(shown.rows / fullRows)
        : performance.now() - shown.at >= policy.everySeconds * 1000);
    if (!isDue || array.length === shown.rows) continue;
    await array.flush();
    shown = { rows: array.length, at: performance.now() };
  }
  // Not whole: append says so.
  if (rest.length > 0) await array.append([rest]);
}
