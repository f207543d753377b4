/**
 * Runs the lines of JavaScript that open virtual references, and hashes what zarrita gets: `references.mjs FOLDER RESULTS`,
 * a JSON list of {id, lines, names} on stdin. Into RESULTS goes a list of {id, values: {name: [shape, sha256]}} or {id, error}.
 */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import * as zarr from "zarrita";

const [, , folder, results] = process.argv;
const PACKAGES = {
  "superchunk/node": new URL("../../../build/src/node/index.js", import.meta.url).href,
  zarrita: import.meta.resolve("zarrita"),
  "@earthmover/icechunk": import.meta.resolve("@earthmover/icechunk"),
};

/** The lines as a separate module, because no project here has the packages installed. */
async function runLines(id, lines) {
  const found = lines.replace(/ from "([^"]+)";/g, (_, name) => {
    if (!(name in PACKAGES)) throw new Error(`the lines import ${name}`);
    return ` from ${JSON.stringify(PACKAGES[name])};`;
  });
  const file = join(folder, `lines-${id}.mjs`);
  writeFileSync(file, `${found}\nexport { group, store };\n`);
  return import(pathToFileURL(file).href);
}

async function digest(group, name) {
  const array = await zarr.open(group.resolve(name), { kind: "array" });
  const { data, shape } = await zarr.get(array);
  const bytes = new Uint8Array(data.buffer, data.byteOffset ?? 0, data.byteLength ?? data.length);
  return [shape, createHash("sha256").update(bytes).digest("hex")];
}

const answers = [];
for (const { id, lines, names } of JSON.parse(await text(process.stdin))) {
  try {
    const { group, store } = await runLines(id, lines);
    const values = {};
    for (const name of names) values[name] = await digest(group, name);
    await store.close?.();
    answers.push({ id, values });
  } catch (error) {
    answers.push({ id, error: `${error.code ?? error.name}: ${error.message}`.slice(0, 400) });
  }
}
writeFileSync(results, JSON.stringify(answers));
