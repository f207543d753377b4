/** The plan of one source. */
import {
  type ConversionPlan,
  type ConvertOptions,
  type ConvertSource,
  planConversion,
} from "../../../src/zarr.ts";

export async function planOne(source: ConvertSource, options: ConvertOptions = {}): Promise<ConversionPlan> {
  for await (const { plan } of planConversion(source, {}, options)) if (plan !== undefined) return plan;
  throw new Error("there is no plan");
}
