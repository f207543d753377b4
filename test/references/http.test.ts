/** References from and through HTTP: server errors are clear errors, and secrets are not disclosed. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { openReferences as openAt, openContainer } from "../../src/node/references.ts";
import type { ContainerCredentials } from "../../src/references/containers/container-reader.ts";
import type { Container } from "../../src/references/containers/containers.ts";
import { openReferences, type ReferenceStore } from "../../src/references/kerchunk/open-references.ts";
import { HttpStore } from "../../src/store/http.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { runCli } from "../cli/harness.ts";
import { sha256 } from "../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { readThroughView } from "../view/read-view.ts";

const SECRET = "Bearer top-5ecret";
let folder = "";
let array = new Uint8Array();
let server: TestServer;

beforeAll(async () => {
  folder = temporaryFolder();
  array = new Uint8Array(await readFile(join(corpusFolder, "bloscpack-3", "array-i4-2d.blp")));
});
beforeEach(async () => {
  server = await serveObjects([["array.blp", array]]);
});
afterEach(() => server.close());

/** A set with one reference, and its reader. */
async function setOf(
  reference: readonly [offset: number, length: number],
  { guard, credentials, ...rest }: SetOptions = {},
): Promise<ReferenceStore> {
  const location = `${server.url}/array.blp`;
  const store = new MemoryStore();
  const text = JSON.stringify({
    version: 1,
    refs: { x: [location, ...reference] },
    ...(guard === undefined ? {} : { guards: { [location]: guard } }),
  });
  await store.put("set.json", new TextEncoder().encode(text));
  const container: Container = { name: "web", prefix: `${server.url}/`, store: "http" };
  return openReferences(store, "set.json", {
    containers: [credentials === undefined ? container : { ...container, credentials: "mine" }],
    ...(credentials === undefined ? {} : { credentials: { mine: credentials } }),
    openContainer,
    ...rest,
  });
}

interface SetOptions {
  readonly guard?: readonly [size: number, modified: number | null, etag: string | null];
  readonly credentials?: ContainerCredentials;
  readonly openContainer?: typeof openContainer;
  readonly redirects?: "any";
}

async function failure(reading: Promise<unknown>): Promise<SuperchunkError> {
  const error = await reading.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (error instanceof SuperchunkError) return error;
  throw new Error(`no error of ours: ${String(error)}`);
}

async function etagOf(): Promise<string> {
  return (await fetch(`${server.url}/array.blp`, { method: "HEAD" })).headers.get("etag") ?? "";
}

describe("virtualize of an archive on a web server", () => {
  it.each([
    ["kerchunk", "set.json"],
    ["kerchunk-parquet", "set.parq"],
  ])("as %s reads the producer's values back over HTTP", async (form, name) => {
    const set = join(folder, name);
    const { code, out } = await runCli([
      "virtualize",
      `${server.url}/array.blp`,
      set,
      "--to",
      form,
      "--json",
    ]);
    expect(code).toBe(0);
    const { containers } = JSON.parse(out) as { containers: Container[] };
    expect(containers).toEqual([{ name: "http", prefix: `${server.url}/`, store: "http", anonymous: true }]);
    const store = await openAt(set, { authorize: ["http"] });
    const fixture = findFixture("bloscpack-3/array-i4-2d.blp");
    if (fixture.kind !== "array") throw new Error("no array");
    if (form === "kerchunk")
      expect(sha256(await readThroughView(store, "array", fixture.dtype))).toBe(fixture.sha256);
    else expect((await store.get("/array/0.0"))?.length).toBeGreaterThan(16);
    await store.close();
  });

  it("guards by ETag, and refuses an object replaced by one of the same length", async () => {
    const set = join(folder, "replaced.json");
    expect((await runCli(["virtualize", `${server.url}/array.blp`, set, "--to", "kerchunk"])).code).toBe(0);
    const other = array.slice();
    other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
    server.objects.set("array.blp", other);
    const store = await openAt(set, { authorize: ["http"] });
    const { code, details } = await failure(store.get("/array/c/0/0"));
    expect([code, details.field, details.path]).toEqual(["STALE", "etag", `${server.url}/array.blp`]);
    await store.close();
  });
});

