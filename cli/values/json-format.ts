/** `cat --format json`: one array, streamed, a row to a line. */

import { type LongOptions, type PlainJson, toJsonValue } from "../../src/index.ts";
import { nest } from "../../src/values/values.ts";
import type { Output } from "../output/output.ts";
import { readBatches, type ValueList, type ValueSource } from "./value-source.ts";

/** The values of one array as nested lists of its shape; a scalar as it is. */
export async function printJson(out: Output, source: ValueSource, options: LongOptions): Promise<void> {
  if (source.shape.length === 0) {
    const list = await source.read(0, 1, options);
    await out.line(jsonText(toJsonValue(list.at(0), source.dtype)));
    return;
  }
  await printRows(out, [source], options, (lists, row, count) => rowText(lists[0], source, row, count));
}

/** The rows of a table as objects, `{"column": value}`, columns in their order (which objects of JavaScript do not keep). */
export async function printJsonRecords(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
): Promise<void> {
  const names = sources.map((source) => JSON.stringify(source.name));
  await printRows(out, sources, options, (lists, row, count) => {
    const members = sources.map((source, s) => `${names[s]}:${rowText(lists[s], source, row, count)}`);
    return `{${members.join(",")}}`;
  });
}

function rowText(list: ValueList | undefined, source: ValueSource, row: number, count: number): string {
  if (list === undefined) return "null";
  if (source.rowShape.length === 0) return jsonText(toJsonValue(list.at(row), source.dtype));
  const each = list.length / count;
  const flat = Array.from({ length: each }, (_, i) => toJsonValue(list.at(row * each + i), source.dtype));
  return jsonText(nest(flat, source.rowShape) as PlainJson);
}

/** JSON on one line. `JSON.stringify` would drop the sign of -0. */
function jsonText(value: PlainJson): string {
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join(",")}]`;
  return JSON.stringify(value);
}

async function printRows(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
  toText: (lists: readonly ValueList[], row: number, count: number) => string,
): Promise<void> {
  const rows = Math.min(...sources.map((source) => source.rows));
  let separator = "[\n";
  for await (const batch of readBatches(sources, 0, rows, options)) {
    const count = batch.end - batch.first;
    for (let row = 0; row < count; row++) {
      const waiting = out.text(separator + toText(batch.lists, row, count));
      if (waiting !== undefined) await waiting;
      separator = ",\n";
    }
  }
  await out.text(separator === ",\n" ? "\n]\n" : "[]\n");
}
