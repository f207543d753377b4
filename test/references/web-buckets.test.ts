/**
 * Buckets that are read through their web interfaces, and containers within containers: which server is asked, and
 * what may be read.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { SuperchunkError } from "../../src/errors.ts";
import { openContainer } from "../../src/node/references.ts";
import type { Container } from "../../src/references/containers/containers.ts";
import {
  type OpenReferencesOptions,
  openReferences,
  type ReferenceStore,
} from "../../src/references/kerchunk/open-references.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const SECRET = "Bearer top-5ecret";
const KEY = "bucket/days/a b.blp";
let array = new Uint8Array();
let server: TestServer;

beforeAll(async () => {
  array = new Uint8Array(await readFile(join(corpusFolder, "bloscpack-3", "array-i4-2d.blp")));
});
beforeEach(async () => {
  server = await serveObjects([[KEY, array]]);
});
afterEach(() => server.close());

async function setOf(
  location: string,
  options: OpenReferencesOptions,
  guard?: readonly [number, null, string],
): Promise<ReferenceStore> {
  const store = new MemoryStore();
  const guards = guard === undefined ? {} : { guards: { [location]: guard } };
  const text = JSON.stringify({ version: 1, refs: { x: [location, 16, 32] }, ...guards });
  await store.put("set.json", new TextEncoder().encode(text));
  return openReferences(store, "set.json", options);
}

async function failure(reading: Promise<unknown>): Promise<SuperchunkError> {
  const error = await reading.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (error instanceof SuperchunkError) return error;
  throw new Error(`no error of ours: ${String(error)}`);
}

/** A bucket, reached through the server on loopback instead of its own web address. */
const buckets: readonly (readonly [string, Pick<Container, "prefix" | "store">])[] = [
  ["gs://", { prefix: "gs://bucket/", store: "gcs" }],
  ["az://", { prefix: "az://bucket/", store: "azure" }],
];

describe.each(buckets)("a reference to %s", (_, { prefix, store: kind }) => {
  const open: Container = { name: "public", prefix, store: kind, anonymous: true };
  const location = `${prefix}days/a b.blp`;

  it("is read by range requests over HTTP, under its encoded address", async () => {
    const store = await setOf(location, { containers: [{ ...open, endpoint: server.url }] });
    expect(await store.get("/x")).toEqual(array.slice(16, 48));
    expect(server.log.some((line) => line.endsWith("/bucket/days/a%20b.blp bytes=16-47"))).toBe(true);
    await store.close();
  });

  it("is read from the server that the environment names, with and without a scheme", async () => {
    const name = kind === "gcs" ? "STORAGE_EMULATOR_HOST" : "AZURE_STORAGE_ENDPOINT";
    const before = process.env[name];
    for (const told of kind === "gcs" ? [server.url, server.url.replace("http://", "")] : [server.url]) {
      process.env[name] = told;
      try {
        const store = await setOf(location, { openContainer, allow: [prefix] });
        expect(await store.get("/x")).toEqual(array.slice(16, 48));
        await store.close();
      } finally {
        if (before === undefined) delete process.env[name];
        else process.env[name] = before;
      }
    }
  });

  it("is refused if the object was replaced, by its ETag", async () => {
    const guard = [array.length, null, '"another"'] as const;
    const store = await setOf(location, { containers: [{ ...open, endpoint: server.url }] }, guard);
    expect(await failure(store.get("/x"))).toMatchObject({
      code: "STALE",
      details: { field: "etag", expected: '"another"' },
    });
    await store.close();
  });

  it("sends its token, which no error shows if it is refused", async () => {
    const { anonymous: _open, ...closed } = open;
    const containers = [{ ...closed, endpoint: server.url, credentials: "ours" }];
    const credentials = { ours: { headers: { authorization: SECRET } } };
    const store = await setOf(location, { containers, credentials });
    expect(await store.get("/x")).toEqual(array.slice(16, 48));
    expect(server.headers.every(({ authorization }) => authorization === SECRET)).toBe(true);
    server.intercept = (_request, response) => {
      response.writeHead(403).end(`${SECRET} is wrong`);
      return true;
    };
    const error = await failure(store.get("/x"));
    expect(error.details.found).toBe(403);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("5ecret");
    await store.close();
  });
});

