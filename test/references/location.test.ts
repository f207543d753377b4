import { expect, it } from "vitest";
import { Locations, toLocation } from "../../src/references/containers/containers.ts";

const DESCRIBED = [
  "/data/a/__0.blp",
  "/data/a/__1.blp",
  "/data/b/__1.blp",
  "/data/b/100% of ü.blp",
  "/data/b/__2.blp",
  "/data/b/.hidden",
  "https://host/a b/ü/__0.blp",
  "https://host/a b/ü/__1.blp",
  "s3://bucket/x/y.blp",
  "s3://bucket/x/z.blp",
  "C:\\data\\a.blp",
  "C:\\data\\b.blp",
  "/top.blp",
];

it("Locations gives for many objects in a row what it gives for each on its own", () => {
  const locations = new Locations();
  for (const described of [...DESCRIBED, ...DESCRIBED])
    expect(locations.of(described)).toBe(toLocation(described));
});

it("Locations refuses the same paths, also after accepted ones", () => {
  const locations = new Locations();
  for (const [described, code] of [
    ["/data/../etc/passwd", "UNSAFE_PATH"],
    ["/data/a/..", "UNSAFE_PATH"],
    ["/data/a/.", "UNSAFE_PATH"],
    ["/data/a/x\ny", "UNSAFE_PATH"],
    ["https://user@host/a", "BAD_FIELD"],
    ["https://host/a?b/c", "BAD_FIELD"],
    ["data/a", "UNSUPPORTED"],
  ] as const) {
    locations.of("/data/a/__0.blp");
    expect(() => locations.of(described), described).toThrow(expect.objectContaining({ code }));
    expect(() => toLocation(described), described).toThrow(expect.objectContaining({ code }));
  }
});
