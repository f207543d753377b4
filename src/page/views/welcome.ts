/** What is shown without an archive: how to open one. */
import { h } from "../dom.ts";

const WELCOME =
  "Bloscpack, BLZ, bcolz, superchunk, Zarr, HDF5 and Blosc2: tables, values, and every chunk with its place, its size and its health.";
const DROP = "Drop a file or a folder here, or choose it with the buttons above. It stays on this machine.";

/** The page without an archive. */
export function welcome(): HTMLElement {
  const address = h("input", {
    type: "url",
    name: "url",
    required: true,
    placeholder: "Address of an archive: https://…",
    "aria-label": "Address of an archive",
  });
  const submit = (event: Event): void => {
    event.preventDefault();
    location.search = `?url=${encodeURIComponent(address.value)}`;
  };
  return h(
    "section",
    { class: "welcome" },
    h("h1", {}, "See what your archives hold"),
    h("p", { class: "note" }, WELCOME),
    h("div", { class: "target" }, DROP),
    h("form", { onsubmit: submit }, address, h("button", {}, "Open")),
  );
}
