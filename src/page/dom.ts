/** Elements, made without markup: text stays text, whatever an archive names its columns. Also dropped files, and text to copy. */

type Child = Node | string | undefined | false;
type Attributes = Readonly<Record<string, string | number | boolean | undefined | ((event: Event) => void)>>;

/** An element with attributes (`on…` are listeners, true is an empty one, false and undefined none) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.filter((child): child is Node | string => child !== undefined && child !== false),
  );
  return element;
}

/** Replaces the content of an element, which then has the focus that something in it had. */
export function refill(place: HTMLElement, ...content: readonly (Node | string)[]): void {
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(...content);
  if (!hadFocus) return;
  place.tabIndex = -1;
  place.focus();
}

/** A selection of one of some values; `take` gets each that is chosen. */
export function select(
  options: readonly (readonly [value: string, label: string])[],
  chosen: string,
  take: (value: string) => void,
): HTMLSelectElement {
  const element = h(
    "select",
    { onchange: () => take(element.value) },
    ...options.map(([value, label]) => h("option", { value, selected: value === chosen }, label)),
  );
  return element;
}

export function fact(value: string, what = ""): HTMLElement {
  return h("span", {}, h("b", {}, value), ` ${what}`);
}

/** The element with an id in the page's markup. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new RangeError(`the page has no element "${id}"`);
  return found as T;
}

/** Limits calls to one per frame. */
export function onceAFrame(work: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

/** Saves a file. */
export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Dropped or chosen files and folders, with their paths.

export type Files = readonly (readonly [path: string, file: File])[];

/** The files of an `<input type="file">`; of a folder, with paths below it. */
export function chosenFiles(files: FileList): Files {
  return Array.from(files, (file) => {
    const path = file.webkitRelativePath;
    // The folder may be an archive itself or a folder of archives, so its own name is kept.
    return [path === "" ? file.name : path, file] as const;
  });
}

/** The dropped files, and folders with everything in them. */
export async function droppedFiles(transfer: DataTransfer): Promise<Files> {
  // The items can only be read during the event.
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry());
  const plain = Array.from(transfer.files);
  const found: (readonly [string, File])[] = [];
  for (const entry of entries) if (entry !== null) await walk(entry, found);
  return found.length > 0 ? found : plain.map((file) => [file.name, file] as const);
}

async function walk(entry: FileSystemEntry, found: (readonly [string, File])[]): Promise<void> {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    found.push([path, file]);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader returns a hundred entries at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return;
    for (const each of some) await walk(each, found);
  }
}

/** A text with a button that copies it. */
export function snippet(text: string): HTMLElement {
  const copy = h("button", { onclick: () => void copyText(text, copy) }, "Copy");
  return h("div", { class: "snippet" }, h("pre", { tabindex: 0 }, text), copy);
}

/** Copies a text once it is there, and confirms it on the button. */
export async function copyText(text: string | Promise<string>, button: HTMLElement): Promise<void> {
  button.dataset["label"] ??= button.textContent ?? "";
  try {
    await navigator.clipboard.writeText(await text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => {
    button.textContent = button.dataset["label"] ?? "";
  }, 1500);
}
