import { describe, expect, it } from "vitest";
import { checkFolder, checkKey, joinKey, splitKey } from "../../src/store/key.ts";
import fc from "../property.ts";
import { BAD_KEYS } from "./store-contract.ts";

const unsafe = expect.objectContaining({ code: "UNSAFE_PATH" });

describe("a key", () => {
  it("is refused if it is not a plain path", () => {
    for (const key of BAD_KEYS) expect(() => checkKey(key), JSON.stringify(key)).toThrow(unsafe);
  });

  it("may have dots, spaces and any letters in its parts", () => {
    for (const key of [
      "a",
      "a/b/c",
      "...",
      ".a",
      "a.",
      "..a/b..",
      "a b",
      "ü/日本/😀",
      "__rootdirs__",
      "-",
      "a:b",
    ]) {
      expect(() => checkKey(key), key).not.toThrow();
    }
  });

  it("stays below its root when resolved as a path, whatever it contains", () => {
    const piece = fc.constantFrom("a", "b", ".", "..", "/", "\\", "\0", " ");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const key = pieces.join("");
        try {
          checkKey(key);
        } catch {
          return;
        }
        expect(new URL(key.split("/").map(encodeURIComponent).join("/"), "http://h/root/").pathname).toMatch(
          /^\/root\/./,
        );
      }),
    );
  });

  it("is the root only as a folder", () => {
    expect(() => checkFolder("")).not.toThrow();
    expect(() => checkFolder("/")).toThrow(unsafe);
  });

  it("is joined from parts, without empty ones, and not from parts that lead out", () => {
    expect(joinKey("", "a", "", "b/c")).toBe("a/b/c");
    expect(joinKey("", "")).toBe("");
    for (const parts of [["a", ".."], ["a", "/b"], ["a/", "b"], ["/"]])
      expect(() => joinKey(...parts)).toThrow(unsafe);
  });

  it("splits into folder and name", () => {
    expect(splitKey("a/b/c")).toEqual({ folder: "a/b", name: "c" });
    expect(splitKey("c")).toEqual({ folder: "", name: "c" });
  });

  it("says in one line what is wrong with it", () => {
    expect(() => checkKey("a/../b")).toThrowErrorMatchingInlineSnapshot(
      `[SuperchunkError: a/../b: the key "a/../b" is not a plain path inside the archive; expected parts separated by "/", none of them empty, "." or "..", without backslash and NUL]`,
    );
  });
});
