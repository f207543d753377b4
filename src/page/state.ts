/** What the page shows, stored in the part of its address after `#`, so that a link shows the same. */

export interface State {
  readonly archive: string;
  readonly column: string;
  readonly view: string;
  /** Everything else that a view stores: rows, colours, columns. */
  readonly more: Readonly<Record<string, string>>;
}

function readState(hash: string): State {
  const {
    archive = "",
    column = "",
    view = "",
    ...more
  } = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  return { archive, column, view, more };
}

export function writeState({ archive, column, view, more }: State): string {
  const parts = Object.entries({ archive, column, view, ...more }).filter(([, value]) => value !== "");
  const text = new URLSearchParams(parts).toString();
  return text === "" ? "#" : `#${text.replaceAll("%2F", "/").replaceAll("%2C", ",")}`;
}

/** The current state of the page, and its listeners. */
export class Now {
  #state: State = readState(location.hash);
  /** As it was last read or written: another one is a step that the page has yet to take. */
  #hash = location.hash;
  readonly #listeners: (() => void)[] = [];

  constructor() {
    addEventListener("hashchange", () => this.#take(readState(location.hash)));
  }

  get state(): State {
    return this.#state;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Goes to another state, with a step in the browser's history, except from the page that shows nothing yet. */
  go(state: State): void {
    if (writeState(state) === writeState(this.#state)) return;
    history[this.#state.archive === "" ? "replaceState" : "pushState"](undefined, "", writeState(state));
    this.#take(state);
  }

  /** Changes details of the state, without a step in the history. */
  keep(more: Readonly<Record<string, string>>): void {
    const merged = { ...this.#state, more: { ...this.#state.more, ...more } };
    if (writeState(merged) === writeState(this.#state) || location.hash !== this.#hash) return;
    this.#state = merged;
    history.replaceState(undefined, "", writeState(merged));
    this.#hash = location.hash;
  }

  #take(state: State): void {
    this.#state = state;
    this.#hash = location.hash;
    for (const listener of this.#listeners) listener();
  }
}
