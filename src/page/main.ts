/** The page: finds the source of archives, and shows the archive in its address. */
import { formatBytes } from "../bytes/arrays.ts";
import { callerOf } from "./calls.ts";
import { byId, chosenFiles, droppedFiles, fact, h } from "./dom.ts";
import type { ColumnFacts, Engine, NodeFacts, Source } from "./engine/protocol.ts";
import { Now, type State } from "./state.ts";
import { formatGain, formatPlural, formatShape } from "./text.ts";
import { Tree } from "./tree.ts";
import { canPicture, canPlot, commandPath, isTable, sentenceOf, type View } from "./views/view.ts";

const hasColumns = ({ columns }: NodeFacts): boolean => columns.length > 0;

/** The views, and what each can show. */
const VIEWS: readonly {
  readonly id: string;
  readonly label: string;
  readonly view: View;
  readonly fits: (node: NodeFacts, column: ColumnFacts | undefined) => boolean;
}[] = [
  { id: "overview", label: "Overview", view: later(() => import("./views/overview.ts")), fits: () => true },
  { id: "chunks", label: "Chunks", view: later(() => import("./views/chunks.ts")), fits: hasColumns },
  { id: "values", label: "Values", view: later(() => import("./views/values.ts")), fits: hasColumns },
  {
    id: "plot",
    label: "Plot",
    view: later(() => import("./views/plot.ts")),
    fits: ({ columns }, column) => (column === undefined ? columns.some(canPlot) : canPlot(column)),
  },
  {
    id: "picture",
    label: "Picture",
    view: later(() => import("./views/picture.ts")),
    fits: (_, column) => column !== undefined && canPicture(column),
  },
];

/** A view whose script is loaded when it is shown. */
function later(load: () => Promise<{ readonly view: View }>): View {
  return (shown) => {
    const place = h("div", { class: "view" });
    load().then(
      ({ view }) => !shown.signal.aborted && place.replaceChildren(view(shown)),
      (error: unknown) => place.replaceChildren(h("p", { class: "bad-note" }, sentenceOf(error) ?? "")),
    );
    return place;
  };
}

