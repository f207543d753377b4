/** The start file of the page's worker. */
import { answerCalls } from "./calls.ts";
import { PageEngine } from "./engine/engine.ts";

answerCalls(globalThis, new PageEngine());
