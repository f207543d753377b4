/** The view of a plane of an array as a picture, with a colour bar. */
import { RAMP_PIXELS } from "../colours.ts";
import { h, saveBlob } from "../dom.ts";
import type { Picture } from "../engine/protocol.ts";
import { formatCount, formatNumber, formatPlural } from "../text.ts";
import { leftOut, planeChoice, ramp, type Shown, sentenceOf } from "./view.ts";

export function view(shown: Shown): HTMLElement {
  const { node, signal, engine } = shown;
  const column = shown.column ?? node.columns[0];
  const shape = column?.shape ?? [];
  const canvas = h("canvas", { class: "picture", role: "img", "aria-label": "Picture of the values" });
  const note = h("p", { class: "note", role: "status" });
  const under = h("p", { class: "note" }, "\u00a0");
  const legend = h("span", { class: "legend" });
  let found: Picture | undefined;
  let reading = new AbortController();

  const read = async (): Promise<void> => {
    reading.abort();
    reading = new AbortController();
    found = undefined; // it has no values of this plane
    note.textContent = "Reading…";
    const own = AbortSignal.any([reading.signal, signal]);
    try {
      const plane = { archive: node.name, column: column?.name ?? "", fixed: fixed() };
      found = await engine.picture(plane, { signal: own });
      draw(canvas, found);
      const thin =
        found.stepX * found.stepY > 1
          ? `; ${stepText(found.stepY, "row")} and ${stepText(found.stepX, "column")} is drawn`
          : "";
      const isEmpty = found.min > found.max;
      legend.replaceChildren(...(isEmpty ? [] : ramp(formatNumber(found.min), formatNumber(found.max))));
      const { lost } = found;
      note.textContent = `${formatPlural(shape.at(-2) ?? 0, "row")} and ${formatPlural(shape.at(-1) ?? 0, "column")}${thin}${isEmpty && lost === undefined ? "; no value is finite" : ""}`;
      if (lost !== undefined) note.append(leftOut(lost));
      view.dataset["drawn"] = fixed().join(",");
    } catch (error) {
      if (own.aborted) return;
      canvas.width = 0; // no picture of another plane
      legend.replaceChildren();
      note.replaceChildren(h("span", { class: "bad" }, sentenceOf(error) ?? ""));
    }
  };
  const { fixed, choice } = planeChoice(shown, shape, () => void read());
  canvas.addEventListener("pointermove", (event) => {
    if (found === undefined) return;
    const box = canvas.getBoundingClientRect();
    const x = Math.min(found.width - 1, Math.floor(((event.clientX - box.left) / box.width) * found.width));
    const y = Math.min(found.height - 1, Math.floor(((event.clientY - box.top) / box.height) * found.height));
    const value = found.values[y * found.width + x] as number;
    under.textContent = `[${[...fixed(), y * found.stepY, x * found.stepX].join(", ")}] = ${formatNumber(value)}`;
  });
  const save = (): void =>
    canvas.toBlob((blob) => blob !== null && saveBlob(blob, `${node.name.replaceAll(/[^\w.-]+/g, "_")}.png`));
  const view = h(
    "div",
    { class: "view picture-view" },
    h(
      "div",
      { class: "bar" },
      ...choice,
      legend,
      h("span", { class: "grow" }),
      h("button", { onclick: save }, "PNG"),
    ),
    h("div", { class: "frame" }, canvas),
    under,
    note,
  );
  void read();
  return view;
}

const stepText = (step: number, what: string): string =>
  step === 1 ? `every ${what}` : `one ${what} in ${formatCount(step)}`;

/** NaN has no colour. */
function draw(canvas: HTMLCanvasElement, { width, height, values, min, max }: Picture): void {
  [canvas.width, canvas.height] = [width, height];
  // Small pictures are enlarged; the ratio of the sides is kept up to eight to one.
  const ratio = Math.max(1 / 8, Math.min(8, width / height));
  canvas.style.aspectRatio = String(ratio);
  canvas.style.width = `min(100%, ${62 * ratio}vh)`;
  canvas.classList.toggle("coarse", width < 400);
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = max > min ? 255 / (max - min) : 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isFinite(value)) pixels[i] = RAMP_PIXELS[Math.round((value - min) * scale)] as number;
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}