class Page {
  readonly #now = new Now();
  readonly #engine: Engine = startWorker();
  /** The second worker, if it was needed; and its list of the archives of the source, which its calls wait for. */
  #second: Engine | undefined;
  #listed: Promise<unknown> | undefined;
  readonly #background = new Proxy({} as Engine, {
    get:
      (_, method: keyof Engine) =>
      async (...args: never[]) => {
        this.#second ??= startWorker();
        const worker = this.#second;
        this.#listed ??= worker.list(this.#source as Source, { signal: this.#listing.signal });
        await this.#listed;
        const result = await (worker[method] as (...rest: never[]) => unknown)(...args);
        const target: unknown = args[0];
        // If it cannot be compared, the next call fails too, and says why.
        if (typeof target === "object" && target !== null && "archive" in target)
          this.#compare(worker, String(target.archive)).catch(() => undefined);
        return result;
      },
  });
  readonly #tree: Tree = new Tree(this.#engine, this.#background, this.#now);
  readonly #main: HTMLElement = byId("main");
  #source: Source | undefined;
  #listing = new AbortController();
  #drawn: Source | undefined;
  #node: NodeFacts | undefined;
  #shown = new AbortController();

  start(): void {
    this.#connect();
    this.#now.onChange(() => void this.#show());
    const server = document.querySelector<HTMLMetaElement>('meta[name="superchunk-server"]')?.content ?? "";
    const url = new URLSearchParams(location.search).get("url");
    // A link also keeps what is not an address; to open that then fails with a message.
    if (url !== null) void this.#read({ kind: "url", url: h("a", { href: url }).href });
    else if (server !== "") void this.#read({ kind: "server", base: new URL(server, location.href).href });
    else void this.#welcome();
  }

  #connect(): void {
    const files = byId<HTMLInputElement>("files");
    const folder = byId<HTMLInputElement>("folder");
    byId("open-files").addEventListener("click", () => files.click());
    byId("open-folder").addEventListener("click", () => folder.click());
    for (const input of [files, folder])
      input.addEventListener("change", () => {
        if (input.files !== null && input.files.length > 0) this.#readFiles(chosenFiles(input.files));
        input.value = "";
      });
    const drop = byId("drop");
    addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.hidden = false;
    });
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) drop.hidden = true;
    });
    addEventListener("drop", (event) => {
      event.preventDefault();
      drop.hidden = true;
      if (event.dataTransfer !== null)
        void droppedFiles(event.dataTransfer).then((found) => this.#readFiles(found));
    });
    byId("skip").addEventListener("click", (event) => {
      // The address after # has the state.
      event.preventDefault();
      this.#main.focus();
    });
    const side = byId("side");
    const menu = byId("menu");
    const setMenu = (isOpen: boolean): void => {
      // A hidden list cannot keep the focus, nor be scrolled.
      if (!isOpen && side.contains(document.activeElement)) menu.focus();
      side.classList.toggle("open", isOpen);
      menu.setAttribute("aria-expanded", String(isOpen));
      if (isOpen) side.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "center" });
    };
    menu.addEventListener("click", () => setMenu(!side.classList.contains("open")));
    this.#now.onChange(() => setMenu(false));
    addEventListener("keydown", (event) => {
      const isTyping = /^(?:INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName);
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        setMenu(true);
        byId("search").focus();
      } else if (event.key === "Escape") setMenu(false);
    });
    connectTheme();
  }

  #readFiles(files: readonly (readonly [string, File])[]): void {
    if (files.length > 0) void this.#read({ kind: "files", files });
  }

  async #read(source: Source): Promise<void> {
    this.#listing.abort();
    this.#listing = new AbortController();
    const { signal } = this.#listing;
    this.#source = source;
    this.#listed = undefined;
    this.#shown.abort();
    byId("where").textContent = describeSource(source);
    this.#tree.begin(signal);
    this.#main.replaceChildren(h("p", { class: "note" }, "Looking for archives…"));
    try {
      const all = await this.#engine.list(source, { signal, onProgress: (found) => this.#tree.add(found) });
      this.#tree.add(all.slice(this.#tree.names.length));
      this.#tree.end();
      const { archive } = this.#now.state;
      const { names } = this.#tree;
      const [first] = names;
      // What was chosen before all were listed is not drawn again.
      if (names.includes(archive)) await (this.#drawn === source || this.#show());
      else if (archive !== "" && source.kind === "server")
        this.#fail(`No archive here is named "${archive}". Choose one in the list.`);
      else if (first === undefined) throw new Error("No archive here can be opened.");
      else
        this.#now.go({
          ...(archive === "" ? this.#now.state : { column: "", view: "", more: {} }),
          archive: first,
        });
    } catch (error) {
      if (signal.aborted) return;
      this.#tree.end();
      this.#fail(sentenceOf(error), { archive: describeSource(source), column: "" });
    }
  }

  /** Shows a problem in the place of an archive. */
  #fail(text = "", state: Pick<State, "archive" | "column"> = this.#now.state): void {
    const notes = [h("p", { class: "bad-note", role: "alert" }, text)];
    // Messages on damage say which copy to look for.
    if (this.#source !== undefined && text.includes("look for a")) {
      const path = commandPath({ source: this.#source, node: { name: state.archive } });
      notes.push(h("p", { class: "note" }, `What can be saved: superchunk verify ${path}`));
    }
    this.#main.replaceChildren(title(state), ...notes);
  }

  async #welcome(): Promise<void> {
    this.#tree.end();
    const { welcome } = await import("./views/welcome.ts");
    if (this.#source === undefined) this.#main.replaceChildren(welcome());
  }

  /** Shows the archive and view in the address. */
  async #show(): Promise<void> {
    this.#shown.abort();
    this.#shown = new AbortController();
    const { signal } = this.#shown;
    this.#drawn = undefined;
    const { state } = this.#now;
    const source = this.#source;
    if (source === undefined || state.archive === "") return;
    const hadFocus = this.#main.contains(document.activeElement);
    let node: NodeFacts;
    const late = setTimeout(() => {
      if (!signal.aborted) this.#main.replaceChildren(title(state), h("p", { class: "note" }, "Opening…"));
    }, 150);
    try {
      node = await this.#tree.factsOf(state.archive, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#fail(sentenceOf(error));
      this.#tree.rest();
      return;
    } finally {
      clearTimeout(late);
    }
    if (signal.aborted) return;
    this.#node = node;
    this.#drawn = node.kind === "group" ? undefined : source; // a group also names what is listed later
    const only = node.columns.length === 1 && node.columns[0]?.name === "" ? node.columns[0] : undefined;
    const column = only ?? node.columns.find(({ name }) => name === state.column && name !== "");
    const views = VIEWS.filter(({ fits }) => fits(node, column));
    const chosen = views.find(({ id }) => id === state.view) ?? views[0];
    const facts = h("p", { class: "facts" }, ...factLine(node, column));
    // Has its place before it is known, so that nothing below it moves.
    const stored = node.columns.length === 0 ? [] : [h("p", { class: "facts stored" })];
    const within = node.name === "/" ? "" : `${node.name}/`;
    const isMember = (name: string): boolean => name !== node.name && name.startsWith(within);
    const shown = {
      members: node.kind === "group" ? this.#tree.names.filter(isMember) : [],
      engine: this.#engine,
      background: this.#background,
      now: this.#now,
      source,
      node,
      column,
      signal,
    };
    const body = chosen?.view(shown) ?? h("div");
    body.setAttribute("role", "tabpanel");
    body.setAttribute("aria-label", chosen?.label ?? "");
    this.#main.replaceChildren(
      title({ ...state, column: column?.name ?? "" }),
      facts,
      ...stored,
      this.#tabs(views, chosen?.id ?? ""),
      body,
    );
    // What had the focus is gone.
    if (hadFocus && document.activeElement === document.body)
      this.#main.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
    const [line] = stored;
    if (line === undefined) this.#tree.rest();
    else void this.#addSummary(line, node, column, signal).then(() => this.#tree.rest());
  }

  #tabs(views: readonly { readonly id: string; readonly label: string }[], chosen: string): HTMLElement {
    const tabs = views.map(({ id, label }) =>
      h(
        "button",
        {
          role: "tab",
          "aria-selected": String(id === chosen),
          tabindex: id === chosen ? 0 : -1,
          "data-view": id,
          onclick: () => this.#now.go({ ...this.#now.state, view: id, more: {} }),
        },
        label,
      ),
    );
    const move = (event: Event): void => {
      const { key } = event as KeyboardEvent;
      const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
      const next = views[(views.findIndex(({ id }) => id === chosen) + step + views.length) % views.length];
      if (step === 0 || next === undefined) return;
      this.#now.go({ ...this.#now.state, view: next.id, more: {} });
    };
    return h("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: move }, ...tabs);
  }

  /** Adds facts that need a few reads: compression and stored size. */
  async #addSummary(
    line: HTMLElement,
    node: NodeFacts,
    column: ColumnFacts | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const target = { archive: node.name, column: (column ?? node.columns[0])?.name ?? "" };
    try {
      const { codec, checksum, stored } = await this.#engine.summary(target, { signal });
      if (stored !== undefined && (column?.name ?? "") === "") {
        line.append(fact(formatBytes(stored), "stored"));
        const gain = formatGain(node.nbytes, stored);
        if (gain !== "") line.append(fact(gain));
      }
      if (codec !== "") line.append(fact(codec, "codec"));
      if (checksum !== undefined) line.append(fact(checksum, "checksums"));
    } catch (error) {
      if (!signal.aborted) line.append(h("span", { class: "bad" }, sentenceOf(error) ?? ""));
    }
  }

  /** Each worker keeps what it opened first: says so, once, if a writer changed the archive in between. */
  async #compare(worker: Engine, archive: string): Promise<void> {
    const { name, nbytes } = await worker.open(archive);
    const node = this.#node;
    if (node?.name !== name || node.nbytes === nbytes) return;
    this.#node = undefined;
    const note = h("p", { class: "warn-note" }, "This archive has changed: reload the page.");
    this.#main.querySelector(".tabs")?.before(note);
  }
}

