/** Containers: which one a location belongs to, how they are edited and kept, and what is refused. */
import { describe, expect, it } from "vitest";
import { isSuperchunkError, type SuperchunkError } from "../../src/errors.ts";
import { ContainerReader } from "../../src/references/containers/container-reader.ts";
import {
  type Container,
  Containers,
  commonFolder,
  defaultContainer,
  formatContainers,
  parseContainers,
  toLocation,
} from "../../src/references/containers/containers.ts";
import { MemoryStore } from "../../src/store/memory.ts";

const bucket: Container = { name: "bucket", prefix: "s3://bucket/", store: "s3", region: "eu-west-1" };
const inner: Container = { name: "inner", prefix: "s3://bucket/private/", store: "s3", credentials: "mine" };

function failure(run: () => unknown): SuperchunkError {
  try {
    run();
  } catch (error) {
    if (isSuperchunkError(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("the container of a location", () => {
  it("is the one with the longest prefix, whatever the order", () => {
    for (const list of [
      [bucket, inner],
      [inner, bucket],
    ]) {
      const containers = new Containers(list);
      expect(containers.match("s3://bucket/private/a").name).toBe("inner");
      expect(containers.match("s3://bucket/public/a").name).toBe("bucket");
      expect(containers.match("s3://bucket/private/b").name).toBe("inner");
    }
  });

  it("is refused by name if there is none [FV-04]", () => {
    const error = failure(() => new Containers([bucket]).match("s3://other/a"));
    expect([error.code, error.details.found]).toEqual(["UNSAFE_PATH", "s3://other/a"]);
    expect(error.message).toMatchInlineSnapshot(
      `"the reference to s3://other/a is in no container; known: "bucket" (s3://bucket/). To read it, open the references with {allow: "s3://other/"}"`,
    );
  });

  it.each([
    "s3://bucket/private/../../other/a",
    "s3://bucket/%2e%2e/a",
    "https://host/a/%2E%2e/b",
    "https://host/a%2fb",
    "file:///data/../etc/passwd",
    "file:///data/./a",
  ])("never follows %s", (location) => {
    const all = new Containers([
      bucket,
      { name: "web", prefix: "https://host/", store: "http" },
      { name: "disk", prefix: "file:///data/", store: "local" },
    ]);
    expect(failure(() => all.match(location)).code).toBe("UNSAFE_PATH");
  });

  it("has no query, and no password that a message would show", () => {
    expect(failure(() => toLocation("https://host/a?signature=secret")).code).toBe("BAD_FIELD");
    const error = failure(() => toLocation("https://me:secret@host/a"));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.message).not.toContain("secret");
    expect(JSON.stringify(error.details)).not.toContain("secret");
  });
});

describe("a list of containers", () => {
  it("is edited without touching references, but a container that they need is not removed [FV-05]", () => {
    const containers = new Containers([bucket]);
    containers.edit("bucket", { location: "s3://moved/here/", region: "us-east-2" });
    expect(containers.match("s3://bucket/a")).toEqual({
      ...bucket,
      location: "s3://moved/here/",
      region: "us-east-2",
    });
    expect(failure(() => containers.remove("bucket", ["s3://bucket/a"])).code).toBe("CONFLICT");
    containers.remove("bucket", ["s3://other/a"]);
    expect([...containers]).toEqual([]);
    expect(failure(() => containers.edit("bucket", {})).code).toBe("NOT_FOUND");
  });

  it.each<[string, Container]>([
    ["a prefix without its final slash", { ...bucket, prefix: "s3://bucket/private" }],
    ["a moved location without its final slash", { ...bucket, location: "s3://bucket" }],
    ["a store that does not match the prefix", { ...bucket, store: "gcs" }],
    ["a scheme without a host", { ...bucket, prefix: "s3://" }],
    ["a name with a slash", { ...bucket, name: "a/b" }],
    ["credentials for an anonymous container", { ...inner, anonymous: true }],
  ])("refuses %s", (_, container) => {
    expect(failure(() => new Containers([container])).code).toBe("BAD_ARGUMENT");
  });

  it("refuses two containers with one name, or with one prefix", () => {
    expect(failure(() => new Containers([bucket, { ...inner, name: "bucket" }])).code).toBe("BAD_ARGUMENT");
    expect(failure(() => new Containers([bucket, { ...inner, prefix: bucket.prefix }])).code).toBe(
      "BAD_ARGUMENT",
    );
  });

  it("is the same after writing and reading its file [FV-03]", () => {
    const text = formatContainers([bucket, inner]);
    expect([...parseContainers(text, "x.containers.json")]).toEqual([bucket, inner]);
    expect(text).not.toMatch(/secret|password|token/i);
  });

  it.each<[string, string, string]>([
    ["incomplete JSON", "{", "TRUNCATED"],
    ["another file", "{}", "BAD_FIELD"],
    ["a later version", '{"format":"superchunk-containers","version":2,"containers":[]}', "UNSUPPORTED"],
    ["a missing list", '{"format":"superchunk-containers","version":1}', "BAD_FIELD"],
    [
      "a secret",
      '{"format":"superchunk-containers","version":1,"containers":[{"name":"a","prefix":"s3://b/","store":"s3","secretAccessKey":"x"}]}',
      "BAD_FIELD",
    ],
    [
      "a member of another type",
      '{"format":"superchunk-containers","version":1,"containers":[{"name":"a","prefix":1,"store":"s3"}]}',
      "BAD_FIELD",
    ],
    [
      "a prefix without its final slash",
      '{"format":"superchunk-containers","version":1,"containers":[{"name":"a","prefix":"s3://b","store":"s3"}]}',
      "BAD_FIELD",
    ],
    [
      "a prefix of an unknown scheme",
      '{"format":"superchunk-containers","version":1,"containers":[{"name":"a","prefix":"ftp://b/","store":"s3"}]}',
      "UNSUPPORTED",
    ],
    [
      "two containers with one name",
      '{"format":"superchunk-containers","version":1,"containers":[{"name":"a","prefix":"s3://b/","store":"s3"},{"name":"a","prefix":"s3://c/","store":"s3"}]}',
      "BAD_FIELD",
    ],
  ])("is refused if its file has %s [FV-03]", (_, text, code) => {
    const error = failure(() => parseContainers(text, "x.containers.json"));
    expect([error.code, error.details.path]).toEqual([code, "x.containers.json"]);
  });

  it("has defaults for each scheme", () => {
    expect(defaultContainer("file:///data/")).toEqual({
      name: "local",
      prefix: "file:///data/",
      store: "local",
    });
    expect(defaultContainer("https://host/a/")).toMatchObject({ store: "http", anonymous: true });
    expect(defaultContainer("s3://b/")).toMatchObject({ store: "s3", region: "us-east-1", anonymous: true });
    expect(defaultContainer("gs://b/")).toMatchObject({ store: "gcs" });
    expect(failure(() => defaultContainer("ftp://b/")).code).toBe("UNSUPPORTED");
  });
});

describe("the common folder of many locations", () => {
  it("is what they have in common, and never only a scheme", () => {
    expect(commonFolder(["file:///a/b/1", "file:///a/b/2"])).toBe("file:///a/b/");
    expect(commonFolder(["file:///a/b/1", "file:///a/bc/2"])).toBe("file:///a/");
    expect(commonFolder(["file:///a/1", "file:///b/2"])).toBe("file:///");
    expect(commonFolder(["s3://a/x/1", "s3://a/y/2"])).toBe("s3://a/");
    expect(commonFolder(["s3://a/1", "s3://b/2"])).toBeUndefined();
  });
});

describe("a container whose objects were moved", () => {
  it.each<[string, Container, string, string]>([
    [
      "from a folder to a web server",
      { name: "a", prefix: "file:///data/", store: "http", location: "https://host/data/" },
      "file:///data/100%25.blp",
      "100%25.blp",
    ],
    [
      "from a web server to a folder",
      { name: "a", prefix: "https://host/data/", store: "local", location: "file:///data/" },
      "https://host/data/100%25.blp",
      "100%.blp",
    ],
  ])("%s has them under their old names", async (_, container, location, key) => {
    const store = new MemoryStore();
    await store.put(key, Uint8Array.of(1, 2, 3));
    const reader = new ContainerReader(new Containers([container]), {
      authorized: new Set(["a"]),
      openContainer: () => store,
    });
    const bytes = await reader.read({ location, offset: 1, length: 2, guard: undefined });
    expect([...bytes]).toEqual([2, 3]);
  });
});
