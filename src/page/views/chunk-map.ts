/** The map of chunks on a canvas, with a cell for each, in the order of their numbers. Knows cells and colours; must not know archives. */
import { cssOf, NAMED, type Pixel, pixel, RAMP_PIXELS } from "../colours.ts";
import { h, onceAFrame } from "../dom.ts";
import { MOST_CHUNKS, STATE } from "../engine/protocol.ts";
import type { ChunkData } from "./chunk-data.ts";

/** What the colours of cells show. */
export type Colouring = "ratio" | "size" | "codec" | "file" | "age" | "health";

/** Sizes of cells in CSS pixels. */
const SIZES = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32];
/** Most pixels of the height of all cells: browsers limit the height of elements. */
const MOST_HEIGHT = 30_000_000;
const DAMAGED: readonly [number, number, number] = [208, 48, 40];
const MISSING: readonly [number, number, number] = [150, 40, 130];
const WHOLE: readonly [number, number, number] = [46, 160, 98];
const FILLED: readonly [number, number, number] = [226, 160, 40];

/** Draws the cells of a map, and handles events on them. */
export class ChunkMap {
  readonly element: HTMLElement;
  readonly draw: () => void = onceAFrame(() => this.#drawNow());
  readonly #data: ChunkData;
  readonly #canvas: HTMLCanvasElement;
  /** The frame of the cell under the pointer: moving it draws no cell again. */
  readonly #frame: HTMLElement = h("i", { hidden: true });
  readonly #space: HTMLElement = h("div", { class: "space" });
  readonly #onPoint: (cell: number | undefined, x: number, y: number) => void;
  colouring: Colouring = "ratio";
  readonly #total: number;
  #size: number | undefined;
  #cursor: number | undefined;
  #image: ImageData | undefined;
  /** The colour of each cell, unless there are too many; undefined after a change. */
  #painted: Uint32Array | undefined;

  constructor(
    data: ChunkData,
    on: {
      point(cell: number | undefined, x: number, y: number): void;
      choose(cell: number): void;
    },
  ) {
    this.#data = data;
    this.#total = Math.max(1, data.total);
    this.#onPoint = (cell, x, y) => on.point(cell, x, y);
    this.#canvas = h("canvas", {});
    this.#space.append(this.#canvas, this.#frame);
    this.element = h(
      "div",
      {
        class: "map",
        tabindex: 0,
        role: "group",
        "aria-roledescription": "map of chunks",
        "aria-label":
          "Map of chunks. Arrow keys go from chunk to chunk, Enter reads one. The same is in the table of chunks below.",
      },
      this.#space,
    );
    const point = (event: MouseEvent): void => {
      const cell = this.#cellAt(event);
      if (cell !== this.#cursor) this.#setCursor(cell);
      this.#onPoint(cell, event.clientX, event.clientY);
    };
    this.element.addEventListener("pointermove", point);
    this.element.addEventListener("pointerleave", () => {
      this.#setCursor(undefined);
      this.#onPoint(undefined, 0, 0);
    });
    this.element.addEventListener("click", (event) => {
      const cell = this.#cellAt(event);
      if (cell !== undefined) on.choose(cell);
    });
    this.element.addEventListener("scroll", this.draw, { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event, (cell) => on.choose(cell)));
    new ResizeObserver(this.draw).observe(this.element);
  }

  /** The cell under the pointer. */
  get cursor(): number | undefined {
    return this.#cursor;
  }

  /** Draws again after chunks, their states or the colouring changed. */
  repaint(): void {
    this.#painted = undefined;
    this.draw();
  }

  /** The same if only the chunks in the slots `[first, end)` changed. */
  repaintSlots(first: number, end: number): void {
    if (this.#painted !== undefined && end > first) this.#fill(this.#painted, first, end);
    this.draw();
  }

  #fill(painted: Uint32Array, first: number, end: number): void {
    const colourOf = this.#colours();
    const { index } = this.#data;
    for (let slot = first; slot < end; slot++) painted[index[slot] as number] = colourOf(slot);
  }

  /** Makes cells larger (1) or smaller (-1); 0 chooses the size at which all are visible. */
  zoom(step: number): void {
    const at = SIZES.indexOf(this.#cellSize());
    const size = SIZES[Math.max(0, Math.min(SIZES.length - 1, at + step))];
    if (step > 0 && size !== undefined && this.#heightAt(size) > MOST_HEIGHT) return;
    this.#size = step === 0 ? undefined : size;
    this.draw();
  }

  /** Shows a chunk as if it were under the pointer. */
  focusOn(cell: number): void {
    const { columns, size } = this.#grid();
    const top = Math.floor(cell / columns) * size;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + size > scrollTop + clientHeight)
      this.element.scrollTop = top - clientHeight / 2;
    const box = this.element.getBoundingClientRect();
    this.#onPoint(
      cell,
      box.left + (cell % columns) * size + size,
      box.top + top - this.element.scrollTop + size,
    );
    this.#setCursor(cell);
  }

  #setCursor(cell: number | undefined): void {
    this.#cursor = cell;
    this.#frame.hidden = cell === undefined;
    if (cell === undefined) return;
    const { columns, size } = this.#grid();
    const edge = Math.max(size - (size >= 3 ? 1 : 0), 6);
    const out = Math.max(0, (6 - size) / 2);
    const [x, y] = [(cell % columns) * size - out, Math.floor(cell / columns) * size - out];
    this.#frame.style.cssText = `left:${x}px;top:${y}px;width:${edge}px;height:${edge}px`;
  }

  #key(event: KeyboardEvent, choose: (cell: number) => void): void {
    const { columns } = this.#grid();
    const at = this.#cursor ?? -1;
    const steps: Readonly<Record<string, number>> = {
      ArrowRight: at + 1,
      ArrowLeft: Math.max(0, at - 1),
      ArrowDown: at < 0 ? 0 : at + columns,
      ArrowUp: at - columns < 0 ? at : at - columns,
      Home: 0,
      End: this.#total - 1,
    };
    const to = steps[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.focusOn(Math.max(0, Math.min(this.#total - 1, to)));
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
      event.preventDefault();
      choose(at);
    } else if (event.key === "+") this.zoom(1);
    else if (event.key === "-") this.zoom(-1);
  }

  #cellSize(): number {
    if (this.#size !== undefined) return this.#size;
    return SIZES.findLast((size) => this.#heightAt(size) <= this.element.clientHeight) ?? 1;
  }

  #heightAt(size: number): number {
    return Math.ceil(this.#total / Math.max(1, Math.floor(this.element.clientWidth / size))) * size;
  }

  #grid(): { readonly size: number; readonly columns: number } {
    const size = this.#cellSize();
    return { size, columns: Math.max(1, Math.min(this.#total, Math.floor(this.element.clientWidth / size))) };
  }

  #cellAt(event: MouseEvent): number | undefined {
    const { size, columns } = this.#grid();
    const box = this.element.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.element.clientLeft) / size);
    const row = Math.floor(
      (event.clientY - box.top - this.element.clientTop + this.element.scrollTop) / size,
    );
    const cell = row * columns + column;
    return column >= 0 && column < columns && cell >= 0 && cell < this.#total ? cell : undefined;
  }

  #drawNow(): void {
    const { clientWidth, clientHeight, scrollTop } = this.element;
    if (clientWidth === 0 || clientHeight === 0) return;
    // At most as high as with the largest cells, so that few chunks take little room.
    const most = this.#heightAt(SIZES.at(-1) ?? 1);
    this.element.style.setProperty("--most", this.#size === undefined ? `${most + 2}px` : "62vh");
    const { size, columns } = this.#grid();
    const rows = Math.ceil(this.#total / columns);
    this.#space.style.height = `${Math.max(rows * size, 1)}px`;
    const scale = size < 3 ? 1 : Math.min(2, devicePixelRatio);
    const [width, height] = [Math.floor(clientWidth * scale), Math.floor(clientHeight * scale)];
    const canvas = this.#canvas;
    if (canvas.width !== width || canvas.height !== height || this.#image === undefined) {
      [canvas.width, canvas.height] = [width, height];
      canvas.style.width = `${clientWidth}px`;
      canvas.style.height = `${clientHeight}px`;
      this.#image = new ImageData(width, height);
    }
    const pixels = new Uint32Array(this.#image.data.buffer);
    pixels.fill(0);
    const step = size * scale;
    const gap = size >= 6 ? Math.round(scale) : size >= 3 ? 1 : 0;
    const lineAt = this.#lines();
    const firstRow = Math.floor(scrollTop / size);
    const lastRow = Math.min(rows, Math.ceil((scrollTop + clientHeight) / size) + 1);
    for (let row = firstRow; row < lastRow; row++) {
      const top = Math.round((row * size - scrollTop) * scale);
      const [from, to] = [Math.max(0, top), Math.min(height, top + step - gap)];
      if (to <= from) continue;
      const line = from * width;
      const first = row * columns;
      const count = Math.min(columns, this.#total - first);
      const painted = lineAt(first, first + count);
      if (step === 1) {
        pixels.set(painted.subarray(0, width), line);
        continue;
      }
      for (let column = 0; column < count; column++) {
        const colour = painted[column] as number;
        const left = Math.round(column * step);
        const right = Math.min(width, left + step - gap);
        for (let x = left; x < right; x++) pixels[line + x] = colour;
      }
      for (let y = from + 1; y < to; y++) pixels.copyWithin(y * width, line, line + width);
    }
    canvas.getContext("2d")?.putImageData(this.#image, 0, 0);
    this.#setCursor(this.#cursor);
  }

  /** Returns a function for the colours of cells: stored for all cells, or computed for the visible ones. */
  #lines(): (first: number, end: number) => Uint32Array {
    const [data, empty] = [this.#data, this.#emptyPixel()];
    if (this.#total <= MOST_CHUNKS) {
      if (this.#painted === undefined) {
        this.#painted = new Uint32Array(this.#total).fill(empty);
        this.#fill(this.#painted, 0, data.count);
      }
      const painted = this.#painted;
      return (first, end) => painted.subarray(first, end);
    }
    const colourOf = this.#colours();
    return (first, end) =>
      Uint32Array.from({ length: end - first }, (_, i) => {
        const slot = data.slotOf(first + i);
        return slot === undefined ? empty : colourOf(slot);
      });
  }

  #emptyPixel(): Pixel {
    return document.documentElement.dataset["theme"] === "dark" ? pixel(46, 52, 58) : pixel(222, 226, 230);
  }

  /** Returns a function for the colour of the chunk in a slot. */
  #colours(): (slot: number) => Pixel {
    const { state, cbytes, nbytes, codec, file, leastRatio, mostRatio, mostBytes, leastBytes } = this.#data;
    const { written, oldest, newest } = this.#data;
    const [damaged, missing] = [pixel(...DAMAGED), pixel(...MISSING)];
    const [whole, filled] = [pixel(...WHOLE), pixel(...FILLED)];
    const empty = this.#emptyPixel();
    const named = NAMED.map((colour) => pixel(...colour));
    const ramp = (share: number): Pixel =>
      RAMP_PIXELS[Math.max(0, Math.min(255, Math.round(share * 255)))] as number;
    const ratioSpan = Math.log2(mostRatio / leastRatio) || 1;
    const ageSpan = newest - oldest || 1;
    const sizeSpan = Math.log2(mostBytes / leastBytes) || 1;
    const others: Readonly<Record<Colouring, (slot: number) => Pixel>> = {
      ratio: (slot) =>
        (cbytes[slot] as number) > 0
          ? ramp(Math.log2((nbytes[slot] as number) / (cbytes[slot] as number) / leastRatio) / ratioSpan)
          : empty,
      size: (slot) => ramp(Math.log2((cbytes[slot] as number) / leastBytes) / sizeSpan),
      codec: (slot) => named[(codec[slot] as number) % named.length] as number,
      file: (slot) => named[(file[slot] as number) % named.length] as number,
      age: (slot) => {
        const at = written.get(file[slot] as number);
        return at === undefined ? empty : ramp((at - oldest) / ageSpan);
      },
      health: (slot) => (state[slot] === STATE.whole ? whole : empty),
    };
    const colour = others[this.colouring];
    return (slot) => {
      const is = state[slot];
      if (is === STATE.damaged) return damaged;
      if (is === STATE.missing) return missing;
      return is === STATE.filled ? filled : colour(slot);
    };
  }
}

/** Colours of chunk health, for a legend. */
export const HEALTH: readonly (readonly [name: string, css: string])[] = [
  ["no damage found", cssOf(WHOLE)],
  ["damaged", cssOf(DAMAGED)],
  ["missing", cssOf(MISSING)],
  ["filled by a repair", cssOf(FILLED)],
];
