/** The view of chunks: the map, what is pointed at, what is wrong with it, and the same as a table. */
import { cssOf, NAMED, RAMP_CSS } from "../colours.ts";
import { h } from "../dom.ts";
import type { ChunkDetail, VerifyOutcome } from "../engine/protocol.ts";
import { writeState } from "../state.ts";
import { formatBytes, formatCount, formatGain, formatPlural, formatRatio } from "../text.ts";
import { VirtualTable } from "../virtual-table.ts";
import { ChunkData, ChunkMap, type Colouring, HEALTH, STATE } from "./chunk-map.ts";
import { snippet } from "./overview.ts";
import { columnChoice, commandPath, type Shown, sentenceOf } from "./view.ts";

/** Values up to so many bytes are checked without being asked, where reading costs little. */
const CHECKED_UNASKED = 256 << 20;
/** Chunks on another server up to which all are listed without being asked. */
const LISTED_UNASKED = 512;
const COLOURINGS: readonly (readonly [Colouring, string])[] = [
  ["ratio", "ratio"],
  ["size", "stored size"],
  ["codec", "codec"],
  ["file", "file"],
  ["health", "health"],
];
const STATES = ["not checked", "whole", "damaged", "filled by a repair"];

export function chunks(shown: Shown): HTMLElement {
  return new ChunkView(shown).element;
}

