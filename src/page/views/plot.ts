/** The view of numbers as lines: columns against rows or time, with the least and greatest value of each run of rows; or as candles. */
import UPlot from "uplot";
import { nameColour } from "../colours.ts";
import { h, saveBlob, select } from "../dom.ts";
import type { ColumnFacts, PlotData } from "../engine/protocol.ts";
import { dateText, formatCount, formatNumber } from "../text.ts";
import { drawCandles, TIME_LABELS, ticks, timeTicks } from "./plot-parts.ts";
import { statistics } from "./statistics.ts";
import { canPlot, leftOut, type Shown, sentenceOf } from "./view.ts";

/** Columns that make a candle together. */
const CANDLE = ["open", "high", "low", "close"];
/** What a candle takes of each. */
const PARTS = ["first", "max", "min", "last"] as const;
/** Stands for row numbers in place of a column to plot against. */
const ROWS = "#";
export function view(shown: Shown): HTMLElement {
  return new PlotView(shown).element;
}

class PlotView {
  readonly element: HTMLElement;
  readonly #shown: Shown;
  readonly #columns: readonly ColumnFacts[];
  readonly #place: HTMLElement = h("div", { class: "plot", role: "img", "aria-label": "Plot" });
  readonly #note: HTMLElement = h("p", { class: "note", role: "status" });
  readonly #facts: HTMLElement = h("div");
  readonly #rows: number;
  readonly #assets: ReturnType<typeof assetChoice>;
  /** The rows to show if the address names none: of many assets, those of the first. */
  readonly #usual: readonly [first: number, end: number];
  #chosen: string[];
  #x: string;
  #isCandles: boolean;
  #range: readonly [first: number, end: number];
  #reading = new AbortController();
  #chart: UPlot | undefined;
  #data: PlotData | undefined;
  /** The rows of the data, which are others than the chosen ones until these are read. */
  #drawn: readonly [first: number, end: number] = [0, 0];

