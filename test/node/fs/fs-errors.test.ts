import * as fs from "node:fs";
import { describe, expect, it } from "vitest";
import { SuperchunkError } from "../../../src/errors.ts";
import { explainError } from "../../../src/node/fs/fs-handles.ts";
import { edit, unlink } from "../../../src/node/index.ts";

/** An error as Node makes them. */
function makeSystemError(code: string): Error {
  return Object.assign(new Error(`${code}: told by the system`), { code, syscall: "open", errno: -1 });
}

describe("an error of the operating system", () => {
  it("gets the code that tells the caller what to do, with path and cause", () => {
    const codes = [
      "ENOSPC",
      "EDQUOT",
      "EROFS",
      "EACCES",
      "EPERM",
      "EMFILE",
      "EFBIG",
      "EEXIST",
      "ENOTDIR",
      "ELOOP",
      "EIO",
    ];
    const explained = codes.map((code) => {
      const cause = makeSystemError(code);
      const error = explainError(cause, "/a/b", "writing", true);
      expect(error).toBeInstanceOf(SuperchunkError);
      expect(error).toMatchObject({ details: { path: "/a/b", found: code, cause } });
      return `${code} ${(error as SuperchunkError).code}`;
    });
    expect(explained).toEqual([
      "ENOSPC NO_SPACE",
      "EDQUOT NO_SPACE",
      "EROFS READ_ONLY",
      "EACCES READ_ONLY",
      "EPERM READ_ONLY",
      "EMFILE LIMIT",
      "EFBIG LIMIT",
      "EEXIST CONFLICT",
      "ENOTDIR CONFLICT",
      "ELOOP UNSAFE_PATH",
      "EIO IO",
    ]);
  });

  it("is IO if reading is not permitted: READ_ONLY would be misleading", () => {
    expect(explainError(makeSystemError("EACCES"), "/a", "reading", false)).toMatchObject({
      code: "IO",
      message:
        "/a: permission denied; check owner and mode of the file and its folder (EACCES while reading)",
    });
  });

  it("is explained in the form in which Node throws it", () => {
    let thrown: unknown;
    try {
      fs.readFileSync("/nothing/here");
    } catch (error) {
      thrown = error;
    }
    expect(explainError(thrown, "/nothing/here", "reading", false)).toMatchObject({ code: "NOT_FOUND" });
  });

  it("is left alone if it is not one: aborts, errors of this library, bugs", () => {
    for (const error of [
      new SuperchunkError("STALE", "x"),
      new DOMException("x", "AbortError"),
      new TypeError("x"),
      "x",
    ]) {
      expect(explainError(error, "/a", "reading", false)).toBe(error);
    }
  });
});

it.each([
  ["edit", edit],
  ["unlink", unlink],
])("%s throws errors of this library for a path that the system refuses", async (_, call) => {
  const path = "x".repeat(300);
  await expect(call(path)).rejects.toMatchObject({ code: "LIMIT", message: expect.stringContaining(path) });
});
