/** The view of chunks: the map, the chunk under the pointer, its damage, and the same as a table. */
import type { VerifyReport } from "../../archive/kinds/types.ts";
import { formatBytes } from "../../bytes/arrays.ts";
import { nameColour } from "../colours.ts";
import { h, refill, select } from "../dom.ts";
import { type ChunkDetail, MADE, MOST_CHUNKS, STATE } from "../engine/protocol.ts";
import { writeState } from "../state.ts";
import { dateText, formatCount, formatGain, formatPlural, formatRatio, withoutServer } from "../text.ts";
import { ChunkData } from "./chunk-data.ts";
import { describeOutcome } from "./chunk-health.ts";
import { ChunkMap, type Colouring, HEALTH } from "./chunk-map.ts";
import { streamMap } from "./chunk-streams.ts";
import { chunkTable, placeText, STATES } from "./chunk-table.ts";
import { columnChoice, commandPath, ramp, type Shown, sentenceOf } from "./view.ts";

/** Up to this many bytes, values are checked without a click if reading is cheap. */
const CHECKED_UNASKED = 256 << 20;
/** Up to this many chunks on another server, all are listed without a click. */
const LISTED_UNASKED = 512;
/** Most files whose times are requested. */
const MOST_AGES = 4096;
const COLOURINGS: readonly (readonly [Colouring, string])[] = [
  ["ratio", "ratio"],
  ["size", "stored size"],
  ["codec", "codec"],
  ["file", "file"],
  ["age", "age of the file"],
  ["health", "health"],
];
const CELLS = ["chunks", "files"].map((name) => [name, name] as const);

export function view(shown: Shown): HTMLElement {
  return new ChunkView(shown).element;
}

