/**
 * Fuzzing of the bridge to Zarr: `node test/fuzz/bridge.mjs [conversions|way-back|links|damage]… [--seconds S] [--seed N]`.
 *
 * What is tried is in the files beside this one.
 */
import { fuzzConversions, fuzzWayBack } from "./conversions.mjs";
import { fuzzDamage } from "./damage.mjs";
import { fuzzLinks } from "./links.mjs";
import { runTargets } from "./rounds.mjs";

await runTargets({
  conversions: fuzzConversions,
  "way-back": fuzzWayBack,
  links: fuzzLinks,
  damage: fuzzDamage,
});
