/** Sets of references crafted to reach what their reader did not allow. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { openContainer } from "../../src/node/references.ts";
import { openWebContainer, webAddress } from "../../src/references/containers/container-reader.ts";
import type { Container } from "../../src/references/containers/containers.ts";
import { openReferences } from "../../src/references/kerchunk/open-references.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ReadableStore } from "../../src/store/types.ts";
import { temporaryFolder } from "../folder.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const ALLOWED = new TextEncoder().encode("what may be read");
const SECRET = new TextEncoder().encode("what may not be read");

let folder: string;
let server: TestServer;
let other: TestServer;

beforeAll(async () => {
  folder = temporaryFolder();
  for (const name of ["data", "data-evil", "above"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "data", "a"), ALLOWED);
  for (const name of ["data-evil/a", "above/a", "secret"]) writeFileSync(join(folder, name), SECRET);
  symlinkSync(join(folder, "secret"), join(folder, "data", "link"));
  symlinkSync("../above", join(folder, "data", "folder"));
  server = await serveObjects([
    ["data/a", ALLOWED],
    ["data-evil/a", SECRET],
    ["secret", SECRET],
  ]);
  other = await serveObjects([["a", SECRET]]);
});

afterAll(async () => {
  await server.close();
  await other.close();
});

/** Reads a reference through a set, with one container allowed. Returns the bytes, or the error's code. */
async function read(
  location: string,
  container: Container,
  opening: typeof openContainer = openContainer,
): Promise<string> {
  const store = new MemoryStore();
  const set = { version: 1, refs: { x: [location, 0, 16], y: [location] } };
  await store.put("set.json", new TextEncoder().encode(JSON.stringify(set)));
  try {
    const references = await openReferences(store, "set.json", {
      containers: [container],
      openContainer: opening,
    });
    try {
      const bytes = (await references.get("/y")) ?? (await references.get("/x"));
      return bytes === undefined ? "absent" : new TextDecoder().decode(bytes);
    } finally {
      await references.close();
    }
  } catch (error) {
    if (isSuperchunkError(error)) return error.code;
    throw error;
  }
}

