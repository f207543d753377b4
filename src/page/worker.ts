/** The start file of the page's worker. */
import { answerCalls } from "./calls.ts";
import { makeEngine } from "./engine/engine.ts";

answerCalls(globalThis, makeEngine());
