/**
 * Two writers of one Icechunk repository, with its real package: `icechunk-writers.mjs RESULTS`, on stdin {location,
 * first, second}: the destination, and the archives that they refer to. The first has begun, and holds unpublished
 * references, when the second begins and commits. RESULTS gets the outcome of each, and of the first's second try.
 */

import { writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { writeIcechunk } from "../../../build/src/node/icechunk/icechunk-write.js";
import { open, openReferences } from "../../../build/src/node/index.js";
import {
  commonFolder,
  defaultContainer,
  toLocation,
} from "../../../build/src/references/containers/containers.js";
import { planReferences } from "../../../build/src/zarr.js";

const { location, first, second } = JSON.parse(await text(process.stdin));
const folder = commonFolder([first, second].map(toLocation));

/** References to one archive, at its own node; `before` must have happened when they are requested. */
async function* plansOf(path, node, before = async () => {}) {
  const archive = await open(path);
  yield await planReferences(archive, { node });
  await before();
  yield await planReferences(archive, { node: `${node}-again` });
}

async function commit(path, node, before) {
  try {
    const options = { containers: [defaultContainer(folder)], update: true, message: node };
    const { snapshot, arrays } = await writeIcechunk(plansOf(path, node, before), location, options);
    return { snapshot, arrays };
  } catch (error) {
    const { field, expected, found } = error.details ?? {};
    return { code: error.code ?? error.name, message: error.message, field, expected, found };
  }
}

/** For each node, whether a reader of the repository gets the first chunk of its archive. */
async function readBack() {
  const containers = [defaultContainer(folder)];
  const store = await openReferences(location, { form: "icechunk", containers });
  const shown = {};
  for (const [node, path] of [
    ["first", first],
    ["first-again", first],
    ["second", second],
    ["second-again", second],
  ]) {
    const { arrays } = await planReferences(await open(path), { node });
    const key = ["", node, "c", ...arrays[0].positionOf(0)].join("/");
    const found = await store.get(key);
    shown[node] = found !== undefined && Buffer.compare(found, await arrays[0].sample(0)) === 0;
  }
  await store.close();
  return shown;
}

const results = {};
results.first = await commit(first, "first", async () => {
  results.second = await commit(second, "second");
});
results.again = await commit(first, "first");
results.shown = await readBack();
writeFileSync(process.argv[2], JSON.stringify(results));
