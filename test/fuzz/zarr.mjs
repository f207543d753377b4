/**
 * Fuzzing of Zarr arrays: `node test/fuzz/zarr.mjs [writes|shards|documents|variable]… [--seconds S] [--seed N]`.
 *
 * The targets are in the files next to this one.
 */
import { runTargets } from "./rounds.mjs";
import { fuzzDocuments } from "./zarr-documents.mjs";
import { fuzzShards } from "./zarr-shards.mjs";
import { fuzzVariable } from "./zarr-variable.mjs";
import { fuzzWrites } from "./zarr-writes.mjs";

await runTargets({
  writes: fuzzWrites,
  shards: fuzzShards,
  documents: fuzzDocuments,
  variable: fuzzVariable,
});
