/** A damaged file, looked through: plain bytes, or a numpy array. Reads only. */
import { SuperchunkError } from "../../errors.ts";
import { formatDType, parseDType } from "../../format/dtype.ts";
import { mergeSpans, type RowSpan } from "../../format/layout.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import { withJournal } from "../journal/journal.ts";
import { asObject, FILLED, isNumpy, showFile } from "../open/open-file.ts";
import { isFlaw } from "./chunk-check.ts";
import { type FoundColumn, findBloscpackChunks } from "./columns.ts";
import { findFileChunks } from "./file-chunks.ts";
import {
  type HolePolicy,
  keptRows,
  lengthOf,
  listHoles,
  mapSpans,
  type SalvagedColumn,
  SalvagedSequence,
} from "./holes.ts";
import type { ToldFacts } from "./known.ts";

import { countWhole, encodingOf, fillOf, nameSome, type Survey, type SurveyOptions } from "./survey-array.ts";

/** One file: plain bytes, or a numpy array. */
export async function surveyFile(given: ReadableStore, key: string, options: SurveyOptions): Promise<Survey> {
  const scan = options.scan === true;
  const head = (await given.getRange(key, { offset: 0, length: 32 })) ?? new Uint8Array(0);
  const problems: string[] = [];
  const lost: string[] = [];
  let store = given;
  try {
    store = await withJournal(given, key, head, options);
  } catch (error) {
    if (!isFlaw(error)) throw error;
    problems.push(error.message);
    lost.push("a change in place that was not finished");
  }
  const path = store.describe(key);
  const file = await findFileChunks(store, key, { maxNbytes: 0x7fff_ffff, scan });
  if (file === undefined) throw new SuperchunkError("NOT_FOUND", "there is no such file", { path });
  const metadata = toldMetadata(asObject(file.metadata), options);
  if (file.lostMetadata && !isNumpy(metadata)) {
    throw new SuperchunkError(
      "INCOMPLETE",
      `${file.problems.join("; ")}. Nothing else tells what the chunks hold: give it with --dtype, for example --dtype "<f8", and --shape; --dtype "|u1" for plain bytes`,
      { path, field: "metadata" },
    );
  }
  if (file.lostMetadata) lost.push("the metadata");
  const isArray = isNumpy(metadata);
  const dtype: DType = isArray
    ? parseDType(metadata["dtype"] ?? "|u1", path)
    : { kind: "uint", itemSize: 1, byteOrder: "none" };
  const shape = metadata["shape"] as readonly number[] | undefined;
  const told = isArray && shape !== undefined ? elementsOf(shape) * dtype.itemSize : undefined;
  const found = await findBloscpackChunks(store, file, told);
  if (found.slots.length === 0 && told !== 0 && file.header === undefined)
    throw new SuperchunkError(
      /\.blp$/i.test(key) ? "INCOMPLETE" : "UNSUPPORTED",
      `it is not an archive, or no chunk of it was found: ${found.problems.join("; ")}. --scan searches the whole file for chunks`,
      { path },
    );
  problems.push(...found.problems);
  if (found.unplaced.length > 0) lost.push(`chunks that nothing gives a place: ${nameSome(found.unplaced)}`);
  const order = metadata["order"] === "F" ? "F" : "C";
  const dimensions = shape ?? [Math.floor(bytesOf(found) / dtype.itemSize)];
  const stored = order === "F" ? [...dimensions].reverse() : dimensions;
  const rowBytes = isArray ? elementsOf(stored.slice(1)) * dtype.itemSize : 1;
  const fill = fillOf(dtype, [], options.fill ?? null, { problems, isTold: options.fill !== undefined });
  const column: SalvagedColumn = {
    name: undefined,
    key,
    found,
    rowBytes,
    fill,
    ...(await encodingOf(store, found)),
  };
  const rows = Math.floor((told ?? bytesOf(found)) / Math.max(1, rowBytes));
  const holes = listHoles([column], rows);
  const header = file.header;
  const dialect =
    header?.version === 1 ? "bloscpack-1" : header?.version === 2 ? "bloscpack-2" : "bloscpack-3";
  const kept = (policy: HolePolicy): RowSpan[] => {
    if (holes.length > 0 && policy !== "fill" && isArray && (order === "F" || dimensions.length === 0))
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the rows of ${order === "F" ? "an array in Fortran order" : "an array without dimensions"} cannot be ${policy === "cut" ? "cut off" : "dropped"}: take --holes fill`,
        { path, field: "holes" },
      );
    return keptRows(holes, rows, policy);
  };
  return {
    dialect,
    kind: isArray ? "array" : "bytes",
    rows,
    rowsBefore: told === undefined ? undefined : rows,
    holes,
    whole: countWhole([column]),
    problems,
    lost,
    known: undefined,
    columns: [column],
    store,
    kept,
    open: (policy) => {
      const spans = kept(policy);
      const sequence = new SalvagedSequence(store, column, spans);
      const now =
        order === "F" || dimensions.length === 0 ? dimensions : [lengthOf(spans), ...dimensions.slice(1)];
      const filled = mapSpans(mergeSpans(policy === "fill" ? holes : []), spans);
      const noted: JsonObject =
        filled.length === 0 ? {} : { [FILLED]: filled.map(({ from, to }) => [from, to]) };
      const own = { ...metadata, ...(isArray ? { shape: now } : {}), ...noted };
      const value = Object.keys(own).length === 0 ? undefined : own;
      return showFile({ store: sequence.store, key, dialect, sequence, metadata: value }, options);
    },
  };
}

/** Metadata of a file as they are; what the caller says where they do not describe an array. */
function toldMetadata(stored: JsonObject, { dtype, shape }: ToldFacts): JsonObject {
  if ((dtype === undefined && shape === undefined) || isNumpy(stored)) return stored;
  const parsed = formatDType(parseDType(dtype ?? "|u1", "--dtype"));
  return {
    order: "C",
    ...stored,
    container: "numpy",
    dtype: parsed,
    ...(shape === undefined ? {} : { shape }),
  };
}

function bytesOf({ slots, chunkBytes }: FoundColumn): number {
  const last = slots.length - 1;
  return last < 0 ? 0 : last * chunkBytes + (slots[last]?.nbytes ?? 0);
}
