/** The result of a check of all chunks, for people. Knows findings; must not know how they were found. */

import type { VerifyReport } from "../../archive/kinds/types.ts";
import { h, snippet } from "../dom.ts";
import { formatCount, formatPlural } from "../text.ts";

/** Most findings to show. */
const MOST_FINDINGS = 200;

/** The verdict (on the `column` of several), the findings, and the command that saves the undamaged part. `show` goes to a chunk. */
export function describeOutcome(
  { ok, chunks, digests, findings }: VerifyReport,
  path: string,
  column: string | undefined,
  show: (chunk: number) => void,
): HTMLElement[] {
  const what = chunks === 1 ? "The chunk was" : `All ${formatPlural(chunks, "chunk")} were`;
  const sums =
    digests === 0
      ? ". No checksums are stored, so a changed byte that still decodes is not found"
      : `, and ${formatPlural(digests, "checksum")} compared`;
  const where = column === undefined ? "" : ` in the column ${column}`;
  const errors = findings.filter(({ severity }) => severity === "error").length;
  const parts: HTMLElement[] = [
    ok
      ? h("p", { class: "good-note" }, `No damage found${where}. ${what} decoded${sums}.`)
      : h("p", { class: "bad-note", role: "alert" }, `${formatPlural(errors, "error")} found.`),
  ];
  if (findings.length > 0)
    parts.push(
      h(
        "ul",
        { class: "findings" },
        ...findings.slice(0, MOST_FINDINGS).map((finding) => findingItem(finding, show)),
      ),
    );
  if (ok) return parts;
  const advice = "This saves the undamaged part in a copy, with the default value for lost values:";
  return [
    ...parts,
    h("p", { class: "note" }, advice),
    snippet(`superchunk repair ${path} repaired --holes fill`),
  ];
}

/** A finding, with a link to its place. */
function findingItem(
  { severity, code, message, chunk }: VerifyReport["findings"][number],
  show: (chunk: number) => void,
): HTMLElement {
  const where =
    chunk === undefined
      ? []
      : [h("button", { class: "link", onclick: () => show(chunk) }, `chunk ${formatCount(chunk)}`), ": "];
  return h("li", { class: severity === "error" ? "bad" : "warn" }, h("b", {}, code), " ", ...where, message);
}