class ChunkView {
  readonly element: HTMLElement;
  readonly #shown: Shown;
  readonly #column: NonNullable<Shown["column"]>;
  readonly #data: ChunkData;
  readonly #map: ChunkMap;
  readonly #tip: HTMLElement = h("div", { class: "tip", hidden: true });
  readonly #said: HTMLElement = h("p", { class: "hidden", role: "status" });
  readonly #totals: HTMLElement = h("p", { class: "note", role: "status" });
  readonly #legend: HTMLElement = h("span", { class: "legend" });
  readonly #detail: HTMLElement = h("section", { class: "detail", "aria-live": "polite" });
  readonly #health: HTMLElement = h("section", { "aria-label": "Health" });
  readonly #table: HTMLElement;
  readonly #cells: HTMLSelectElement = select(CELLS, "", (cells) => {
    this.#shown.now.keep({ cells: cells === "files" ? cells : "" });
    if (cells === "files") this.#showFiles();
    else this.#showChunks();
  });
  readonly #choice: HTMLElement = h("label", { hidden: true }, "Cells", this.#cells);
  #outcome: VerifyReport | undefined;
  /** The line about the chunk that was read. */
  #chunkLines: HTMLElement | undefined;
  /** The map of files, while it is shown. */
  #files: ChunkMap | undefined;

  constructor(shown: Shown) {
    this.#shown = shown;
    this.#column = shown.column ?? (shown.node.columns[0] as NonNullable<Shown["column"]>);
    const { now, signal } = shown;
    this.#data = new ChunkData(this.#column.nchunks);
    this.#map = new ChunkMap(this.#data, {
      point: (chunk, x, y) => this.#tell(chunk === undefined ? [] : this.#lines(chunk), x, y),
      choose: (chunk) => void this.#read(chunk),
    });
    const wanted = COLOURINGS.find(([id]) => id === now.state.more["color"])?.[0] ?? "ratio";
    this.#map.colouring = wanted;
    const colour = select(COLOURINGS, wanted, (color) => {
      this.#map.colouring = color as Colouring;
      now.keep({ color });
      void this.#readAges();
      this.#redraw();
    });
    const zoom = (step: number, label: string, text: string): HTMLElement =>
      h("button", { "aria-label": label, onclick: () => (this.#files ?? this.#map).zoom(step) }, text);
    this.#table = chunkTable(this.#data, this.#column, (chunk) => void this.#read(chunk), signal);
    this.element = h(
      "div",
      { class: "view chunks" },
      h(
        "div",
        { class: "bar" },
        columnChoice(shown, this.#column),
        this.#choice,
        h("label", {}, "Colour by", colour),
        this.#legend,
        h("span", { class: "grow" }),
        h(
          "span",
          { class: "group" },
          zoom(-1, "Smaller cells", "−"),
          zoom(0, "Fit all cells", "Fit"),
          zoom(1, "Larger cells", "+"),
        ),
      ),
      this.#map.element,
      this.#tip,
      this.#said,
      this.#totals,
      this.#detail,
      this.#health,
      this.#table,
    );
    addEventListener("themechange", () => this.#redraw(), { signal });
    const isEmpty = this.#column.nchunks === 0;
    this.#map.element.hidden = isEmpty;
    this.element.classList.toggle("empty", isEmpty);
    if (shown.source.kind === "url" && this.#column.nchunks > LISTED_UNASKED) this.#offerList();
    else void this.#list();
  }

  get #target(): { readonly archive: string; readonly column: string } {
    return { archive: this.#shown.node.name, column: this.#column.name };
  }

  async #list(): Promise<void> {
    const { engine, signal } = this.#shown;
    refill(this.#totals, "Listing the chunks…");
    try {
      const problem = await engine.chunks(this.#target, {
        signal,
        onProgress: (batch) => {
          const first = this.#data.count;
          const isOther = this.#data.add(batch);
          this.#markFilled(first);
          this.#drawLegend();
          if (isOther) this.#map.repaint();
          else this.#map.repaintSlots(first, this.#data.count);
          this.#showTotals(true);
        },
      });
      this.#data.isWhole = problem === undefined && this.#data.count < MOST_CHUNKS;
      this.#showTotals(false);
      this.#drawLegend();
      if (problem !== undefined)
        this.#health.replaceChildren(h("p", { class: "bad-note" }, withoutServer(problem)));
    } catch (error) {
      const text = sentenceOf(error);
      if (text !== undefined) this.#totals.replaceWith(h("p", { class: "bad-note", role: "alert" }, text));
      if (signal.aborted) return;
    }
    this.#listed();
    const files = this.#data.files.size;
    this.#choice.hidden = files < 2 || files === this.#data.count;
    if (!this.#choice.hidden && this.#shown.now.state.more["cells"] === "files") {
      this.#cells.value = "files";
      this.#showFiles();
    }
    void this.#readAges();
    if (this.#column.nchunks > 0) this.#offerCheck();
    else this.#table.hidden = true;
  }

  /** Marks chunks with rows that a repair filled, according to the archive. */
  #markFilled(begin: number): void {
    const { chunkLength, filled = [] } = this.#column;
    const { count, index, state } = this.#data;
    if (chunkLength === undefined || filled.length === 0) return;
    for (let slot = begin; slot < count; slot++) {
      const first = (index[slot] as number) * chunkLength;
      const isFilled = filled.some(({ from, to }) => from < first + chunkLength && to > first);
      if (isFilled && state[slot] !== STATE.damaged) state[slot] = STATE.filled;
    }
  }

  #listed(): void {
    this.element.dataset["listed"] = String(this.#data.count);
    const chosen = this.#shown.now.state.more["chunk"];
    if (chosen !== undefined && Number(chosen) < this.#column.nchunks) void this.#read(Number(chosen));
  }

  /** On another server each chunk header is a request, so many headers are only read after a click. */
  #offerList(): void {
    const text = `List ${formatPlural(this.#column.nchunks, "chunk")}`;
    const button = h("button", { onclick: () => void this.#list() }, text);
    this.#totals.replaceChildren(
      button,
      " This reads the header of each. A click on a cell reads one chunk.",
    );
    this.#listed();
  }

  /** Requests the times of the files; each is a request. */
  async #readAges(): Promise<void> {
    const { engine, signal } = this.#shown;
    const { words, written } = this.#data;
    const numbers = [...this.#data.files].filter((i) => !written.has(i)).slice(0, MOST_AGES);
    if (this.#map.colouring !== "age" || numbers.length === 0) return;
    const files = numbers.map((i) => words[i] ?? "");
    const times = await engine.written({ ...this.#target, files }, { signal }).catch(() => undefined);
    for (const [i, at] of (times ?? []).entries())
      if (!Number.isNaN(at)) this.#data.setWritten(numbers[i] ?? Number.NaN, at);
    this.#redraw();
    if (this.#data.written.size === 0)
      this.#legend.textContent = "The store does not say when files were written.";
  }

  /** Draws the map and its legend again; with a map of files, after their chunks changed. */
  #redraw(): void {
    this.#drawLegend();
    this.#map.repaint();
    if (this.#files !== undefined) this.#showFiles();
  }

  /** Shows a cell for each file instead of each chunk. A click goes to the chunks of a file. */
  #showFiles(): void {
    const { data, first } = this.#data.byFile();
    const chunkOf = (cell: number): number => this.#data.index[first[cell] as number] as number;
    const map = new ChunkMap(data, {
      point: (cell, x, y) =>
        this.#tell(cell === undefined ? [] : this.#fileLines(data, cell, chunkOf(cell)), x, y),
      choose: (cell) => {
        this.#showChunks();
        this.#map.focusOn(chunkOf(cell));
      },
    });
    map.colouring = this.#map.colouring;
    const before = this.#files ?? this.#map;
    const hasFocus = document.activeElement === before.element;
    before.element.replaceWith(map.element);
    if (hasFocus) map.element.focus();
    if (this.#files?.cursor !== undefined) map.focusOn(this.#files.cursor);
    this.#files = map;
  }

  #showChunks(): void {
    const hasFocus = document.activeElement === this.#files?.element;
    this.#files?.element.replaceWith(this.#map.element);
    if (hasFocus) this.#map.element.focus();
    this.#files = undefined;
    this.#cells.value = "chunks";
    this.#shown.now.keep({ cells: "" });
    this.#map.repaint();
  }

  #fileLines(data: ChunkData, cell: number, first: number): string[] {
    const file = data.file[cell] as number;
    const chunks = this.#data.file.subarray(0, this.#data.count).filter((each) => each === file).length;
    const [stored, decoded] = [data.cbytes[cell] as number, data.nbytes[cell] as number];
    return [
      data.words[file] ?? "",
      `${formatPlural(chunks, "chunk")}, from chunk ${formatCount(first)} on`,
      sizesText(stored, decoded),
      STATES[data.state[cell] as number] ?? "",
    ];
  }

  #showTotals(isGoing: boolean): void {
    const { count, stored, decoded, words, absent, total } = this.#data;
    const codecs = [...this.#data.codecs].map((i) => words[i] ?? "").filter((name) => name !== "");
    const hasMade = this.#data.files.has(words.indexOf(MADE));
    const files = this.#data.files.size - (hasMade ? 1 : 0);
    const parts = [
      `${formatPlural(count, "chunk")}${files === 0 ? "" : ` in ${formatPlural(files, "file")}`}`,
      decoded === 0 || files === 0 ? "" : sizesText(stored, decoded),
      hasMade ? "chunks that are made when they are read have the size of their values" : "",
      codecs.join(", "),
      absent === 0
        ? ""
        : `${formatCount(absent)}${count === 0 ? "" : " more"} are not stored: all their values are the fill value`,
      count < MOST_CHUNKS || count === total
        ? ""
        : `the first ${formatCount(count)} of ${formatCount(total)} are listed; a click on another cell reads that chunk`,
    ];
    this.#totals.textContent =
      total === 0
        ? "There are no chunks yet."
        : `${parts.filter((part) => part !== "").join(" · ")}${isGoing ? " so far…" : ""}`;
  }

  #drawLegend(): void {
    const { words, codecs, files, leastRatio, mostRatio, leastBytes, mostBytes } = this.#data;
    const { oldest, newest } = this.#data;
    const named = (of: ReadonlySet<number>): HTMLElement[] => [
      ...[...of].slice(0, 5).map((i) => chip(words[i] ?? "", nameColour(i))),
      ...(of.size > 5 ? [h("span", {}, `and ${formatCount(of.size - 5)} more`)] : []),
    ];
    const made: Readonly<Record<Colouring, () => HTMLElement[]>> = {
      ratio: () =>
        this.#data.stored === 0
          ? []
          : ramp(leastRatio === 1 ? "1×" : formatRatio(leastRatio, 1), formatRatio(mostRatio, 1)),
      age: () => (newest < oldest ? [] : ramp(dateText(oldest / 1000), dateText(newest / 1000))),
      size: () => ramp(formatBytes(Math.min(leastBytes, mostBytes)), formatBytes(mostBytes)),
      codec: () => named(codecs),
      file: () => named(files),
      health: () => HEALTH.map(([name, css]) => chip(name, css)),
    };
    const absent = this.#data.absent > 0 ? [chip("not stored", "var(--line)")] : [];
    this.#legend.replaceChildren(...made[this.#map.colouring](), ...absent);
  }

  #lines(chunk: number): string[] {
    const { offset, nbytes, cbytes, file, codec, words, digests } = this.#data;
    const place = placeText(this.#column, chunk);
    const head = `chunk ${formatCount(chunk)}${place === undefined ? "" : ` · ${place}`}`;
    const state = STATES[this.#data.stateOf(chunk)] ?? "";
    const slot = this.#data.slotOf(chunk);
    if (slot === undefined) return [head, state];
    const [stored, decoded] = [cbytes[slot] as number, nbytes[slot] as number];
    const digest = digests.get(slot);
    return [
      head,
      `${words[file[slot] as number] ?? ""}${(offset[slot] as number) < 0 ? "" : ` at byte ${formatCount(offset[slot] as number)}`}`,
      ...(stored > 0
        ? [[sizesText(stored, decoded), words[codec[slot] as number]].filter(Boolean).join(", ")]
        : []),
      ...(digest === undefined ? [] : [`digest ${digest}`]),
      state,
    ];
  }

  /** Shows lines beside the pointer, or reads them out if the map has the focus; without lines hides the tip. */
  #tell(lines: readonly string[], x: number, y: number): void {
    this.#tip.hidden = lines.length === 0;
    if (lines.length === 0) return;
    this.#tip.replaceChildren(
      h("b", {}, lines[0] ?? ""),
      ...lines.slice(1).map((line) => h("div", {}, line)),
    );
    if (document.activeElement?.classList.contains("map") === true) this.#said.textContent = lines.join(", ");
    const { offsetWidth, offsetHeight } = this.#tip;
    this.#tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - offsetWidth - 8))}px`;
    this.#tip.style.top = `${y + 18 + offsetHeight > innerHeight ? Math.max(4, y - offsetHeight - 10) : y + 18}px`;
  }

  async #read(index: number): Promise<void> {
    const { engine, now, signal } = this.#shown;
    now.keep({ chunk: String(index) });
    const isChosen = (): boolean => now.state.more["chunk"] === String(index); // another answer may come first
    this.#detail.replaceChildren(h("p", { class: "note" }, `Reading chunk ${formatCount(index)}…`));
    try {
      const detail = await engine.chunk({ ...this.#target, index }, { signal });
      if (detail.isDamaged) this.#setDamaged(index);
      this.#map.repaint();
      if (isChosen()) this.#detail.replaceChildren(...this.#describe(detail));
    } catch (error) {
      if (isChosen()) this.#detail.replaceChildren(h("p", { class: "bad-note" }, sentenceOf(error) ?? ""));
    }
  }

  #setDamaged(chunk: number | undefined): void {
    const slot = this.#data.slotOf(chunk ?? -1);
    if (slot !== undefined && this.#data.state[slot] !== STATE.missing)
      this.#data.state[slot] = STATE.damaged;
  }

  #describe({ index, took, start, blocks, nblocks, values, error }: ChunkDetail): HTMLElement[] {
    const { node, now } = this.#shown;
    this.#chunkLines = h("p", { class: "note", "data-chunk": index });
    this.#showDetail();
    const parts: HTMLElement[] = [h("h2", {}, `Chunk ${formatCount(index)}`), this.#chunkLines];
    if (blocks.length > 0) parts.push(streamMap(blocks, nblocks, this.#shown.signal));
    if (error !== undefined) return [...parts, h("p", { class: "bad-note" }, withoutServer(error))];
    const time = took < 1 ? "less than 1" : formatCount(Math.round(took));
    parts.push(h("p", { class: "note" }, `Read and decoded in ${time} ms.`));
    if (values.length > 0) parts.push(h("p", { class: "mono values" }, `${values.join("   ")} …`));
    if (start !== undefined) {
      // For an array of many dimensions, the plane with the chunk's first value.
      const [row = 0, across = 0] = start.slice(-2);
      const more = {
        row: String(node.kind === "bytes" ? Math.floor(row / 16) : row),
        across: across === 0 ? "" : String(across),
        plane: start.slice(0, -2).join(","),
      };
      const state = { ...now.state, column: this.#column.name, view: "values", more };
      parts.push(h("p", {}, h("a", { href: writeState(state) }, "Show its values")));
    }
    return parts;
  }

  /** Updates the line about the chunk that was read. */
  #showDetail(): void {
    if (this.#chunkLines !== undefined)
      this.#chunkLines.textContent = this.#lines(Number(this.#chunkLines.dataset["chunk"]))
        .join(" · ")
        .replace(/^chunk [\d,]+ · /, "");
  }

  #offerCheck(): void {
    const { source } = this.#shown;
    const { nbytes } = this.#column;
    if (source.kind !== "url" && nbytes <= CHECKED_UNASKED) {
      void this.#check();
      // The only chunk of a column: its content says more than its cell.
      if (this.#column.nchunks === 1 && this.#shown.now.state.more["chunk"] === undefined) void this.#read(0);
      return;
    }
    if (this.#data.count === 0) return;
    const button = h(
      "button",
      { onclick: () => void this.#check() },
      `Check every chunk (reads ${formatBytes(this.#data.stored)})`,
    );
    this.#health.append(h("p", {}, button));
  }

  /** Reads and checks everything, and marks the checked chunks while it runs. */
  async #check(): Promise<void> {
    const { background, signal } = this.#shown;
    const line = h("progress", { max: 1, value: 0, "aria-label": "Checked" });
    const text = h("span", {}, "Checking…");
    refill(this.#health, h("p", { class: "note" }, line, " ", text));
    let marked = 0;
    let bytes = 0;
    const mark = (until: number): void => {
      const { count, nbytes, state } = this.#data;
      const first = marked;
      for (; marked < count && bytes + (nbytes[marked] as number) <= until; marked++) {
        bytes += nbytes[marked] as number;
        if (state[marked] === STATE.unknown) state[marked] = STATE.whole;
      }
      this.#map.repaintSlots(first, marked);
    };
    try {
      this.#outcome = await background.verify(this.#target, {
        signal,
        onProgress: ({ done, total }) => {
          line.value = total === 0 ? 1 : done / total;
          text.textContent = `Checking: ${formatBytes(done)} of ${formatBytes(total)}`;
          mark(done);
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      this.#health.replaceChildren(h("p", { class: "bad-note" }, sentenceOf(error) ?? ""));
      return;
    }
    const { findings } = this.#outcome;
    if (this.#outcome.ok || findings.every(({ chunk }) => chunk !== undefined))
      mark(Number.POSITIVE_INFINITY);
    for (const { severity, chunk } of findings) {
      if (severity === "error") this.#setDamaged(chunk);
    }
    this.#redraw();
    this.#showDetail();
    const show = (chunk: number): void => {
      this.#showChunks();
      this.#map.focusOn(chunk);
    };
    const column = this.#shown.node.columns.length < 2 ? undefined : this.#column.name;
    this.#health.replaceChildren(...describeOutcome(this.#outcome, commandPath(this.#shown), column, show));
    this.element.dataset["checked"] = this.#outcome.ok ? "whole" : "damaged";
  }
}

/** Stored and decoded size of values. */
function sizesText(stored: number, decoded: number): string {
  const gain = formatGain(decoded, stored);
  return `${formatBytes(stored)} for ${formatBytes(decoded)}${gain === "" ? "" : ` (${gain})`}`;
}

function chip(name: string, css: string): HTMLElement {
  return h("span", { class: "chip" }, h("i", { style: `background:${css}` }), name);
}
