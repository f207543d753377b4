/** The inside of a chunk: its blocks and streams, as a drawing and as a table. Knows the facts of blocks; must not know archives. */
import { at, formatBytes } from "../../bytes/arrays.ts";
import { RAMP_PIXELS } from "../colours.ts";
import { h } from "../dom.ts";
import type { BlockFacts } from "../engine/protocol.ts";
import { formatCount, formatGain, formatPlural, formatRatio } from "../text.ts";
import { foldedTable } from "../virtual-table.ts";
import { ramp } from "./view.ts";

/** Approximate width of the drawing in pixels, the limits for one block, and the height of a stream. */
const WIDTH = 640;
const [LEAST_CELL, MOST_CELL] = [2, 28];
const STREAM = 14;

/** A cell for each stream: blocks from left to right, the streams of a block one below the other. */
export function streamMap(blocks: readonly BlockFacts[], nblocks: number, signal: AbortSignal): HTMLElement {
  const rows = Math.max(1, ...blocks.map(({ streams }) => streams.length));
  const cell = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor(WIDTH / blocks.length)));
  const gap = cell > 5 ? 1 : 0;
  const height = rows === 1 ? 2 * STREAM : rows * STREAM;
  const most = Math.max(2, ...blocks.flatMap((block) => block.streams.map((_, i) => ratioOf(block, i))));
  const canvas = h("canvas", {
    width: blocks.length * cell,
    height,
    role: "img",
    "aria-label": `${formatPlural(blocks.length, "block")} with ${formatPlural(rows, "stream")} each; the same is in the table below`,
  });
  const context = canvas.getContext("2d");
  for (const [b, block] of blocks.entries()) {
    const count = Math.max(1, block.streams.length);
    for (const s of block.streams.keys()) {
      const share = Math.log2(ratioOf(block, s)) / Math.log2(most);
      const pixel = RAMP_PIXELS[Math.max(0, Math.min(255, Math.round(255 * share)))] as number;
      if (context === null) break;
      context.fillStyle = `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
      const [top, end] = [(s * height) / count, ((s + 1) * height) / count];
      context.fillRect(b * cell, top, cell - gap, end - top - gap);
    }
  }
  const said = h("p", { class: "note", role: "status" }, describe(blocks.length, nblocks, rows));
  canvas.addEventListener("pointermove", ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    const index = Math.floor(((clientX - box.left) / box.width) * blocks.length);
    const block = blocks[index];
    if (block === undefined) return;
    const stream = Math.floor(((clientY - box.top) / box.height) * Math.max(1, block.streams.length));
    said.textContent = `block ${formatCount(index)}${streamText(block, stream)}`;
  });
  canvas.addEventListener("pointerleave", () => {
    said.textContent = describe(blocks.length, nblocks, rows);
  });
  const legend = h("span", { class: "legend" }, ...ramp("1×", formatRatio(most, 1)));
  return h(
    "div",
    { class: "streams" },
    h("h3", {}, rows > 1 ? "Blocks and streams" : "Blocks", " ", legend),
    h("div", { class: "scroll" }, canvas),
    said,
    blockTable(blocks, signal),
  );
}

function describe(shown: number, nblocks: number, rows: number): string {
  const some = shown < nblocks ? `the first ${formatCount(shown)} of ` : "";
  const streams =
    rows > 1
      ? `; below one another the streams of each, up to ${rows}, one for each byte of a value, the lowest byte first`
      : "";
  if (nblocks === 1 && rows === 1) return "The chunk is one block.";
  return `From left to right ${some}${formatPlural(nblocks, "block")}${streams}.`;
}

/** Decoded bytes of a stream divided by stored ones. */
function ratioOf({ nbytes, streams }: BlockFacts, stream: number): number {
  return nbytes / streams.length / Math.max(1, streams[stream] ?? nbytes);
}

function streamText(block: BlockFacts, stream: number): string {
  const { offset, nbytes, cbytes, streams } = block;
  const stored = streams[stream];
  const where = `: at byte ${formatCount(offset)} of the chunk, ${formatBytes(cbytes)} for ${formatBytes(nbytes)}`;
  if (stored === undefined || streams.length < 2) return `${where} (${formatGain(nbytes, cbytes)})`;
  const each = nbytes / streams.length;
  const how = stored === each ? "stored as it is" : formatGain(each, stored);
  return `, stream ${stream}: ${formatBytes(stored)} for ${formatBytes(each)} (${how}); the block${where}`;
}

function blockTable(blocks: readonly BlockFacts[], signal: AbortSignal): HTMLElement {
  const titles = ["byte", "stored", "values", "ratio", "streams"];
  const columns = titles.map((title) => ({ title, isNumeric: title !== "streams" }));
  const cellsOf = (block: number): string[] => {
    const { offset, cbytes, nbytes, streams } = at(blocks, block);
    return [String(offset), String(cbytes), String(nbytes), formatRatio(nbytes, cbytes), streams.join(" ")];
  };
  return foldedTable("Blocks as a table", { label: "Blocks", rows: blocks.length, columns, cellsOf }, signal);
}
