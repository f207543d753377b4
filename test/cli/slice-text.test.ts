import { InvalidArgumentError } from "commander";
import { describe, expect, it } from "vitest";
import { parseSelection } from "../../cli/input/slice-text.ts";

const part = (start: number | null, stop: number | null, step: number | null = null) => ({
  start,
  stop,
  step,
});

describe("numpy's slice syntax", () => {
  it.each([
    ["3", [3]],
    ["-1", [-1]],
    [":", [part(null, null)]],
    ["::2", [part(null, null, 2)]],
    ["0:10,3", [part(0, 10), 3]],
    ["-5:", [part(-5, null)]],
    ["[1:9:3, :]", [part(1, 9, 3), part(null, null)]],
    ["...,0", [null, null, 0]],
    ["1,...", [1, null, null]],
    ["0,...,0", [0, null, 0]],
    ["...", [null, null, null]],
    ["4,", [4]],
  ])("%s is read as numpy reads it", (text, selection) => {
    expect(parseSelection(text, 3)).toEqual(selection);
  });

  it.each([
    "",
    "a",
    "1:2:3:4",
    "1.5",
    "::0",
    "::-1",
    "0,,1",
    "...,...",
    "0,0,0,0",
    "99999999999999999999",
    "1;2",
  ])("%j is refused", (text) => {
    expect(() => parseSelection(text, 3)).toThrow(InvalidArgumentError);
  });
});
