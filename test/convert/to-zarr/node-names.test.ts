import { describe, expect, it } from "vitest";
import { nameNodes, namePaths } from "../../../src/zarr/document/node-names.ts";

describe("node names", () => {
  it("stay as they are, extension included", () => {
    expect(
      [...nameNodes(["a.blp", "daily.bcolz", "c", "ü", "_x"])].filter(([from, to]) => from !== to),
    ).toEqual([]);
  });

  it("that Zarr reserves have their characters escaped", () => {
    expect(Object.fromEntries(nameNodes(["__x", "..", ".", "", "zarr.json", "a/b"]))).toEqual({
      __x: "%5F%5Fx",
      "..": "%2E%2E",
      ".": "%2E",
      "": "%",
      "zarr.json": "zarr%2Ejson",
      "a/b": "a%2Fb",
    });
  });

  it("that differ only in case get a number", () => {
    expect(Object.fromEntries(nameNodes(["Close", "close", "CLOSE", "close~2"]))).toEqual({
      Close: "Close",
      close: "close~2",
      CLOSE: "CLOSE~3",
      "close~2": "close~2~2",
    });
  });

  it("that are escaped never collide with another name", () => {
    expect(Object.fromEntries(nameNodes(["__x", "%5F%5Fx"]))).toEqual({
      __x: "%5F%5Fx~2",
      "%5F%5Fx": "%5F%5Fx",
    });
  });

  it("of paths create groups folder by folder", () => {
    expect(Object.fromEntries(namePaths(["A/x.blp", "a/x.blp", "a/__y", "z.blp"]))).toEqual({
      "A/x.blp": "A/x.blp",
      "a/x.blp": "a~2/x.blp",
      "a/__y": "a~2/%5F%5Fy",
      "z.blp": "z.blp",
    });
  });
});
