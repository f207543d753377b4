/** A served view, request by request. */

import { once } from "node:events";
import { rm, symlink, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { open } from "../../../src/archive/open/open.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { makeHostCheck, type ServedView, serveView } from "../../../src/node/serve/serve.ts";
import { AnswerGate, type AnswerPlace, type Caller } from "../../../src/node/serve/serve-gate.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { zarrTreeView } from "../../../src/view/view-tree.ts";
import type { ZarrView } from "../../../src/zarr.ts";
import { findViewEntries, zarrView } from "../../../src/zarr.ts";
import { putCarray } from "../../convert/to-zarr/make-archive.ts";
import { corpusStore, sha256 } from "../../convert/to-zarr/read-back.ts";
import { type ArrayFixture, findFixture, loadArchives } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { readThroughView } from "../../view/read-view.ts";
import { ask } from "./ask.ts";

const errors: string[] = [];
const values = new Uint8Array(Float64Array.from({ length: 250 }, (_, i) => i / 4).buffer);
let served: ServedView;
let view: ZarrView;

beforeAll(async () => {
  const store = new MemoryStore();
  await putCarray(store, "t/a", values, 100, {
    dtype: "float64",
    shape: [250],
    attrs: { text: "long ".repeat(500) },
  });
  await putCarray(store, "t/broken", values, 100, { dtype: "float64", shape: [250] });
  await store.delete("t/broken/data/__1.blp");
  await putCarray(store, "t/<b>&/a%2Fb", values, 100, { dtype: "float64", shape: [250] });
  view = zarrTreeView(await findViewEntries(store, "t"));
  served = await serveView(view, { onError: (path) => errors.push(path) });
});

afterAll(() => served.close());

describe("objects", () => {
  it("match the view", async () => {
    for (const key of ["/zarr.json", "/a/zarr.json", "/a/c/0", "/a/c/2"]) {
      const { status, bytes, headers } = await ask(served.url, key);
      expect([key, status, headers["content-length"]]).toEqual([key, 200, String(bytes.length)]);
      expect(new Uint8Array(bytes)).toEqual(await view.get(key));
    }
  });

  it("have a stable ETag, and a HEAD without a body", async () => {
    const got = await ask(served.url, "/a/c/0");
    const head = await ask(served.url, "/a/c/0", {}, "HEAD");
    expect(head.bytes.length).toBe(0);
    expect(head.headers["content-length"]).toBe(got.headers["content-length"]);
    expect(head.headers.etag).toBe(got.headers.etag);
    expect(got.headers.etag).toMatch(/^"[\w-]{27}"$/);
    expect((await ask(served.url, "/a/c/1")).headers.etag).not.toBe(got.headers.etag);
  });

  it.each([
    ["bytes=0-15", 0, 15],
    ["bytes=16-", 16, undefined],
    ["bytes=-7", -7, undefined],
    ["bytes=-99999999", 0, undefined],
    ["bytes=3-99999999", 3, undefined],
  ])("are cut by the range %s", async (range, first, last) => {
    const whole = (await view.get("/a/c/0")) ?? new Uint8Array();
    const { status, bytes, headers } = await ask(served.url, "/a/c/0", { range });
    const wanted = whole.slice(first, last === undefined ? undefined : last + 1);
    expect(status).toBe(206);
    expect(new Uint8Array(bytes)).toEqual(wanted);
    const from = first < 0 ? whole.length + first : first;
    expect(headers["content-range"]).toBe(`bytes ${from}-${from + wanted.length - 1}/${whole.length}`);
  });

  it.each(["bytes=99999999-", "bytes=-0"])("answer 416 to the range %s, with their size", async (range) => {
    const whole = (await view.get("/a/c/0")) ?? new Uint8Array();
    const { status, headers } = await ask(served.url, "/a/c/0", { range });
    expect([status, headers["content-range"]]).toEqual([416, `bytes */${whole.length}`]);
  });

  it.each(["bytes=5-2", "lines=1-2", "bytes=0-1,4-5", "bytes=-"])("are sent whole for %s", async (range) => {
    const { status, bytes } = await ask(served.url, "/a/c/0", { range });
    expect([status, new Uint8Array(bytes)]).toEqual([200, await view.get("/a/c/0")]);
  });

  it("are sent only if the conditions hold", async () => {
    const { headers } = await ask(served.url, "/a/c/0");
    const etag = headers.etag ?? "";
    const status = async (conditions: Record<string, string>): Promise<number> =>
      (await ask(served.url, "/a/c/0", conditions)).status;
    expect(await status({ "if-none-match": etag })).toBe(304);
    expect(await status({ "if-none-match": `"other", W/${etag}` })).toBe(304);
    expect(await status({ "if-none-match": "*" })).toBe(304);
    expect(await status({ "if-none-match": '"other"' })).toBe(200);
    expect(await status({ "if-match": etag })).toBe(200);
    expect(await status({ "if-match": '"other"' })).toBe(412);
    expect(await status({ "if-range": etag, range: "bytes=0-3" })).toBe(206);
    expect(await status({ "if-range": '"other"', range: "bytes=0-3" })).toBe(200);
  });

  it("are compressed if they are documents and the client accepts it", async () => {
    const plain = await ask(served.url, "/a/zarr.json");
    const packed = await ask(served.url, "/a/zarr.json", { "accept-encoding": "br, gzip;q=0.5" });
    expect(packed.headers["content-encoding"]).toBe("gzip");
    expect(packed.headers.vary).toContain("accept-encoding");
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 2);
    expect(gunzipSync(packed.bytes)).toEqual(plain.bytes);
    expect(packed.headers.etag).not.toBe(plain.headers.etag);
    expect(
      (await ask(served.url, "/a/zarr.json", { "accept-encoding": "gzip;q=0" })).headers["content-encoding"],
    ).toBeUndefined();
    expect(
      (await ask(served.url, "/a/c/0", { "accept-encoding": "gzip" })).headers["content-encoding"],
    ).toBeUndefined();
  });

  it("with a slash in their name are found only with the slash encoded twice", async () => {
    const folder = `/${encodeURIComponent("<b>&")}`;
    const twice = await ask(served.url, `${folder}/a%252Fb/zarr.json`);
    const once = await ask(served.url, `${folder}/a%2Fb/zarr.json`);
    expect([twice.status, once.status]).toEqual([200, 404]);
    expect((await ask(served.url, "/%3Cb%3E%26/a%252Fb/c/0")).status).toBe(200);
  });
});

