/** fast-check, which draws the same numbers each time; `SEED=7 npx vitest run test/zarr` draws others. */
import fc from "fast-check";
import { SEED } from "./crash/random.ts";

fc.configureGlobal({ seed: SEED });

export default fc;
