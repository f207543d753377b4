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
  readonly #shownAs = new WeakMap<Element, Item>();
  /** When the list may be drawn again for what became known: a million archives take long. */
  #due = 0;
  readonly #drawIfDue = (): unknown => performance.now() > this.#due && this.#draw();
  /** Aborted once another source is listed. */
  #signal: AbortSignal | undefined;
  #mayOpen = false;
  /** True once one that needs more code was opened. */
  #mayLoad = false;
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
        const item = this.#shownAs.get(target);
        if (item !== undefined) this.#waiting[isIntersecting ? "add" : "delete"](item);
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
    this.#mayOpen = this.#mayLoad = false;
    this.#isListing = true;
    this.#draw();
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#items.push({ entry, error: entry.error });
    this.#drawIfDue();
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
      this.#mayLoad ||= item.entry.kind !== undefined;
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
    let isNews = false;
    for (const item of this.#waiting) {
      if (!this.#isClosed(item)) continue;
      try {
        item.facts = await this.#aside.open(item.entry.name, { signal: this.#signal });
      } catch (error) {
        item.error = error instanceof Error ? error.message : String(error);
      }
      isNews = true;
      this.#drawIfDue();
    }
    this.#isOpening = false;
    if (isNews) this.#draw();
  }

  /** True for what was not opened yet. Zarr, HDF5 and Blosc2 stay closed until one is chosen, because reading them loads more code. */
  #isClosed({ entry, facts, error }: Item): boolean {
    return facts === undefined && error === undefined && (entry.kind === undefined || this.#mayLoad);
  }

  #drawNow(): void {
    const began = performance.now();
    const words = this.#search.value.toLowerCase().match(/\S+/g) ?? [];
    const isSearched = words.length > 0;
    const has = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word));
    const fitting = ({ entry, facts }: Item): NodeFacts["columns"] =>
      facts?.columns.filter(({ name }) => name !== "" && has(`${entry.name}/${name}`)) ?? [];
    const tables = this.#items
      .filter(({ entry, facts }) => entry.kind === "group" && facts?.kind === "table")
      .map(({ entry }) => entry.name);
    const { archive } = this.#now.state;
    // Arrays that are shown as columns of their group are not listed again.
    const isColumn = ({ kind, name }: Entry): boolean =>
      kind === "array" &&
      name !== archive &&
      tables.some((table) => name.startsWith(table === "/" ? "" : `${table}/`));
    const found = this.#items.filter(
      (item) => !isColumn(item.entry) && (has(item.entry.name) || fitting(item).length > 0),
    );
    const all = this.#items.length;
    // Files of HDF5 and Zarr groups are listed with what is in them.
    const kind = this.#items.some(({ entry }) => entry.kind !== undefined) ? "item" : "archive";
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
    const rows = found.slice(0, this.#shown).map((item) => this.#row(item, fitting(item), isSearched));
    const showMore = (): void => {
      this.#shown += SHOWN;
      this.#draw();
    };
    const more = h("button", { onclick: showMore }, `Show more of ${found.length}`);
    this.#list.replaceChildren(...rows, ...(found.length > this.#shown ? [h("li", {}, more)] : []));
    this.#list.scrollTop = scrolled;
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
    this.#due = began + 10 * (performance.now() - began);
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
          "aria-current": isChosen && column === of ? "true" : undefined,
        },
        nameOf(label),
        what !== "" && h("span", { class: isBad ? "what bad" : "what" }, what),
      );
    const what =
      error !== undefined ? "cannot be read" : facts === undefined ? (entry.kind ?? "") : describeNode(facts);
    const head = link("", entry.name, what, error ?? facts?.place ?? entry.name, error !== undefined);
    this.#shownAs.set(head, item);
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
