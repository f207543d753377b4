import { CommanderError } from "commander";
import { describe, expect, it } from "vitest";
import { describeFailure, exitCodeOf, Interruption, toJsonFailure } from "../../cli/failure.ts";
import { type ErrorCode, SuperchunkError } from "../../src/errors.ts";

const CODES: Readonly<Record<ErrorCode, number>> = {
  BAD_MAGIC: 3,
  TRUNCATED: 3,
  BAD_FIELD: 3,
  BAD_CHUNK: 3,
  CHECKSUM_MISMATCH: 3,
  INCOMPLETE: 3,
  UNSAFE_PATH: 3,
  UNSUPPORTED: 1,
  NOT_FOUND: 1,
  BAD_ARGUMENT: 2,
  CONFLICT: 1,
  STALE: 1,
  READ_ONLY: 1,
  LIMIT: 1,
  NO_SPACE: 1,
  IO: 1,
};

describe("exit codes", () => {
  it.each(Object.entries(CODES))("[FX-01] %s ends with %d", (code, exit) => {
    expect(exitCodeOf(new SuperchunkError(code as ErrorCode, "x"))).toBe(exit);
  });

  it("[FX-01] a container that the caller has not allowed is not damage", () => {
    expect(exitCodeOf(new SuperchunkError("UNSAFE_PATH", "x", { field: "container" }))).toBe(1);
  });

  it("help is success, every other complaint of the parser is wrong usage", () => {
    expect(exitCodeOf(new CommanderError(0, "commander.helpDisplayed", "(outputHelp)"))).toBe(0);
    expect(exitCodeOf(new CommanderError(1, "commander.unknownOption", "error: unknown option"))).toBe(2);
  });

  it("[FX-01] a signal is 128 plus its number", () => {
    expect(exitCodeOf(new Interruption("SIGINT"))).toBe(130);
    expect(exitCodeOf(new Interruption("SIGTERM"))).toBe(143);
  });

  it("a bug in the program itself is a failure that says so", () => {
    expect(exitCodeOf(new TypeError("x is not a function"))).toBe(1);
    expect(describeFailure(new TypeError("x is not a function"))).toMatch(
      /^internal error: x is not a function; run again with --debug/,
    );
  });
});

describe("an error for programs", () => {
  it("has its place, and what was expected and found, as fields", () => {
    const error = new SuperchunkError("BAD_FIELD", "nchunks is 3", {
      path: "a.blp",
      chunk: 2,
      offset: 16,
      field: "nchunks",
      expected: 2n ** 62n,
      found: Number.NaN,
    });
    expect(toJsonFailure(error)).toEqual({
      code: "BAD_FIELD",
      message: "a.blp: chunk 2: nchunks is 3",
      path: "a.blp",
      chunk: 2,
      offset: 16,
      field: "nchunks",
      expected: "4611686018427387904",
      found: "NaN",
    });
  });

  it("is one line for people, whatever the message", () => {
    expect(describeFailure(new SuperchunkError("IO", "one\n  two", { path: "p" }))).toBe("p: one two");
  });

  it("of the operating system is IO, or NO_SPACE if the disk is full", () => {
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), {
      code: "ENOSPC",
      path: "/x",
    });
    expect(toJsonFailure(full)).toEqual({
      code: "NO_SPACE",
      message: "/x: no space left on device (ENOSPC in write)",
      path: "/x",
    });
  });
});

it("a library option named in a message is shown as the command's option; other braces stay", () => {
  const error = new SuperchunkError(
    "INCOMPLETE",
    'give {dtype: "<f8"}, {shape}, {scan: true} and {holes: "fill"}; not {other: true} of {holes',
    { path: "{x}.blp" },
  );
  expect(describeFailure(error)).toBe(
    '{x}.blp: give --dtype "<f8", --shape, --scan and --holes fill; not {other: true} of {holes',
  );
});
