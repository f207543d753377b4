/** The start file of the page's worker. */

import { storeMadeChunks } from "../codec/made.ts";
import { answerCalls } from "./calls.ts";
import { PageEngine } from "./engine/engine.ts";

// A page shows values: it need not load an encoder for chunks that are made of other data.
storeMadeChunks();
answerCalls(globalThis, new PageEngine());
