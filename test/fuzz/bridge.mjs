/**
 * Fuzzing of the bridge to Zarr: `node test/fuzz/bridge.mjs [conversions|way-back|links|damage]… [--seconds S]
 * [--seed N]`.
 *
 * The targets are in the files next to this one.
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
