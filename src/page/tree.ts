/** The tree of archives, arrays and columns: searched by name, opened when it becomes visible. */
import { formatBytes } from "../bytes/arrays.ts";
import { byId, h, onceAFrame } from "./dom.ts";
import type { Engine, Entry, NodeFacts } from "./engine/protocol.ts";
import { type Now, writeState } from "./state.ts";
import { byName, formatCount, formatPlural, formatShape } from "./text.ts";
import { isTable } from "./views/view.ts";

/** Entries in the document at first, and added with each "more". */
const SHOWN = 300;

/** Entries that a search opens, because columns are known only of what is open. */
const SEARCHED = 1000;

/** An entry and its known facts. */
interface Item {
  readonly entry: Entry;
  facts?: NodeFacts | undefined;
  error?: string | undefined;
}

export class Tree {
  readonly #engine: Engine;
  /** Opens visible entries, so that the chosen one does not wait for them. */
  readonly #aside: Engine;
  readonly #now: Now;
  readonly #list: HTMLElement = byId("tree");
  readonly #count: HTMLElement = byId("count");
  readonly #search: HTMLInputElement = byId("search");
  readonly #draw: () => void = onceAFrame(() => this.#drawNow());
  readonly #watcher: IntersectionObserver;
  readonly #waiting = new Set<Item>();
  /** Aborted once another source is listed. */
  #signal: AbortSignal | undefined;
  #mayOpen = false;
  #isOpening = false;
  #items: Item[] = [];
  #shown: number = SHOWN;
  #isListing = false;
  /** The chosen archive that was scrolled to. */
  #seen = "";

