/**
 * Shortens pages of the API reference: removes what the signatures already say, such as types of parameters and results, and origins of
 * members.
 */

/** Sections after the prose of a function. */
const PARTS = [
  "Parameters",
  "Returns",
  "Throws",
  "Type Parameters",
  "Inherited from",
  "Overrides",
  "Implementation of",
];
const RULE = "***";
const SAID = ["Inherited from", "Overrides", "Implementation of"];

/** Shortens pages, by name; links keep their targets. */
export function shortPages(long) {
  // The default type argument of byte arrays.
  const pages = new Map(
    [...long].map(([name, text]) => [name, text.replaceAll("\\<`ArrayBufferLike`\\>", "")]),
  );
  const short = new Map([...pages].map(([name, text]) => [name, shortened(sectionsOf(text))]));
  const anchors = new Map(
    [...pages].map(([name, text]) => {
      const before = anchorsOf(sectionsOf(text));
      const after = anchorsOf(short.get(name).kept);
      return [name, new Map([...before].map(([section, anchor]) => [anchor, after.get(section)]))];
    }),
  );
  return new Map(
    [...short].map(([own, { text }]) => [
      own,
      text.replaceAll(/\]\(([\w./-]*)#([^)]+)\)/g, (link, page, anchor) => {
        const moved = anchors.get(page === "" ? own : page)?.get(anchor);
        return moved === undefined ? link : `](${page}#${moved})`;
      }),
    ]),
  );
}

/** The remaining sections of a page, and its text. */
function shortened(sections) {
  const kept = [];
  const out = [];
  const add = (section, ...parts) => {
    kept.push(section);
    out.push(heading(section), ...parts);
  };
  for (let i = 0; i < sections.length; i++) {
    const section = sections[i];
    const paragraphs = paragraphsOf(section);
    // The line between two members.
    const end = paragraphs.at(-1) === RULE ? paragraphs.splice(-1) : [];
    if (section.title === "Returns") {
      // The first paragraph is the type.
      if (paragraphs.length > 1) add(section, ...paragraphs.slice(1));
    } else if (section.title === "Parameters") {
      const items = [];
      const level = Math.min(6, section.level + 1);
      for (
        let next = sections[i + 1];
        next?.level === level && !PARTS.includes(next.title);
        next = sections[i + 1]
      ) {
        const found = paragraphsOf(next);
        if (found.at(-1) === RULE) end.push(...found.splice(-1));
        const prose = found.slice(1).join(" ");
        if (prose !== "") items.push(`- \`${next.title.replaceAll("\\", "")}\`: ${prose}`);
        i++;
      }
      if (items.length > 0) add(section, items.join("\n"));
    } else if (!SAID.includes(section.title)) add(section, ...paragraphs);
    out.push(...end);
  }
  return { kept, text: `${out.filter((part) => part !== "").join("\n\n")}\n` };
}

/** The anchor of each section, by its old place: repeated headings are numbered. */
function anchorsOf(sections) {
  const counts = new Map();
  return new Map(
    sections.map(({ title, place }) => {
      const plain = title
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, "")
        .replaceAll(" ", "-");
      const count = counts.get(plain) ?? 0;
      counts.set(plain, count + 1);
      return [place, count === 0 ? plain : `${plain}-${count}`];
    }),
  );
}

const heading = ({ level, title }) => (level === 0 ? "" : `${"#".repeat(level)} ${title}`);
const paragraphsOf = ({ lines }) =>
  lines
    .join("\n")
    .split(/\n{2,}/)
    .map((each) => each.trim())
    .filter((each) => each !== "");

/** Headings and the text below each; code fences do not contain headings. */
function sectionsOf(text) {
  const sections = [{ level: 0, title: "", lines: [], place: 0 }];
  let isCode = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) isCode = !isCode;
    const [, marks, title] = (!isCode && /^(#+) (.*)$/.exec(line)) || [];
    if (marks === undefined) sections.at(-1).lines.push(line);
    else sections.push({ level: marks.length, title, lines: [], place: sections.length });
  }
  return sections;
}
