/** The worker of the page: started from its own file. */
import { answerCalls } from "./calls.ts";
import { makeEngine } from "./engine/engine.ts";

answerCalls(globalThis, makeEngine());