class ChunkView {
  readonly element: HTMLElement;
  readonly #shown: Shown;
  readonly #column: NonNullable<Shown["column"]>;
  readonly #data = new ChunkData();
  readonly #map: ChunkMap;
  readonly #tip: HTMLElement = h("div", { class: "tip", hidden: true });
  readonly #said: HTMLElement = h("p", { class: "hidden", role: "status" });
  readonly #totals: HTMLElement = h("p", { class: "note", role: "status" }, "Listing the chunks…");
  readonly #legend: HTMLElement = h("span", { class: "legend" });
  readonly #detail: HTMLElement = h("section", { class: "detail", "aria-live": "polite" });
  readonly #health: HTMLElement = h("section", { "aria-label": "Health" });
  readonly #behind: HTMLElement = h(
    "details",
    { class: "behind" },
    h("summary", {}, "All chunks as a table"),
  );
  #outcome: VerifyOutcome | undefined;

  constructor(shown: Shown) {
    this.#shown = shown;
    this.#column = shown.column ?? (shown.node.columns[0] as NonNullable<Shown["column"]>);
    const { now, signal } = shown;
    this.#map = new ChunkMap(this.#data, Math.max(1, this.#column.nchunks), {
      point: (cell, x, y) => this.#point(cell, x, y),
      choose: (cell) => void this.#read(cell),
    });
    const wanted = COLOURINGS.find(([id]) => id === now.state.more["color"])?.[0] ?? "ratio";
    this.#map.colouring = wanted;
    const colour = h(
      "select",
      {
        onchange: () => {
          this.#map.colouring = colour.value as Colouring;
          now.keep({ color: colour.value });
          this.#drawLegend();
          this.#map.repaint();
        },
      },
      ...COLOURINGS.map(([id, label]) => h("option", { value: id, selected: id === wanted }, label)),
    );
    const zoom = (step: number, label: string, text: string): HTMLElement =>
      h("button", { "aria-label": label, onclick: () => this.#map.zoom(step) }, text);
    this.#behind.addEventListener("toggle", () => this.#openTable());
    this.element = h(
      "div",
      { class: "view chunks" },
      h(
        "div",
        { class: "bar" },
        columnChoice(shown, this.#column),
        h("label", {}, "Colour by", colour),
        this.#legend,
        h("span", { class: "grow" }),
        zoom(-1, "Smaller cells", "−"),
        zoom(0, "All cells in sight", "Fit"),
        zoom(1, "Larger cells", "+"),
      ),
      this.#map.element,
      this.#tip,
      this.#said,
      this.#totals,
      this.#detail,
      this.#health,
      this.#behind,
    );
    const redraw = (): void => this.#map.repaint();
    addEventListener("themechange", redraw, { signal });
    if (shown.source.kind === "url" && this.#column.nchunks > LISTED_UNASKED) this.#offerList();
    else void this.#list();
  }

  get #target(): { readonly archive: string; readonly column: string } {
    return { archive: this.#shown.node.name, column: this.#column.name };
  }

  async #list(): Promise<void> {
    const { engine, signal } = this.#shown;
    try {
      const problem = await engine.chunks(this.#target, {
        signal,
        onProgress: (batch) => {
          this.#data.add(batch);
          this.#drawLegend();
          this.#map.repaint();
          this.#tellTotals(true);
        },
      });
      this.#tellTotals(false);
      if (problem !== undefined) this.#totals.after(h("p", { class: "bad-note" }, problem));
    } catch (error) {
      const text = sentenceOf(error);
      if (text !== undefined) this.#totals.replaceWith(h("p", { class: "bad-note", role: "alert" }, text));
      if (signal.aborted) return;
    }
    this.#listed();
    this.#offerCheck();
  }

  #listed(): void {
    this.element.dataset["listed"] = String(this.#data.count);
    const chosen = this.#shown.now.state.more["chunk"];
    if (chosen !== undefined && Number(chosen) < this.#column.nchunks) void this.#read(Number(chosen));
  }

  /** On another server the headers of many chunks are many requests: they are read when they are asked for. */
  #offerList(): void {
    const button = h(
      "button",
      {
        onclick: () => {
          this.#totals.textContent = "Listing the chunks…";
          void this.#list();
        },
      },
      `List ${formatPlural(this.#column.nchunks, "chunk")}`,
    );
    this.#totals.replaceChildren(
      button,
      " This reads the header of each. A click on a cell reads one chunk.",
    );
    this.#listed();
  }

  #tellTotals(isGoing: boolean): void {
    const { count, stored, decoded, words, codec } = this.#data;
    const codecs = [...new Set(codec.subarray(0, count))]
      .map((i) => words[i] ?? "")
      .filter((name) => name !== "");
    const files = new Set(this.#data.file.subarray(0, count)).size;
    const ratio = formatGain(decoded, stored);
    const parts = [
      `${formatPlural(count, "chunk")} in ${formatPlural(files, "file")}`,
      `${formatBytes(decoded)} in ${formatBytes(stored)}${ratio === "" ? "" : ` (${ratio})`}`,
      codecs.join(", "),
    ];
    this.#totals.textContent =
      count === 0
        ? "No chunk is stored."
        : `${parts.filter((part) => part !== "").join(" · ")}${isGoing ? " so far…" : ""}`;
  }

  #drawLegend(): void {
    const { words, codec, file, count, mostRatio, leastBytes, mostBytes } = this.#data;
    const named = (of: Uint32Array): HTMLElement[] =>
      [...new Set(of.subarray(0, count))]
        .slice(0, 5)
        .map((i) => chip(words[i] ?? "", cssOf(NAMED[i % NAMED.length] ?? [0, 0, 0])));
    const ramp = (low: string, high: string): HTMLElement[] => [
      h("span", {}, low),
      h("span", { class: "ramp", style: `background:${RAMP_CSS}` }),
      h("span", {}, high),
    ];
    const made: Readonly<Record<Colouring, () => HTMLElement[]>> = {
      ratio: () => ramp("1×", formatRatio(mostRatio, 1)),
      size: () => ramp(formatBytes(Math.min(leastBytes, mostBytes)), formatBytes(mostBytes)),
      codec: () => named(codec),
      file: () => named(file),
      health: () => HEALTH.map(([name, css]) => chip(name, css)),
    };
    this.#legend.replaceChildren(...made[this.#map.colouring]());
  }

  #lines(cell: number): string[] {
    const { count, index, offset, nbytes, cbytes, file, codec, words, digests, state } = this.#data;
    if (cell >= count) return [`chunk ${formatCount(cell)}`, this.#rowsOf(cell) ?? "", "not listed"];
    const rows = this.#rowsOf(index[cell] as number);
    const [stored, decoded] = [cbytes[cell] as number, nbytes[cell] as number];
    const digest = digests.get(cell);
    return [
      `chunk ${formatCount(index[cell] as number)}${rows === undefined ? "" : ` · ${rows}`}`,
      `${words[file[cell] as number] ?? ""} at byte ${formatCount(offset[cell] as number)}`,
      ...(stored > 0
        ? [
            `${formatBytes(stored)} for ${formatBytes(decoded)} (${formatGain(decoded, stored)}), ${words[codec[cell] as number] ?? ""}`,
          ]
        : []),
      ...(digest === undefined ? [] : [`digest ${digest}`]),
      STATES[state[cell] as number] ?? "",
    ];
  }

  #rowsOf(index: number): string | undefined {
    const { chunkLength, shape } = this.#column;
    if (chunkLength === undefined) return undefined;
    const first = index * chunkLength;
    const end = Math.min(shape[0] ?? first + 1, first + chunkLength);
    return `rows ${formatCount(first)} to ${formatCount(Math.max(first, end - 1))}`;
  }

  #point(cell: number | undefined, x: number, y: number): void {
    this.#tip.hidden = cell === undefined;
    if (cell === undefined) return;
    const lines = this.#lines(cell);
    this.#tip.replaceChildren(
      h("b", {}, lines[0] ?? ""),
      ...lines.slice(1).map((line) => h("div", {}, line)),
    );
    if (document.activeElement === this.#map.element) this.#said.textContent = lines.join(", ");
    const { offsetWidth, offsetHeight } = this.#tip;
    this.#tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - offsetWidth - 8))}px`;
    this.#tip.style.top = `${y + 18 + offsetHeight > innerHeight ? Math.max(4, y - offsetHeight - 10) : y + 18}px`;
  }

  async #read(cell: number): Promise<void> {
    const { engine, now, signal } = this.#shown;
    const index = cell < this.#data.count ? (this.#data.index[cell] as number) : cell;
    now.keep({ chunk: String(cell) });
    this.#detail.replaceChildren(h("p", { class: "note" }, `Reading chunk ${formatCount(index)}…`));
    try {
      const detail = await engine.chunk({ ...this.#target, index }, { signal });
      if (detail.error !== undefined && cell < this.#data.count) {
        this.#data.state[cell] = STATE.damaged;
        this.#map.repaint();
      }
      this.#detail.replaceChildren(...this.#describe(cell, detail));
    } catch (error) {
      this.#detail.replaceChildren(h("p", { class: "bad-note" }, sentenceOf(error) ?? ""));
    }
  }

  #describe(cell: number, { index, took, rows, blocks, values, error }: ChunkDetail): HTMLElement[] {
    const { node, now } = this.#shown;
    const parts: HTMLElement[] = [
      h("h2", {}, `Chunk ${formatCount(index)}`),
      h("p", { class: "note" }, this.#lines(cell).slice(1).join(" · ")),
    ];
    if (error !== undefined) return [...parts, h("p", { class: "bad-note" }, error)];
    if (blocks.length > 0) parts.push(blockBars(blocks));
    parts.push(h("p", { class: "note" }, `Read and decoded in ${took.toPrecision(2)} ms.`));
    if (values.length > 0) parts.push(h("p", { class: "mono values" }, `${values.join("   ")} …`));
    if (rows !== undefined) {
      const row = node.kind === "bytes" ? Math.floor(rows[0] / 16) : rows[0];
      const state = { ...now.state, column: this.#column.name, view: "values", more: { row: String(row) } };
      parts.push(h("p", {}, h("a", { href: writeState(state) }, "Show its values")));
    }
    return parts;
  }

  #offerCheck(): void {
    const { source } = this.#shown;
    const { nbytes } = this.#column;
    if (source.kind !== "url" && nbytes <= CHECKED_UNASKED) {
      void this.#check();
      return;
    }
    const button = h(
      "button",
      { onclick: () => void this.#check() },
      `Check every chunk (reads ${formatBytes(this.#data.stored)})`,
    );
    this.#health.replaceChildren(h("p", {}, button));
  }

  /** Reads and checks everything, and marks what was seen while it goes on. */
  async #check(): Promise<void> {
    const { background, signal } = this.#shown;
    const line = h("progress", { max: 1, value: 0, "aria-label": "Checked" });
    const text = h("span", {}, "Checking…");
    this.#health.replaceChildren(h("p", { class: "note check" }, line, " ", text));
    let marked = 0;
    let bytes = 0;
    const mark = (until: number): void => {
      const { count, nbytes, state } = this.#data;
      const first = marked;
      for (; marked < count && bytes + (nbytes[marked] as number) <= until; marked++) {
        bytes += nbytes[marked] as number;
        if (state[marked] === STATE.unknown) state[marked] = STATE.whole;
      }
      this.#map.repaintCells(first, marked);
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
    const cells = new Map<number, number>();
    for (let cell = 0; cell < this.#data.count; cell++) cells.set(this.#data.index[cell] as number, cell);
    if (this.#outcome.ok || findings.every(({ chunk }) => chunk !== undefined))
      mark(Number.POSITIVE_INFINITY);
    for (const { severity, chunk } of findings) {
      const cell = chunk === undefined ? undefined : cells.get(chunk);
      if (cell !== undefined && severity === "error") this.#data.state[cell] = STATE.damaged;
    }
    this.#map.repaint();
    this.#health.replaceChildren(...this.#report(this.#outcome));
    this.element.dataset["checked"] = this.#outcome.ok ? "whole" : "damaged";
  }

  #report({ ok, chunks: count, digests, findings, unchecked }: VerifyOutcome): HTMLElement[] {
    const digest = digests === 0 ? "" : `, ${formatPlural(digests, "digest")} compared`;
    const parts: HTMLElement[] = [];
    if (ok)
      parts.push(
        h(
          "p",
          { class: "good-note" },
          `All ${formatPlural(count, "chunk")} are whole: headers, sizes and payloads were checked${digest}.`,
        ),
      );
    else
      parts.push(
        h(
          "p",
          { class: "bad-note", role: "alert" },
          `${formatPlural(findings.filter(({ severity }) => severity === "error").length, "error")} found.`,
        ),
      );
    if (unchecked !== undefined) parts.push(h("p", { class: "note" }, `Not checked: ${unchecked}`));
    if (findings.length > 0)
      parts.push(
        h("ul", { class: "findings" }, ...findings.slice(0, 200).map((finding) => this.#finding(finding))),
      );
    if (!ok)
      parts.push(
        h(
          "p",
          { class: "note" },
          "What is whole can be saved. This writes a repaired copy, with the default value in place of what is gone:",
        ),
        snippet(`superchunk repair ${commandPath(this.#shown)} repaired --holes fill`),
      );
    return parts;
  }

  /** What is wrong, with the way to where it is. */
  #finding({ severity, code, message, chunk }: VerifyOutcome["findings"][number]): HTMLElement {
    const cell = chunk === undefined ? -1 : this.#data.index.subarray(0, this.#data.count).indexOf(chunk);
    const where =
      cell < 0
        ? undefined
        : h(
            "button",
            { class: "link", onclick: () => this.#map.focusOn(cell) },
            `chunk ${formatCount(chunk ?? 0)}`,
          );
    return h(
      "li",
      { class: severity === "error" ? "bad" : "warn" },
      h("b", {}, code),
      " ",
      where,
      where === undefined ? "" : ": ",
      message,
    );
  }

  #openTable(): void {
    if (!(this.#behind as HTMLDetailsElement).open || this.#behind.querySelector(".virtual") !== null) return;
    const data = this.#data;
    const columns = ["rows", "file", "offset", "stored", "values", "ratio", "codec", "digest", "state"];
    const table = new VirtualTable(
      {
        label: "Chunks",
        rows: data.count,
        columns: columns.map((title) => ({
          title,
          isNumeric: ["offset", "stored", "values", "ratio"].includes(title),
        })),
        rowLabel: (row) => String(data.index[row]),
        fetch: async (first, end) => {
          const cells = Array.from({ length: end - first }, (_, i) => first + i);
          return [
            cells.map((cell) => this.#rowsOf(data.index[cell] as number)?.replace("rows ", "") ?? ""),
            cells.map((cell) => data.words[data.file[cell] as number] ?? ""),
            cells.map((cell) => String(data.offset[cell])),
            cells.map((cell) => String(data.cbytes[cell])),
            cells.map((cell) => String(data.nbytes[cell])),
            cells.map((cell) => formatRatio(data.nbytes[cell] as number, data.cbytes[cell] as number)),
            cells.map((cell) => data.words[data.codec[cell] as number] ?? ""),
            cells.map((cell) => data.digests.get(cell) ?? ""),
            cells.map((cell) => STATES[data.state[cell] as number] ?? ""),
          ];
        },
        onChoose: (row) => void this.#read(row),
      },
      0,
      this.#shown.signal,
    );
    this.#behind.append(table.element);
  }
}

function chip(name: string, css: string): HTMLElement {
  return h("span", { class: "chip" }, h("i", { style: `background:${css}` }), name);
}

/** How well each block of a chunk is compressed. */
function blockBars(blocks: ChunkDetail["blocks"]): HTMLElement {
  const most = Math.max(...blocks.map(({ cbytes, nbytes }) => Math.max(cbytes, nbytes)));
  const bars = blocks.slice(0, 512).map(({ cbytes, nbytes }, i) =>
    h("i", {
      title: `block ${i}: ${formatBytes(cbytes)} for ${formatBytes(nbytes)} (${formatGain(nbytes, cbytes)})`,
      style: `height:${Math.max(2, Math.round((40 * cbytes) / most))}px`,
    }),
  );
  return h(
    "div",
    { class: "blocks", role: "img", "aria-label": `${formatPlural(blocks.length, "block")}, stored sizes` },
    ...bars,
    h("span", { class: "note" }, formatPlural(blocks.length, "block")),
  );
}
