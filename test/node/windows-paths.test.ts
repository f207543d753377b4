/** Local paths by the rules of Windows: what they name in files, and the locations of references and places. */
import { win32 } from "node:path";
import { expect, it, vi } from "vitest";
import { addressOf, locate, nameOf, pathOf } from "../../src/node/locate.ts";
import { toLocation } from "../../src/references/containers/containers.ts";

vi.mock("node:path", async (load) => {
  const { win32: rules } = await load<typeof import("node:path")>();
  return { ...rules, win32: rules };
});

vi.mock("node:fs", async (load) => {
  const real = await load<typeof import("node:fs")>();
  const statSync = (path: string): unknown => {
    if (path !== "C:\\data\\bars.h5") return undefined;
    return { isFile: () => true, isDirectory: () => false };
  };
  return { ...real, statSync };
});

it("a path within a file has the file as its store's object, whichever separators were typed", async () => {
  for (const path of ["C:\\data\\bars.h5\\group\\prices", "C:/data/bars.h5/group/prices"])
    expect(await locate(path)).toMatchObject({
      store: { root: "C:\\data" },
      path: "bars.h5/group/prices",
    });
});

it("a folder has a location, and a location a path", () => {
  for (const [path, location] of [
    ["C:\\data", "file:///C:/data/"],
    ["c:\\my data\\", "file:///C:/my data/"],
    ["d:\\", "file:///D:/"],
    ["\\\\server\\share\\data", "file:////server/share/data/"],
  ] as const) {
    expect(addressOf(path)).toBe(location);
    expect(pathOf(location).toLowerCase()).toBe(win32.resolve(path).toLowerCase());
  }
  expect(toLocation("c:\\data\\x")).toBe("file:///C:/data/x");
  expect(nameOf("C:\\data\\bars.h5")).toBe("bars.h5");
});