  constructor(shown: Shown) {
    this.#shown = shown;
    const { node, column, now, signal } = shown;
    const { more } = now.state;
    const one = column !== undefined && canPlot(column) ? column : undefined;
    this.#columns = node.columns.filter(canPlot);
    const names = this.#columns.map(({ name }) => name);
    this.#rows = Math.min(...this.#columns.map(({ shape }) => shape.at(0) ?? 0));
    const hasCandles = one === undefined && CANDLE.every((name) => names.includes(name));
    this.#isCandles = hasCandles && more["style"] !== "lines" && !more["columns"];
    const kept = more["columns"]?.split(",").filter((name) => names.includes(name)) ?? [];
    const usual = names.find((name) => !isAxis(this.#columns, name)) ?? names.at(0) ?? "";
    this.#chosen = kept.length > 0 ? kept : [one?.name ?? (hasCandles ? "close" : usual)];
    this.#x =
      more["x"] ?? names.find((name) => isAxis(this.#columns, name) && !this.#chosen.includes(name)) ?? ROWS;
    this.#assets = assetChoice(node, this.#rows, (first, end) => this.#show(first, end));
    this.#usual = this.#assets?.usual ?? [0, this.#rows];
    const [from, to] = [Number(more["first"] ?? Number.NaN), Number(more["end"] ?? Number.NaN)];
    this.#range = from >= 0 && to > from && to <= this.#rows ? [from, to] : this.#usual;
    this.#assets?.mark(...this.#range);
    this.element = h(
      "div",
      { class: "view plot-view" },
      this.#bar(names, hasCandles),
      this.#place,
      this.#note,
      this.#facts,
    );
    const watcher = new ResizeObserver(() => this.#resize());
    watcher.observe(this.#place);
    signal.addEventListener("abort", () => {
      watcher.disconnect();
      this.#reading.abort(signal.reason);
      this.#chart?.destroy();
    });
    addEventListener("themechange", () => this.#draw(true), { signal });
    // The width is only known once the element is in the document.
    queueMicrotask(() => void this.#read());
    const counted = this.#columns.find(({ name }) => name === this.#chosen[0]);
    if (counted !== undefined) this.#facts.append(statistics(shown, [counted]));
  }

  #bar(names: readonly string[], hasCandles: boolean): HTMLElement {
    const { node, now } = this.#shown;
    const assets = this.#assets?.select;
    const axes = names.map((name) => [name, name === "" ? "values" : name] as const);
    const against = select([[ROWS, "rows"], ...axes], this.#x, (x) => {
      this.#x = x;
      now.keep({ x });
      void this.#read();
    });
    const box = (onchange: () => void): HTMLInputElement => h("input", { type: "checkbox", onchange });
    const boxes: HTMLInputElement[] = names.map(() =>
      box(() => {
        this.#chosen = names.filter((_, i) => boxes[i]?.checked);
        choose(false, { columns: this.#chosen.join(",") });
      }),
    );
    const candles = box(() =>
      choose(candles.checked, candles.checked ? { style: "", columns: "" } : { style: "lines" }),
    );
    const choose = (isCandles: boolean, more?: Readonly<Record<string, string>>): void => {
      this.#isCandles = isCandles;
      candles.checked = isCandles;
      for (const [i, each] of boxes.entries())
        each.checked = !isCandles && this.#chosen.includes(names[i] ?? "");
      if (more === undefined) return;
      now.keep(more);
      void this.#read();
    };
    choose(this.#isCandles);
    const move = (label: string, text: string, work: () => void): HTMLElement =>
      h("button", { "aria-label": label, title: label, onclick: work }, text);
    return h(
      "div",
      { class: "bar" },
      ...(node.columns.length > 1 ? [h("label", {}, "Against", against)] : []),
      assets !== undefined && h("label", {}, "Asset", assets),
      hasCandles && h("label", {}, candles, "candles"),
      names.length > 1 &&
        h(
          "fieldset",
          {},
          h("legend", { class: "hidden" }, "Columns"),
          ...boxes.map((each, i) => h("label", {}, each, names[i])),
        ),
      h("span", { class: "grow" }),
      h(
        "span",
        { class: "group" },
        move("Earlier rows", "←", () => this.#pan(-0.5)),
        move("Later rows", "→", () => this.#pan(0.5)),
        move("Fewer rows", "+", () => this.#zoom(0.5)),
        move("More rows", "−", () => this.#zoom(2)),
        h("button", { onclick: () => this.#show(0, this.#rows) }, "All"),
        h("button", { onclick: () => this.#savePng() }, "PNG"),
        h("button", { onclick: () => this.#saveSvg() }, "SVG"),
      ),
    );
  }

  #pan(share: number): void {
    const [first, end] = this.#range;
    const by = Math.max(-first, Math.min(this.#rows - end, Math.round((end - first) * share)));
    this.#show(first + by, end + by);
  }

  #zoom(factor: number): void {
    const [first, end] = this.#range;
    const [middle, half] = [(first + end) / 2, Math.max(2, ((end - first) * factor) / 2)];
    this.#show(middle - half, middle + half);
  }

  #show(from: number, to: number): void {
    const first = Math.max(0, Math.min(this.#rows - 1, Math.floor(from)));
    const end = Math.max(first + 1, Math.min(this.#rows, Math.ceil(to)));
    if (first === this.#range[0] && end === this.#range[1]) return;
    this.#range = [first, end];
    this.#assets?.mark(first, end);
    const isUsual = first === this.#usual[0] && end === this.#usual[1];
    this.#shown.now.keep({ first: isUsual ? "" : String(first), end: isUsual ? "" : String(end) });
    void this.#read();
  }

  async #read(): Promise<void> {
    this.#reading.abort();
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    const { background, node } = this.#shown;
    const columns = this.#isCandles ? CANDLE : this.#chosen;
    if (columns.length === 0) {
      this.#chart?.destroy();
      this.#chart = this.#data = undefined;
      this.#note.textContent = "Choose a column.";
      return;
    }
    const [first, end] = this.#range;
    const room = Math.max(200, this.#place.clientWidth || 800);
    const buckets = this.#isCandles ? Math.max(40, Math.floor(room / 3.5)) : Math.min(1600, Math.floor(room));
    const take = (data: PlotData): void => {
      if (signal.aborted) return;
      this.#data = data;
      this.#drawn = [first, end];
      this.#draw(false);
      this.#tell(data);
    };
    this.#note.textContent = "Reading…";
    const x = this.#x === ROWS || columns.includes(this.#x) ? undefined : this.#x;
    try {
      take(
        await background.plot(
          { archive: node.name, columns, x, first, end, buckets },
          { signal, onProgress: take },
        ),
      );
      this.element.dataset["plotted"] = `${first}-${end}`;
    } catch (error) {
      if (!signal.aborted) this.#note.replaceChildren(h("span", { class: "bad" }, sentenceOf(error) ?? ""));
    }
  }

  #tell({ isExact, every, done, total, xNote, lost, series }: PlotData): void {
    const [first, end] = this.#range;
    const rows = `Rows ${formatCount(first)} to ${formatCount(end - 1)}`;
    const per = this.#isCandles ? "candle" : "point";
    this.#note.textContent = [
      rows,
      isExact
        ? `each row is a ${per}`
        : `each ${per} covers about ${formatCount(Math.max(2, Math.round((end - first) / Math.max(1, this.#data?.x.length ?? 1))))} rows${this.#isCandles ? "" : ", from their least to their greatest value"}`,
      every > 1 ? `one in ${every} parts was read; show fewer rows for all of them` : "",
      xNote ?? "",
      done < total ? `${Math.round((100 * done) / total)} % read` : "",
      done === total && series.every(({ max }) => max.every(Number.isNaN)) ? "no value is finite" : "",
      "drag over a part to enlarge it",
    ]
      .filter((part) => part !== "")
      .join(" · ");
    if (lost !== undefined) this.#note.append(leftOut(lost));
  }

  #draw(isNewLook: boolean): void {
    const data = this.#data;
    if (data === undefined) return;
    const known = this.#chart;
    const lines = linesOf(data, this.#isCandles);
    const look = `${data.xKind} ${data.isExact} ${this.#isCandles} ${data.series.map(({ name }) => name).join(" ")}`;
    if (known !== undefined && !isNewLook && this.#place.dataset["look"] === look) {
      known.setData(lines, true);
      return;
    }
    known?.destroy();
    this.#place.dataset["look"] = look;
    this.#place.setAttribute(
      "aria-label",
      `Plot of ${data.series.map(({ name }) => name || "values").join(", ")}`,
    );
    this.#chart = new UPlot(this.#options(data), lines, this.#place);
  }

  #options(data: PlotData): UPlot.Options {
    const style = getComputedStyle(document.documentElement);
    const [soft, line, good, bad] = ["--soft", "--line", "--good", "--bad"].map((name) =>
      style.getPropertyValue(name),
    );
    const grid = { stroke: line ?? "", width: 1 };
    const axis = { stroke: soft ?? "", grid, ticks: grid };
    const areDates = this.#areDates(data);
    // Enough digits to tell the values in sight apart, however close they are.
    let digits = 6;
    const text = areDates ? dateText : (value: number): string => formatNumber(value, digits);
    const shownAs =
      (write: (value: number) => string) =>
      (_: UPlot, value: number | null): string =>
        value === null ? "–" : write(value);
    const isPair = !data.isExact && !this.#isCandles;
    const series: UPlot.Series[] = data.series.flatMap(({ name }, i): UPlot.Series[] => {
      const stroke = nameColour(i);
      const label = name === "" ? "value" : name;
      if (this.#isCandles)
        return [{ label, stroke: "transparent", points: { show: false }, value: shownAs(text) }];
      const one = {
        stroke,
        width: 1.25,
        points: { show: data.isExact && data.x.length < 120 },
        value: shownAs(text),
      };
      return isPair
        ? [
            { ...one, label: `${label} min` },
            { ...one, label: `${label} max` },
          ]
        : [{ ...one, label }];
    });
    const bands = isPair
      ? data.series.map(
          (_, i): UPlot.Band => ({
            series: [2 * i + 2, 2 * i + 1],
            fill: nameColour(i).replace(")", " / 0.35)"),
          }),
        )
      : [];
    return {
      width: Math.max(200, this.#place.clientWidth),
      height: heightOf(this.#place),
      scales: {
        x: {
          time: data.xKind === "time",
          range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]),
        },
        y: {
          range: (_, low, high) => {
            if (low === null || high === null) return [0, 1];
            const [span, most] = [high - low, Math.max(Math.abs(low), Math.abs(high))];
            if (span > 0) digits = Math.min(17, Math.max(6, Math.ceil(Math.log10(most / span)) + 4));
            const margin = 0.06 * (span || most || 1);
            return [low - margin, high + margin];
          },
        },
      },
      axes: [
        data.xKind === "time"
          ? { ...axis, values: TIME_LABELS }
          : {
              ...axis,
              space: 120, // pixels: labels of large numbers would touch
              values: (_, ticks) => ticks.map((tick) => formatNumber(tick)),
            },
        {
          ...axis,
          // uPlot's own steps fail for values that differ very much, or hardly at all. It takes any step of five or more.
          incrs: (_, _axis, low, high) => [Math.max(5, high - low)],
          splits: (chart, _, low, high) => {
            const wanted = Math.max(2, Math.floor(chart.height / 36));
            return (areDates ? timeTicks : ticks)(low, high, wanted);
          },
          // As wide as the longest label, at about seven pixels a character.
          size: (_, labels) =>
            Math.max(76, 24 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length))),
          // The date alone is enough if labels are days apart.
          values: (_, ticks) =>
            ticks.map((tick, i) =>
              text(tick).slice(
                0,
                areDates && Math.abs(tick - (ticks[i ? 0 : 1] ?? tick)) > 86_400 ? 10 : undefined,
              ),
            ),
        },
      ],
      series: [
        {
          label: data.xKind === "rows" ? "row" : this.#x,
          value: shownAs(data.xKind === "time" ? dateText : (value) => formatNumber(value)),
        },
        ...series,
      ],
      bands,
      tzDate: (seconds) => UPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      cursor: { drag: { x: true, y: false, setScale: false } },
      hooks: {
        setSelect: [(chart) => this.#selected(chart)],
        ...(this.#isCandles ? { draw: [(chart: UPlot) => drawCandles(chart, good ?? "", bad ?? "")] } : {}),
      },
    };
  }

  #selected(chart: UPlot): void {
    const { left, width } = chart.select;
    if (width < 4) return;
    const [first, end] = this.#drawn;
    const step = (end - first) / Math.max(1, chart.data[0].length);
    const [from, to] = [chart.posToIdx(left), chart.posToIdx(left + width)];
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#show(first + from * step, first + (to + 1) * step);
  }

  #resize(): void {
    const { clientWidth } = this.#place;
    if (clientWidth > 0) this.#chart?.setSize({ width: clientWidth, height: heightOf(this.#place) });
  }

  #fileName(extension: string): string {
    const { node } = this.#shown;
    return `${node.name.replaceAll(/[^\w.-]+/g, "_")}-${this.#chosen.join("-") || "plot"}.${extension}`;
  }

  #savePng(): void {
    const canvas = this.#place.querySelector("canvas");
    if (canvas === null) return;
    const out = h("canvas", { width: canvas.width, height: canvas.height });
    const context = out.getContext("2d");
    if (context === null) return;
    context.fillStyle = getComputedStyle(document.body).backgroundColor;
    context.fillRect(0, 0, out.width, out.height);
    context.drawImage(canvas, 0, 0);
    out.toBlob((blob) => blob !== null && saveBlob(blob, this.#fileName("png")));
  }

  async #saveSvg(): Promise<void> {
    const data = this.#data;
    if (data === undefined) return;
    const { svgOf } = await import("./plot-drawing.ts");
    const labels = { x: data.xKind === "rows" ? "row" : this.#x, areDates: this.#areDates(data) };
    const svg = svgOf(data, this.#isCandles, labels);
    saveBlob(new Blob([svg], { type: "image/svg+xml" }), this.#fileName("svg"));
  }

  #areDates({ series }: PlotData): boolean {
    return series.every(
      ({ name }) => this.#columns.find((column) => column.name === name)?.dtype.kind === "datetime",
    );
  }
}

/** Height of a chart in pixels, leaving room for the legend. */
function heightOf({ clientHeight }: HTMLElement): number {
  return Math.max(220, Math.min(460, clientHeight - 36));
}

/** True for columns that others are plotted against. */
function isAxis(columns: readonly ColumnFacts[], name: string): boolean {
  return (
    columns.find((column) => column.name === name)?.dtype.kind === "datetime" ||
    /^(?:day|date|time|timestamp|ts|datetime|index)$/i.test(name)
  );
}

/** The data for uPlot: the axis, and one or two lines for each column. */
function linesOf({ x, series, isExact }: PlotData, isCandles: boolean): UPlot.AlignedData {
  const gaps = (values: Float64Array): (number | null)[] =>
    Array.from(values, (value) => (Number.isNaN(value) ? null : value));
  const lines = series.flatMap((each, i) => {
    if (isCandles) return [gaps(each[PARTS[i] ?? "last"])];
    return isExact ? [gaps(each.first)] : [gaps(each.min), gaps(each.max)];
  });
  return [Array.from(x), ...lines];
}

/** The members of an object; none of what is not one. */
function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" ? { ...value } : {};
}

/** A selection among the assets of daily bars, which are stored one after the other, if the attributes say where each begins. */
function assetChoice({ attrs }: Shown["node"], rows: number, show: (first: number, end: number) => void) {
  const [firsts, lasts] = [membersOf(attrs["first_row"]), membersOf(attrs["last_row"])];
  const assets = Object.entries(firsts)
    .map(([id, first]) => ({ id, first: Number(first), end: Number(lasts[id]) + 1 }))
    .filter(({ first, end }) => first >= 0 && end > first && end <= rows)
    .slice(0, 20_000);
  const [usual] = assets;
  if (usual === undefined || assets.length < 2) return undefined;
  const choices = [...assets, { id: "all", first: 0, end: rows }];
  const options = choices.map(({ id }, i) => h("option", { value: i }, id));
  const select = h(
    "select",
    {
      onchange: () => {
        const { first, end } = choices[Number(select.value)] ?? usual;
        show(first, end);
      },
    },
    h("option", { value: "", hidden: true }, "other rows"),
    ...options,
  );
  return {
    select,
    usual: [usual.first, usual.end] as const,
    /** Shows which asset's rows are displayed. */
    mark(first: number, end: number): void {
      const at = choices.findIndex((each) => each.first === first && each.end === end);
      select.value = at < 0 ? "" : String(at);
    },
  };
}
