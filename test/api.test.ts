/** The public surface: what each entry point exports is a decision, not an accident. */
import { expect, test } from "vitest";
import * as blosc from "../src/blosc.ts";
import * as core from "../src/index.ts";
import * as node from "../src/node/index.ts";
import * as bloscWasm from "../src/pool/use-modules.ts";
import * as zarr from "../src/zarr.ts";

test.each([
  ["superchunk", core],
  ["superchunk/node", node],
  ["superchunk/zarr", zarr],
  ["superchunk/blosc", blosc],
  ["superchunk/blosc/wasm", bloscWasm],
] as const)("%s exports exactly the listed names", (_, entry) => {
  expect(Object.keys(entry).sort()).toMatchSnapshot();
});
