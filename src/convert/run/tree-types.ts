/** What callers learn of the conversion of a whole folder of archives. Types only. */
import type { ErrorCode } from "../../errors.ts";
import type { ConversionPlan, ConvertResult } from "../plan/convert-options.ts";

/** What became of one archive. */
export interface TreeEntry {
  /** How messages name the archive. */
  readonly path: string;
  /** Its path in the destination, below the conversion's own. */
  readonly node: string;
  readonly status: "converted" | "failed";
  readonly code?: ErrorCode;
  readonly message?: string;
  readonly result?: ConvertResult;
}

/** What became of all of them: sums over those that were converted, and an entry for each. */
export interface TreeResult extends ConvertResult {
  readonly converted: number;
  readonly failed: number;
  /** In the order of their paths. */
  readonly entries: readonly TreeEntry[];
}

/** What would become of an archive: its plan, or why it has none. */
export interface TreePlanEntry {
  readonly path: string;
  readonly node: string;
  readonly plan?: ConversionPlan;
  readonly code?: ErrorCode;
  readonly message?: string;
}