describe("a bucket without an endpoint", () => {
  it("of Azure is refused, since its account is not known", async () => {
    const store = await setOf("az://bucket/a", {
      containers: [{ name: "public", prefix: "az://bucket/", store: "azure", anonymous: true }],
    });
    expect(await failure(store.get("/x"))).toMatchObject({
      code: "BAD_ARGUMENT",
      details: { field: "endpoint" },
    });
  });
});

describe("a SAS signature of Azure", () => {
  const prefix = "az://bucket/";
  const SIGNATURE = "sv=2026-04-06&sig=top-5ecret%3D";
  const signed = (): boolean[] => server.log.map((line) => line.includes(`?${SIGNATURE}`));
  let restore: () => void;

  beforeEach(() => {
    const names = ["AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_SAS_TOKEN"];
    const before = names.map((name) => [name, process.env[name]] as const);
    process.env["AZURE_STORAGE_ENDPOINT"] = server.url;
    restore = () => {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    };
  });
  afterEach(() => restore());

  it.each([
    ["after the allowed place", { allow: [`${prefix}?${SIGNATURE}`] }],
    ["after a part of it", { allow: [`${prefix}days/?${SIGNATURE}`] }],
    [
      "after the place of a kept container",
      {
        allow: [`${prefix}?${SIGNATURE}`],
        containers: [{ name: "mine", prefix: `${prefix}days/`, store: "azure" }],
      },
    ],
    ["in the environment", { allow: [prefix], token: SIGNATURE }],
    ["in the environment, with its question mark", { allow: [prefix], token: `?${SIGNATURE}` }],
    [
      "among the credentials",
      {
        containers: [{ name: "ours", prefix, store: "azure", credentials: "ours" }],
        credentials: { ours: { sasToken: SIGNATURE } },
      },
    ],
  ] as const)(
    "%s is sent with every request, and appears in no message",
    async (_, {
      token,
      ...options
    }: {
      token?: string;
    } & OpenReferencesOptions) => {
      if (token !== undefined) process.env["AZURE_STORAGE_SAS_TOKEN"] = token;
      const store = await setOf(`${prefix}days/a b.blp`, { openContainer, ...options });
      expect(await store.get("/x")).toEqual(array.slice(16, 48));
      expect(signed()).not.toContain(false);
      expect(inspect([...store.containers])).not.toContain("5ecret");
      server.intercept = (_request, response) => {
        response.writeHead(403).end(`${SIGNATURE} is wrong`);
        return true;
      };
      const error = await failure(store.get("/x"));
      expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("5ecret");
      await store.close();
    },
  );

  it("in the environment is sent to no server that a container names", async () => {
    process.env["AZURE_STORAGE_SAS_TOKEN"] = SIGNATURE;
    const named = { name: "named", prefix, store: "azure", endpoint: server.url, anonymous: true } as const;
    const store = await setOf(`${prefix}days/a b.blp`, { openContainer, containers: [named] });
    expect(await store.get("/x")).toEqual(array.slice(16, 48));
    expect(signed()).not.toContain(true);
    await store.close();
  });
});

describe("containers within containers", () => {
  const outer: Container = { name: "outer", prefix: "gs://bucket/", store: "gcs", anonymous: true };
  const inner: Container = { name: "inner", prefix: "gs://bucket/days/", store: "gcs", anonymous: true };

  it("do not open the inner one to a caller that may only read the outer one", async () => {
    const store = new MemoryStore();
    const text = JSON.stringify({ version: 1, refs: { x: ["gs://bucket/days/a b.blp", 16, 32] } });
    await store.put("set.json", new TextEncoder().encode(text));
    const beside = { format: "superchunk-containers", version: 1, containers: [outer, inner] };
    await store.put("set.containers.json", new TextEncoder().encode(JSON.stringify(beside)));
    const references = await openReferences(store, "set.json", { authorize: ["outer"] });
    const error = await failure(references.get("/x"));
    expect([error.code, error.details.found]).toEqual(["UNSAFE_PATH", "inner"]);
    expect(server.log).toEqual([]);
  });

  it("are read by the inner one's settings", async () => {
    const containers = [outer, { ...inner, endpoint: server.url }];
    const store = await setOf("gs://bucket/days/a b.blp", { containers });
    expect(await store.get("/x")).toEqual(array.slice(16, 48));
    await store.close();
  });
});