function startWorker(): Engine {
  // In the single-file page, the worker's script is an element of it.
  const inside = document.getElementById("worker-script")?.textContent;
  if (inside != null) {
    const url = URL.createObjectURL(new Blob([inside], { type: "text/javascript" }));
    return callerOf<Engine>(new Worker(url));
  }
  const script = new URL("./page-worker.js", import.meta.url);
  // If the address names another server, the worker's policy must allow it too.
  script.search = location.search;
  return callerOf<Engine>(new Worker(script, { type: "module" }));
}

/** The heading, which is also the name of the page. */
function title({ archive, column }: Pick<State, "archive" | "column">): HTMLElement {
  const of = column !== "" && h("span", { class: "of" }, `${archive} / `);
  const heading = h("h1", {}, of, column || archive || "Archives");
  document.title = `${heading.textContent} · superchunk`;
  return heading;
}

function factLine(node: NodeFacts, column: ColumnFacts | undefined): HTMLElement[] {
  const facts = [h("span", {}, node.dialect)];
  if (column !== undefined && node.kind !== "bytes") facts.push(fact(column.typeName), fact(sizeOf(column)));
  else if (isTable(node))
    facts.push(fact(formatPlural(node.length, "row")), fact(formatPlural(node.columns.length, "column")));
  if (node.kind !== "group") facts.push(fact(formatBytes(column?.nbytes ?? node.nbytes), "of values"));
  if (column !== undefined) facts.push(fact(formatPlural(column.nchunks, "chunk")));
  return facts;
}

const sizeOf = ({ shape }: ColumnFacts): string =>
  shape.length === 1 ? formatPlural(shape.at(0) ?? 0, "value") : formatShape(shape);

function describeSource(source: Source): string {
  if (source.kind === "url") return source.url;
  if (source.kind === "server") return new URL(source.base).host;
  return source.files.length === 1 ? (source.files[0]?.[0] ?? "") : formatPlural(source.files.length, "file");
}

function connectTheme(): void {
  const { documentElement } = document;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = storedTheme();
  const apply = (): void => {
    documentElement.dataset["theme"] = chosen ?? (dark.matches ? "dark" : "light");
    dispatchEvent(new Event("themechange"));
  };
  dark.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    chosen = storedTheme(documentElement.dataset["theme"] === "dark" ? "light" : "dark");
    apply();
  });
  apply();
}

/** The stored choice, after storing another. If storage is blocked, a choice lasts until the page is closed. */
function storedTheme(chosen?: string): string | undefined {
  try {
    if (chosen !== undefined) localStorage.setItem("superchunk-theme", chosen);
    return localStorage.getItem("superchunk-theme") ?? undefined;
  } catch {
    return chosen;
  }
}

new Page().start();