  constructor(engine: Engine, aside: Engine, now: Now) {
    this.#engine = engine;
    this.#aside = aside;
    this.#now = now;
    this.#watcher = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        const item = this.#items.find(({ entry }) => entry.name === (target as HTMLElement).dataset["name"]);
        if (item === undefined) continue;
        if (isIntersecting) this.#waiting.add(item);
        else this.#waiting.delete(item);
      }
      void this.#openWaiting();
    });
    this.#search.addEventListener("input", () => {
      this.#shown = SHOWN;
      this.#draw();
    });
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    now.onChange(() => this.#draw());
  }

  begin(signal: AbortSignal): void {
    this.#signal = signal;
    this.#items = [];
    this.#waiting.clear();
    this.#mayOpen = false;
    this.#isListing = true;
    this.#draw();
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#items.push({ entry, error: entry.error });
    this.#draw();
  }

  /** Ends the list: shows it in order. */
  end(): void {
    this.#isListing = false;
    this.#items.sort((a, b) => byName(a.entry.name, b.entry.name));
    this.#draw();
  }

  get names(): readonly string[] {
    return this.#items.map(({ entry }) => entry.name);
  }

  /** The facts of an archive, which is opened if necessary. */
  async factsOf(name: string, signal: AbortSignal): Promise<NodeFacts> {
    const item = this.#items.find(({ entry }) => entry.name === name);
    if (item?.facts !== undefined) return item.facts;
    let facts = await this.#engine.open(name, { signal });
    if (item !== undefined) {
      // What opens could only not be listed.
      const { error } = item.entry;
      if (error !== undefined) facts = { ...facts, warnings: [...facts.warnings, error] };
      item.facts = facts;
      item.error = undefined;
    }
    this.#draw();
    void this.#openWaiting();
    return facts;
  }

  /** Called when the chosen archive is shown: the others may then be opened. */
  rest(): void {
    this.#mayOpen = true;
    void this.#openWaiting();
  }

  /** One after the other. */
  async #openWaiting(): Promise<void> {
    if (this.#isOpening || !this.#mayOpen) return;
    this.#isOpening = true;
    for (const item of this.#waiting) {
      if (!this.#isClosed(item)) continue;
      try {
        item.facts = await this.#aside.open(item.entry.name, { signal: this.#signal });
      } catch (error) {
        item.error = error instanceof Error ? error.message : String(error);
      }
      this.#draw();
    }
    this.#isOpening = false;
  }

  /** True for what was not opened yet. Zarr, HDF5 and Blosc2 stay closed until one is chosen, because reading them loads more code. */
  #isClosed({ entry, facts, error }: Item): boolean {
    if (facts !== undefined || error !== undefined) return false;
    return (
      entry.kind === undefined || this.#items.some((item) => item.entry.kind && item.facts !== undefined)
    );
  }

  /** Arrays that are shown as columns of their group are not listed again. */
  #isColumn(name: string, tables: readonly string[]): boolean {
    return tables.some((table) => name.startsWith(`${table}/`) || (table === "/" && name !== "/"));
  }

  #drawNow(): void {
    const words = this.#search.value.trim().toLowerCase().split(/\s+/);
    const has = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word));
    const tables = this.#items.flatMap(({ entry, facts }) =>
      entry.kind === "group" && facts?.kind === "table" ? [entry.name] : [],
    );
    const found = this.#items
      .filter(
        ({ entry: { kind, name } }) =>
          kind !== "array" || name === this.#now.state.archive || !this.#isColumn(name, tables),
      )
      .flatMap((item) => {
        const columns = item.facts?.columns.filter(({ name }) => name !== "") ?? [];
        const fitting = columns.filter(({ name }) => has(`${item.entry.name}/${name}`));
        return fitting.length > 0 || has(item.entry.name) ? [{ item, columns: fitting }] : [];
      });
    const all = this.#items.length;
    // Files of HDF5 and Zarr groups are listed with what is in them.
    const kind = this.#items.some(({ entry }) => entry.kind !== undefined) ? "item" : "archive";
    const isSearched = words[0] !== "";
    const closed = isSearched ? this.#items.slice(0, SEARCHED).filter((item) => this.#isClosed(item)) : [];
    const count = `${formatPlural(found.length, kind)}${isSearched ? ` of ${formatCount(all)}` : ""}`;
    this.#count.textContent = `${count}${this.#isListing || closed.length > 0 ? " so far…" : ""}`;
    this.#watcher.disconnect();
    // Those in sight are added again.
    this.#waiting.clear();
    for (const item of closed) this.#waiting.add(item);
    void this.#openWaiting();
    const scrolled = this.#list.scrollTop;
    const focused = document.activeElement;
    const place = [...this.#list.children].findIndex((item) => item.contains(focused));
    const href = CSS.escape(focused?.getAttribute("href") ?? "");
    const rows = found.slice(0, this.#shown).map(({ item, columns }) => this.#row(item, columns, isSearched));
    const showMore = (): void => {
      this.#shown += SHOWN;
      this.#draw();
    };
    const more = h("button", { onclick: showMore }, `Show more of ${found.length}`);
    this.#list.replaceChildren(...rows, ...(found.length > this.#shown ? [h("li", {}, more)] : []));
    this.#list.scrollTop = scrolled;
    const { archive } = this.#now.state;
    if (archive !== this.#seen && !this.#isListing) {
      const chosen = this.#list.querySelector('[aria-current="true"]');
      chosen?.scrollIntoView({ block: "nearest" });
      if (chosen !== null) this.#seen = archive;
    }
    // More archives begin where their button was.
    const again =
      this.#list.querySelector<HTMLElement>(`[href="${href}"]`) ??
      this.#list.children[place]?.querySelector("a");
    if (place >= 0) again?.focus({ preventScroll: true });
  }

  #row(item: Item, columns: NodeFacts["columns"], isSearched: boolean): HTMLElement {
    const { entry, facts, error } = item;
    const { archive, column, view } = this.#now.state;
    const isChosen = archive === entry.name;
    const link = (of: string, label: string, what: string, title: string, isBad = false): HTMLElement =>
      h(
        "a",
        {
          href: writeState({ archive: entry.name, column: of, view: of === "" ? "" : view, more: {} }),
          title,
          "data-name": of === "" ? entry.name : undefined,
          "aria-current": isChosen && column === of ? "true" : undefined,
        },
        nameOf(label),
        what !== "" && h("span", { class: isBad ? "what bad" : "what" }, what),
      );
    const what =
      error !== undefined ? "cannot be read" : facts === undefined ? (entry.kind ?? "") : describeNode(facts);
    const head = link("", entry.name, what, error ?? facts?.place ?? entry.name, error !== undefined);
    this.#watcher.observe(head);
    const isOpen = isChosen || this.#items.length === 1 || isSearched;
    const below =
      isOpen && columns.length > 0
        ? h(
            "ul",
            {},
            ...columns.map(({ name, typeName, shape }) => {
              const more = shape.length > 1 ? ` ${formatShape(shape.slice(1))}` : "";
              return h("li", {}, link(name, name, `${typeName}${more}`, `${name}: ${typeName}`));
            }),
          )
        : undefined;
    return h("li", {}, head, below);
  }

  /** The arrow keys move from link to link. */
  #move(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0) return;
    const links = [...this.#list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    links[at + step]?.focus();
    event.preventDefault();
  }
}

/** A name whose folders are shortened first if space is short. */
function nameOf(path: string): HTMLElement {
  const at = path.lastIndexOf("/", path.length - 2) + 1;
  return h(
    "span",
    { class: "name" },
    at > 0 && h("span", { class: "of" }, path.slice(0, at)),
    h("span", {}, path.slice(at)),
  );
}

function describeNode(node: NodeFacts): string {
  const { kind, columns, nbytes, length } = node;
  const [only] = columns;
  if (kind === "group") return "group";
  if (kind === "bytes") return formatBytes(nbytes);
  if (isTable(node) || only === undefined) return formatPlural(length, "row");
  const { dtype, typeName, shape } = only;
  return `${dtype.kind === "struct" ? "struct" : typeName} ${formatShape(shape)}`;
}
