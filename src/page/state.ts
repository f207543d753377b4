/** What the page shows, kept in the part of its address after `#`: a link to it shows the same. */

/** What is looked at. */
export interface State {
  readonly archive: string;
  readonly column: string;
  readonly view: string;
  /** Everything else that a view keeps: rows, colours, columns. */
  readonly more: Readonly<Record<string, string>>;
}

const NONE: State = { archive: "", column: "", view: "", more: {} };

/** The state of an address. */
export function readState(hash: string): State {
  const {
    archive = "",
    column = "",
    view = "",
    ...more
  } = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  return { archive, column, view, more };
}

/** The address of a state. */
export function writeState({ archive, column, view, more }: State): string {
  const parts = Object.entries({ archive, column, view, ...more }).filter(([, value]) => value !== "");
  const text = new URLSearchParams(parts).toString();
  return text === "" ? "#" : `#${text.replaceAll("%2F", "/").replaceAll("%2C", ",")}`;
}

/** The state that the page is in, and who wants to know when it changes. */
export class Now {
  #state: State = NONE;
  readonly #listeners: ((state: State, before: State) => void)[] = [];

  constructor() {
    this.#state = readState(location.hash);
    addEventListener("hashchange", () => this.#take(readState(location.hash)));
  }

  get state(): State {
    return this.#state;
  }

  onChange(listener: (state: State, before: State) => void): void {
    this.#listeners.push(listener);
  }

  /** Goes somewhere else: the browser's way back leads here. */
  go(state: State): void {
    if (writeState(state) === writeState(this.#state)) return;
    history.pushState(undefined, "", writeState(state));
    this.#take(state);
  }

  /** Keeps details of what is shown, without a step to go back. */
  keep(more: Readonly<Record<string, string>>): void {
    const merged = { ...this.#state, more: { ...this.#state.more, ...more } };
    if (writeState(merged) === writeState(this.#state)) return;
    this.#state = merged;
    history.replaceState(undefined, "", writeState(merged));
  }

  #take(state: State): void {
    const before = this.#state;
    this.#state = state;
    for (const listener of this.#listeners) listener(state, before);
  }
}