describe("a reference over HTTP", () => {
  it("is refused if the object shrank, with and without a guard", async () => {
    const guarded = await setOf([100, 200], { guard: [array.length, null, await etagOf()] });
    const plain = await setOf([100, 200]);
    server.objects.set("array.blp", array.slice(0, 150));
    expect(await failure(guarded.get("/x"))).toMatchObject({
      code: "STALE",
      details: { field: "size", expected: array.length, found: 150 },
    });
    expect(await failure(plain.get("/x"))).toMatchObject({
      code: "TRUNCATED",
      details: { expected: 300, found: 150 },
    });
  });

  it("to bytes outside the object is refused before they are requested", async () => {
    const store = await setOf([array.length - 4, 8]);
    expect((await failure(store.get("/x"))).code).toBe("TRUNCATED");
    expect(server.log.filter((line) => line.startsWith("GET"))).toEqual([]);
  });

  it("with a wrong ETag is refused, and names both", async () => {
    const store = await setOf([0, 16], { guard: [array.length, null, '"another"'] });
    const error = await failure(store.get("/x"));
    expect(error.code).toBe("STALE");
    expect(error.details).toMatchObject({ field: "etag", expected: '"another"', found: await etagOf() });
  });

  it("into a large object on a server without ranges is refused, with the reason", async () => {
    const store = await setOf([0, 16]);
    const size = (8 << 20) + 1;
    server.intercept = (request, response) => {
      response.writeHead(200, { "content-length": size, etag: '"big"' });
      if (request.method === "HEAD") response.end();
      else response.write(new Uint8Array(1000));
      return true;
    };
    const error = await failure(store.get("/x"));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain("a server without Range support");
  });

  it("to a server that does not answer ends in an error that gives how long it waited", async () => {
    const store = await setOf([0, 16], {
      openContainer: ({ prefix }) => new HttpStore(prefix, { timeoutMs: 30, retries: 1, retryDelayMs: 1 }),
    });
    server.intercept = () => true;
    const error = await failure(store.get("/x"));
    expect(error.code).toBe("IO");
    expect(error.message).toContain("no answer within 30 ms");
    expect(error.message).toContain(`${server.url}/array.blp`);
  });

  it("follows a redirect to another server only if requested", async () => {
    const elsewhere = await serveObjects([["array.blp", array]]);
    server.intercept = (_, response) => {
      response.writeHead(302, { location: `${elsewhere.url}/array.blp` }).end();
      return true;
    };
    const error = await failure((await setOf([0, 16])).get("/x"));
    expect([error.code, error.details.found]).toEqual(["UNSAFE_PATH", new URL(elsewhere.url).origin]);
    expect(elsewhere.log).toEqual([]);
    const credentials = { headers: { "x-key": SECRET } };
    const store = await setOf([0, 16], { redirects: "any", credentials });
    expect(await store.get("/x")).toEqual(array.slice(0, 16));
    expect(elsewhere.headers.map((headers) => headers["x-key"])).toEqual([undefined, undefined]);
    await elsewhere.close();
  });
});

describe("credentials of a container on a web server", () => {
  it("are sent with every request to it", async () => {
    const store = await setOf([0, 16], { credentials: { headers: { "x-key": SECRET } } });
    expect(await store.get("/x")).toEqual(array.slice(0, 16));
    expect(server.headers.map((headers) => headers["x-key"])).toEqual(server.headers.map(() => SECRET));
  });

  it("follow redirects on the same server, and are never sent on to another", async () => {
    const elsewhere = await serveObjects([["array.blp", array]]);
    let to = `${server.url}/moved.blp`;
    server.objects.set("moved.blp", array);
    server.intercept = (request, response) => {
      if (request.url?.includes("moved") === true) return false;
      response.writeHead(307, { location: to }).end();
      return true;
    };
    const credentials = { headers: { "x-key": SECRET } };
    expect(await (await setOf([0, 16], { credentials })).get("/x")).toEqual(array.slice(0, 16));
    to = `${elsewhere.url}/array.blp`;
    const error = await failure((await setOf([0, 16], { credentials })).get("/x"));
    expect(error.code).toBe("UNSAFE_PATH");
    expect(error.details.found).toBe(new URL(elsewhere.url).origin);
    expect(elsewhere.log).toEqual([]);
    to = `${server.url}/array.blp`;
    expect((await failure((await setOf([0, 16], { credentials })).get("/x"))).message).toContain("on and on");
    await elsewhere.close();
  });

  it.each([401, 403])(
    "that are refused (%i) are an error that says so and does not show them",
    async (status) => {
      server.intercept = (_, response) => {
        response.writeHead(status, { "www-authenticate": `Bearer realm="${SECRET}"` }).end(`not ${SECRET}`);
        return true;
      };
      const store = await setOf([0, 16], { credentials: { headers: { authorization: SECRET } } });
      const error = await failure(store.get("/x"));
      expect([error.code, error.details.found]).toEqual(["IO", status]);
      expect(error.message).toContain("access denied; check the credentials");
      // Everything a log could contain: message, details, stack and causes.
      expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("5ecret");
    },
  );

  it("stay out of errors of every kind", async () => {
    const credentials = { headers: { authorization: SECRET } };
    const failing: Record<string, TestServer["intercept"]> = {
      missing: (_, response) => Boolean(response.writeHead(404).end()),
      broken: (_, response) => Boolean(response.destroy()),
      failing: (_, response) => Boolean(response.writeHead(418).end(SECRET)),
    };
    for (const [what, intercept] of Object.entries(failing)) {
      server.intercept = intercept;
      const store = await setOf([0, 16], { credentials, guard: [1, null, '"x"'] });
      const shown = await store.get("/x").catch((error: unknown) => {
        expect(isSuperchunkError(error), what).toBe(true);
        return inspect(error, { depth: 20, showHidden: true });
      });
      expect(shown, what).not.toContain("5ecret");
    }
  });
});