describe("a crafted reference", () => {
  it.each([
    ["data-evil/a", "UNSAFE_PATH"],
    ["data/../secret", "UNSAFE_PATH"],
    ["data/./../secret", "UNSAFE_PATH"],
    ["data/%2e%2e/secret", "UNSAFE_PATH"],
    ["data/%2E./secret", "UNSAFE_PATH"],
    ["data/..%2fsecret", "UNSAFE_PATH"],
    ["data/..\\secret", "UNSAFE_PATH"],
    ["data/%5c..%5csecret", "UNSAFE_PATH"],
    ["data/a%00", "UNSAFE_PATH"],
    ["data/a\0", "UNSAFE_PATH"],
    ["data/a\n", "UNSAFE_PATH"],
    ["data//a", "UNSAFE_PATH"],
    ["data//../secret", "UNSAFE_PATH"],
    ["data/%252e%252e/secret", "NOT_FOUND"],
    ["data/link", "UNSAFE_PATH"],
    ["data/folder/a", "UNSAFE_PATH"],
    ["data", "UNSAFE_PATH"],
    ["data/", "UNSAFE_PATH"],
  ])("to a file, file:///…/%s, is refused: %s", async (path, code) => {
    const container: Container = { name: "disk", prefix: `file://${folder}/data/`, store: "local" };
    expect(await read(`file://${folder}/data/a`, container)).toBe("what may be read");
    expect(await read(`file://${folder}/${path}`, container)).toBe(code);
  });

  it.each([
    ["/etc/hostname", "BAD_FIELD"],
    ["../secret", "BAD_FIELD"],
    ["file://etc/hostname", "UNSAFE_PATH"],
    ["FILE:///etc/hostname", "BAD_FIELD"],
    ["file://localhost/etc/hostname", "UNSAFE_PATH"],
    ["memory://a", "UNSAFE_PATH"],
    ["//127.0.0.1/a", "BAD_FIELD"],
  ])("that is not inside its container, %s, is refused: %s", async (location, code) => {
    const container: Container = { name: "disk", prefix: `file://${folder}/data/`, store: "local" };
    expect(await read(location, container)).toBe(code);
  });

  it("to a web server reaches nothing outside the container's folder, and no other server", async () => {
    const { origin, host } = new URL(server.url);
    const container: Container = { name: "web", prefix: `${server.url}/data/`, store: "http" };
    expect(await read(`${server.url}/data/a`, container)).toBe("what may be read");
    server.log.length = 0;
    for (const location of [
      `${server.url}/data-evil/a`,
      `${server.url}/data/../secret`,
      `${server.url}/data/%2e%2e/secret`,
      `${server.url}/data/%2E%2E/secret`,
      `${server.url}/data/.%2e/secret`,
      `${server.url}/data/%2e%2e%2fsecret`,
      `${server.url}/data/..%5csecret`,
      `${server.url}/data/a?x`,
      `${server.url}/data/a#x`,
      `${other.url}/a`,
      `${origin}@${new URL(other.url).host}/base%20dir/data/a`,
      `http://${host}:80@${new URL(other.url).host}/base%20dir/data/a`,
      `http://${host}.evil/base%20dir/data/a`,
    ])
      expect([location, await read(location, container)]).toEqual([
        location,
        expect.stringMatching(/^(?:UNSAFE_PATH|BAD_FIELD)$/),
      ]);
    expect([server.log, other.log]).toEqual([[], []]);
    // Encoded twice, it is the name of a folder, and stays one.
    expect(await read(`${server.url}/data/%252e%252e/secret`, container)).toBe("NOT_FOUND");
    expect(server.log.every((line) => line.includes("/data/%252e%252e/secret"))).toBe(true);
  });

  it("is not followed when its server redirects to a file, another server or the local network", async () => {
    const container: Container = { name: "web", prefix: `${server.url}/data/`, store: "http" };
    for (const [to, code] of [
      [`${other.url}/a`, "UNSAFE_PATH"],
      ["http://169.254.169.254/latest/meta-data/", "UNSAFE_PATH"],
      ["http://[::1]:1/", "UNSAFE_PATH"],
      ["file:///etc/hostname", "IO"],
      ["//evil.example/a", "UNSAFE_PATH"],
      ["http://%zz", "IO"],
    ] as const) {
      server.intercept = (_, response) => Boolean(response.writeHead(302, { location: to }).end());
      expect([to, await read(`${server.url}/data/a`, container)]).toEqual([to, code]);
    }
    server.intercept = () => false;
    expect(other.log).toEqual([]);
  });

  it.each([
    ["s3://bucket/a", "s3://bucket-evil/a/b"],
    ["s3://bucket/a", "s3://bucket/a-evil/b"],
    ["s3://bucket/a", "s3://bucket/A/b"],
    ["s3://bucket/a", "s3://BUCKET/a/b"],
    ["s3://bucket/a", "s3://bucket/a/../b"],
    ["s3://bucket/a", "s3://bucket//a/b"],
    ["s3://bucket/a", "s3://bucket/./a/b"],
    ["s3://bucket/a", "s3://user:password@bucket/a/b"],
    ["gs://bucket/a", "gs://bucket.evil/a/b"],
    ["az://account/a", "az://account@evil/a/b"],
  ])("to a bucket matches no container except its own: %s, %s", async (allowed, location) => {
    const opened: string[] = [];
    const opening = (container: Container): ReadableStore => {
      opened.push(container.name);
      return new MemoryStore([["b", SECRET]]);
    };
    const store = allowed.startsWith("s3") ? "s3" : allowed.startsWith("gs") ? "gcs" : "azure";
    const container: Container = { name: "bucket", prefix: `${allowed}/`, store, anonymous: true };
    expect(await read(`${allowed}/b`, container, opening)).toContain("what may not");
    opened.length = 0;
    expect(await read(location, container, opening)).toMatch(/^(?:UNSAFE_PATH|BAD_FIELD)$/);
    expect(opened).toEqual([]);
    // A prefix without its final slash would match every bucket whose name begins like this one.
    expect(await read(`${allowed}/b`, { ...container, prefix: allowed }, opening)).toBe("BAD_ARGUMENT");
  });

  it("cannot make a bucket's name part of another host or path", () => {
    const at = (prefix: string, more: Partial<Container> = {}): string =>
      webAddress({ name: "x", prefix, store: "s3", anonymous: true, ...more });
    expect(new URL(at("s3://bucket/a b/")).host).toBe("bucket.s3.us-east-1.amazonaws.com");
    for (const bucket of [
      "evil.example#",
      "evil.example?",
      "evil.example:80",
      "a@evil.example",
      "a\\b",
      "..",
      "a%2fb",
    ])
      expect(
        () =>
          openWebContainer({ name: "x", prefix: `s3://${bucket}/`, store: "s3", anonymous: true }, undefined),
        bucket,
      ).toThrow();
    for (const region of ["x.evil.example/", "evil.example#", "a@b"])
      expect(
        () =>
          openWebContainer(
            { name: "x", prefix: "s3://bucket/", store: "s3", anonymous: true, region },
            undefined,
          ),
        region,
      ).toThrow();
  });
});
