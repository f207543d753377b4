/** Parses numpy's slice syntax for `--slice`. Knows text only. */

import { InvalidArgumentError } from "commander";
import type { Selection, Slice } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";
import { formatPlural } from "./units.ts";

const INTEGER = /^[+-]?\d+$/;

/**
 * A selection from `3`, `-1`, `0:10`, `::2`, `0:10,3`, `:,1:`, `...,0`; brackets around it are allowed. An ellipsis stands
 * for all dimensions that are missing to `ndim`. Throws commander's `InvalidArgumentError`.
 */
export function parseSelection(text: string, ndim: number): Selection {
  const bare = text
    .trim()
    .replace(/^\[(.*)\]$/s, "$1")
    .trim();
  if (bare === "") throw new InvalidArgumentError('the slice is empty; expected for example "0:10,3"');
  const parts = bare.split(",").map((part) => part.trim());
  if (parts.length > 1 && parts[parts.length - 1] === "") parts.pop();
  const entries = parts.filter((part) => part !== "...").map(parseEntry);
  const ellipses = parts.length - entries.length;
  if (ellipses > 1) throw new InvalidArgumentError(`"${text}" has more than one "..."`);
  if (entries.length > ndim)
    throw new InvalidArgumentError(
      `"${text}" has ${entries.length} ${entries.length === 1 ? "entry" : "entries"}, the values have ${formatPlural(ndim, "dimension")}`,
    );
  if (ellipses === 0) return entries;
  const at = parts.indexOf("...");
  return [...entries.slice(0, at), ...Array<null>(ndim - entries.length).fill(null), ...entries.slice(at)];
}

/** The same after the archive at `path` was opened. Throws `BAD_ARGUMENT`, naming the path. */
export function parseSliceOption(text: string, ndim: number, path: string): Selection {
  try {
    return parseSelection(text, ndim);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    const message = `--slice: ${error.message}`;
    throw wrongUse("slice", message, { path, found: text });
  }
}

function parseEntry(part: string): number | Slice {
  if (INTEGER.test(part)) return toInteger(part, part);
  const bounds = part.split(":").map((bound) => bound.trim());
  if (bounds.length < 2 || bounds.length > 3 || !bounds.every((bound) => bound === "" || INTEGER.test(bound)))
    throw new InvalidArgumentError(`"${part}" is neither an index nor start:stop:step`);
  const [start, stop, step] = bounds.map((bound) => (bound === "" ? null : toInteger(bound, part)));
  if (step !== undefined && step !== null && step < 1)
    throw new InvalidArgumentError(`"${part}" has the step ${step}; steps are 1 or more`);
  return { start: start ?? null, stop: stop ?? null, step: step ?? null };
}

function toInteger(text: string, part: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new InvalidArgumentError(`"${part}" has a number beyond 2^53`);
  return value;
}