describe("refusals", () => {
  it("answers 404 to missing paths, and to every path that leads out", async () => {
    const paths = [
      "/a/c/3",
      "/a/.zarray",
      "/nothing",
      "/a",
      "/../a/zarr.json",
      "/..%2f..%2fetc/passwd",
      "/a/%2e%2e/%2e%2e/etc/passwd",
      "//etc/passwd",
      "/a\\..\\b",
      "/a/%00",
      "/nothing/",
    ];
    for (const path of paths) expect([path, (await ask(served.url, path)).status]).toEqual([path, 404]);
    expect((await ask(served.url, "/%zz")).status).toBe(400);
  });

  it("answers 422 with the reason, never 404, if a chunk exists and cannot be read", async () => {
    errors.length = 0;
    const { status, bytes } = await ask(served.url, "/broken/c/1");
    expect(status).toBe(422);
    expect(JSON.parse(bytes.toString())).toMatchObject({
      error: { code: "INCOMPLETE", message: expect.stringContaining("__1.blp") as string },
    });
    expect(errors).toEqual(["/broken/c/1"]);
    const store = new zarr.FetchStore(`${served.url}broken`);
    const array = await zarr.open.v3(store, { kind: "array" });
    await expect(zarr.get(array, null)).rejects.toThrow();
  });

  it("reveals no path of the server: only file names, in the list, on the page and in errors", async () => {
    const folder = temporaryFolder();
    try {
      const store = new FileStore(folder);
      await putCarray(store, "t/a", values, 100, { dtype: "float64", shape: [250] });
      await putCarray(store, "t/gap", values, 100, { dtype: "float64", shape: [250] });
      await putCarray(store, "t/bad", values, 100, { dtype: "float64", shape: [250] });
      await rm(join(folder, "t/gap/data/__1.blp"));
      await writeFile(join(folder, "t/bad/meta/sizes"), "{");
      await writeFile(join(folder, "secret"), "secret");
      await symlink(join(folder, "secret"), join(folder, "t/a/data/__3.blp"));
      const root = new FileStore(join(folder, "t"));
      await rm(join(folder, "t/a/data/__1.blp"));
      await symlink(join(folder, "secret"), join(folder, "t/a/data/__1.blp"));
      // A dangling link, relative, with a space: no pattern could recognize such a path.
      await rm(join(folder, "t/gap/data/__2.blp"));
      await symlink("out/secret place/data/__1__.bin", join(folder, "t/gap/data/__2.blp"));
      const local = await serveView(zarrTreeView(await findViewEntries(root, "")));
      try {
        const told: string[] = [];
        for (const [path, accept] of [
          ["/", "*/*"],
          ["/", "text/html"],
          ["/a/", "*/*"],
          ["/bad/", "*/*"],
          ["/bad/zarr.json", "*/*"],
          ["/gap/c/1", "*/*"],
          ["/a/c/1", "*/*"],
          ["/gap/c/2", "*/*"],
        ] as const)
          told.push((await ask(local.url, path, { accept })).bytes.toString());
        for (const text of told) expect(text).not.toMatch(/superchunk serve |source|\/tmp|secret|out\//);
        const { nodes } = JSON.parse(told[0] ?? "") as { nodes: { path: string; error?: string }[] };
        expect(nodes.map(({ path }) => path)).toEqual(["", "a", "bad", "gap"]);
        expect(nodes[2]).toMatchObject({ code: "TRUNCATED", error: expect.stringContaining("ends early") });
        expect(told[5]).toContain("__1.blp");
        expect(told[6]).toContain("UNSAFE_PATH");
        expect(JSON.parse(told[7] ?? "")).toMatchObject({
          error: { code: "INCOMPLETE", message: expect.stringContaining("__2.blp") as string },
        });
      } finally {
        await local.close();
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("answers only to its own host names", async () => {
    const port = String(served.port);
    const statusFor = async (host: string): Promise<number> =>
      (await ask(served.url, "/zarr.json", { host })).status;
    for (const host of [`127.0.0.1:${port}`, "localhost", `LOCALHOST:${port}`, "[::1]:1"])
      expect([host, await statusFor(host)]).toEqual([host, 200]);
    for (const host of [
      "evil.example",
      `evil.example:${port}`,
      "127.0.0.1.evil.example",
      "localhost.",
      "1.2.3.4",
    ])
      expect([host, await statusFor(host)]).toEqual([host, 421]);
  });

  it("accepts addresses, but no names, if it listens on all interfaces", () => {
    const check = makeHostCheck("0.0.0.0", ["proxy.example"]);
    expect(["10.1.2.3:80", "[fe80::1]", "proxy.example", "localhost"].map(check)).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(["evil.example", undefined, "a b", ""].map(check)).toEqual([false, false, false, false]);
  });

  it("refuses other methods, bodies, and endless headers", async () => {
    const posted = await ask(served.url, "/zarr.json", {}, "POST");
    expect([posted.status, posted.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect(
      (await ask(served.url, "/zarr.json", { "content-length": "5" }).catch(() => ({ status: 0 }))).status,
    ).toBe(413);
    expect((await ask(served.url, "/zarr.json", { "x-long": "x".repeat(20_000) })).status).toBe(431);
    expect((await ask(served.url, `/${"x".repeat(20_000)}`)).status).toBe(431);
  });
});

describe("lists", () => {
  it("are JSON for programs, at every group", async () => {
    const { headers, bytes } = await ask(served.url, "/");
    expect(headers["content-type"]).toBe("application/json");
    const { nodes } = JSON.parse(bytes.toString()) as { nodes: { path: string }[] };
    expect(nodes.map(({ path }) => path)).toEqual(["", "<b>&", "a", "broken"]);
    const below = JSON.parse((await ask(served.url, "/a/")).bytes.toString()) as { nodes: unknown[] };
    expect(below.nodes).toMatchObject([
      { path: "a", kind: "array", shape: [250], dataType: "float64", nbytes: 2000 },
    ]);
  });

  it("are a page for people, in which names are only text", async () => {
    const { headers, bytes } = await ask(served.url, "/", { accept: "text/html,*/*" });
    expect(headers["content-type"]).toContain("text/html");
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
    const page = bytes.toString();
    expect(page).toContain('<a href="%3Cb%3E%26/">&lt;b&gt;&amp;/</a>');
    expect(page).not.toContain("<b>");
    expect(page).toContain("float64");
  });
});

describe("pages of other origins", () => {
  it("may read nothing unless they are admitted", async () => {
    const { headers } = await ask(served.url, "/zarr.json", { origin: "https://page.example" });
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  });

  it("may read ranges and versions if they are admitted", async () => {
    const open = await serveView(view, { cors: "*" });
    try {
      const { headers } = await ask(open.url, "/zarr.json", { origin: "https://page.example" });
      expect(headers["access-control-allow-origin"]).toBe("*");
      expect(headers["access-control-expose-headers"]).toContain("Content-Range");
      const asked = {
        origin: "https://page.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "range",
      };
      const preflight = await ask(open.url, "/zarr.json", asked, "OPTIONS");
      expect([preflight.status, preflight.headers["access-control-allow-headers"]]).toEqual([
        204,
        expect.stringContaining("Range"),
      ]);
    } finally {
      await open.close();
    }
  });
});

describe("the server", () => {
  it("says that a port is taken", async () => {
    await expect(serveView(view, { port: served.port })).rejects.toMatchObject({
      code: "IO",
      message: expect.stringContaining("taken") as string,
    });
  });

  it("finishes the answers under way, and then closes all connections", async () => {
    let release = (): void => undefined;
    let asked = (): void => undefined;
    const started = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const slow: ZarrView = {
      get: () => {
        asked();
        return new Promise((resolve) => {
          release = () => resolve(Uint8Array.of(1, 2, 3));
        });
      },
      getRange: () => Promise.resolve(undefined),
      list: () => Promise.resolve([]),
    };
    const running = await serveView(slow);
    const idle = connect(running.port, "127.0.0.1");
    await once(idle, "connect");
    const reply = ask(running.url, "/c/0");
    await started;
    const closed = running.close();
    release();
    expect(new Uint8Array((await reply).bytes)).toEqual(Uint8Array.of(1, 2, 3));
    idle.destroy();
    await closed;
    await expect(ask(running.url, "/c/0")).rejects.toThrow();
  });

  it("closes the longest idle connection for a new one if there are too many, and answers the others", async () => {
    const running = await serveView(view);
    const sockets: Socket[] = [];
    try {
      for (let i = 0; i < 600; i++) {
        const socket = connect(running.port, "127.0.0.1");
        socket.on("error", () => undefined); // closed, on some systems by a reset
        sockets.push(socket);
        await once(socket, "connect");
      }
      for (const socket of sockets.slice(104)) {
        socket.write("GET /a/zarr.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        const [bytes] = (await once(socket, "data")) as [Buffer];
        expect(bytes.toString()).toMatch(/^HTTP\/1\.1 200 /);
      }
      const first = sockets[0];
      if (first?.closed === false) await once(first, "close");
      expect(first?.closed).toBe(true);
    } finally {
      for (const socket of sockets) socket.destroy();
      await running.close();
    }
  });

  it("stops reading for clients that have disconnected", async () => {
    let signal: AbortSignal | undefined;
    const gone = new Promise<void>((resolve) => {
      const hanging: ZarrView = {
        get: (_, options) => {
          signal = options?.signal;
          signal?.addEventListener("abort", () => resolve());
          client.destroy();
          return new Promise(() => undefined);
        },
        getRange: () => Promise.resolve(undefined),
        list: () => Promise.resolve([]),
      };
      let client = connect(0);
      client.on("error", () => undefined);
      void serveView(hanging).then((running) => {
        client = connect(running.port, "127.0.0.1", () =>
          client.write("GET /c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        );
        void gone.then(() => running.close());
      });
    });
    await gone;
    expect(signal?.aborted).toBe(true);
  });

  it("says only that it failed if the failure was unexpected", async () => {
    const failing: ZarrView = {
      get: () => Promise.reject(new Error("secret")),
      getRange: () => Promise.resolve(undefined),
      list: () => Promise.reject(new SuperchunkError("IO", "the network failed")),
    };
    const running = await serveView(failing);
    try {
      const object = await ask(running.url, "/c/0");
      expect([object.status, object.bytes.toString().includes("secret")]).toEqual([500, false]);
      expect((await ask(running.url, "/")).status).toBe(502);
    } finally {
      await running.close();
    }
  });
});

/** A request for a chunk on a separate connection, from one address. */
function caller(more: Partial<Caller> = {}): Caller {
  return { address: "192.0.2.1", connection: {}, isSmall: false, end: () => undefined, ...more };
}

describe("the gate", () => {
  it("keeps places free for other addresses, and admits the one with the fewest places first", async () => {
    const gate = new AnswerGate({ answers: 4, answersOfAddress: 3 });
    const never = new AbortController().signal;
    const order: string[] = [];
    const enter = (address: string): Promise<AnswerPlace | undefined> => {
      const place = gate.enter(caller({ address }), never);
      void place.then(() => order.push(address));
      return place;
    };
    const greedy = Array.from({ length: 6 }, () => enter("greedy"));
    const other = await enter("other");
    const waiting = [enter("greedy"), enter("other"), enter("third")];
    (await greedy[0])?.leave();
    expect((await waiting[2]) === undefined).toBe(false);
    expect(order).toEqual(["greedy", "greedy", "greedy", "other", "third"]);
    other?.leave();
    await waiting[1];
    expect(order.at(-1)).toBe("other");
  });

  it("answers one request of a connection at a time, and refuses a connection that sends them endlessly", async () => {
    const gate = new AnswerGate({ waitingOfConnection: 2 });
    const never = new AbortController().signal;
    const one = caller();
    const first = await gate.enter(one, never);
    const second = gate.enter(one, never);
    void gate.enter(one, never);
    expect(await gate.enter(one, never)).toBeUndefined();
    expect((await gate.enter(caller(), never)) === undefined).toBe(false);
    first?.leave();
    expect((await second) === undefined).toBe(false);
  });

  it("lets documents pass when chunks take all places, and ends stalled answers only while others wait", async () => {
    let now = 0;
    const gate = new AnswerGate({ answers: 1, patienceMs: 1000 }, () => now);
    const never = new AbortController().signal;
    const ended: string[] = [];
    const stalled = await gate.enter(caller({ end: () => ended.push("stalled") }), never);
    stalled?.hold(1);
    const document = await gate.enter(caller({ isSmall: true, end: () => ended.push("document") }), never);
    document?.hold(1);
    now = 5000;
    gate.endStalled();
    expect(ended).toEqual([]);
    const next = gate.enter(caller(), never);
    stalled?.moved();
    gate.endStalled();
    expect(ended).toEqual([]);
    now = 6000;
    gate.endStalled();
    expect(ended).toEqual(["stalled"]);
    stalled?.leave();
    expect((await next) === undefined).toBe(false);
  });

  it("admits only as many as it has places, in order, and forgets callers that left", async () => {
    const gate = new AnswerGate({ answersOfAddress: 64 });
    const never = new AbortController().signal;
    const first = await Promise.all(Array.from({ length: 64 }, () => gate.enter(caller(), never)));
    const order: string[] = [];
    const impatient = new AbortController();
    const enterAs = async (name: string): Promise<AnswerPlace | undefined> => {
      const place = await gate.enter(caller(), never);
      order.push(name);
      return place;
    };
    const a = enterAs("a");
    const left = gate.enter(caller(), impatient.signal).catch(() => order.push("left"));
    const b = enterAs("b");
    impatient.abort();
    await left;
    first[0]?.leave();
    (await a)?.leave();
    await b;
    expect(order).toEqual(["left", "a", "b"]);
  });

  it("waits if the bodies under way hold too much memory", async () => {
    const gate = new AnswerGate();
    const never = new AbortController().signal;
    const big = await gate.enter(caller(), never);
    big?.hold(1 << 30);
    let entered = false;
    const next = gate.enter(caller(), never).then(() => {
      entered = true;
    });
    await Promise.resolve();
    expect(entered).toBe(false);
    big?.leave();
    await next;
    expect(entered).toBe(true);
  });
});

describe("the corpus", () => {
  it("has over HTTP the values that its producers wrote, as zarrita fetches them", async () => {
    const all = await serveView(zarrTreeView(await findViewEntries(corpusStore), { portable: true }));
    try {
      let count = 0;
      for (const fixture of loadArchives()) {
        if (fixture.refuse || fixture.kind !== "array" || typeof fixture.dtype !== "string") continue;
        const store = new zarr.FetchStore(`${all.url}${fixture.path}`);
        const bytes = await readThroughView(
          { get: (key) => store.get(key as `/${string}`) },
          "",
          fixture.dtype,
        );
        expect([fixture.path, sha256(bytes)]).toEqual([fixture.path, fixture.sha256]);
        count++;
      }
      expect(count).toBeGreaterThan(30);
    } finally {
      await all.close();
    }
  });

  it("can be replaced by a single opened archive, served at the root", async () => {
    const name = "bloscpack-3/array-f8.blp";
    const running = await serveView(zarrView(await open(corpusStore, name)));
    try {
      const bytes = await readThroughView(
        { get: async (key) => new Uint8Array((await ask(running.url, key)).bytes) },
        "",
        "<f8",
      );
      expect(sha256(bytes)).toBe((findFixture(name) as ArrayFixture).sha256);
    } finally {
      await running.close();
    }
  });
});
