import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { open, openArray } from "../../src/open/open.ts";
import { HttpStore, type HttpStoreOptions } from "../../src/store/http.ts";
import { slice } from "../../src/values/selection.ts";
import { serveObjects, type TestServer } from "./server.ts";
import { describeReading, OBJECTS } from "./store-contract.ts";

describeReading("the HTTP store", async () => {
  const server = await serveObjects(OBJECTS);
  return { store: new HttpStore(server.url), lists: false, dispose: () => server.close() };
});

describeReading("the HTTP store on a server without HEAD", async () => {
  const server = await serveObjects(OBJECTS);
  server.intercept = ({ method }, response) => {
    if (method !== "HEAD") return false;
    response.writeHead(405).end();
    return true;
  };
  return { store: new HttpStore(server.url), lists: false, dispose: () => server.close() };
});

describeReading("the HTTP store on a server without Range", async () => {
  const server = await serveObjects(OBJECTS);
  server.intercept = (request) => {
    delete request.headers.range;
    return false;
  };
  return { store: new HttpStore(server.url), lists: false, dispose: () => server.close() };
});

const BYTES = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);
const FAST: HttpStoreOptions = { retryDelayMs: 1 };

async function withServer(
  act: (server: TestServer, store: HttpStore) => Promise<void>,
  options = FAST,
): Promise<void> {
  const server = await serveObjects([["x", BYTES]]);
  try {
    await act(server, new HttpStore(server.url, options));
  } finally {
    await server.close();
  }
}

describe("the HTTP store", () => {
  it("requests just the bytes of a range, with one request", () =>
    withServer(async (server, store) => {
      await store.getRange("x", { offset: 10, length: 20 });
      await store.getRange("x", { suffixLength: 4 });
      expect(server.log).toEqual(["GET /base%20dir/x bytes=10-29", "GET /base%20dir/x bytes=-4"]);
    }));

  it("takes all of an object as a range, as servers answer Chromium after a range, but no less", () =>
    withServer(async (server, store) => {
      let end = 1000;
      server.intercept = (_request, response) => {
        const range = `bytes 0-${end - 1}/1000`;
        response
          .writeHead(206, { "content-range": range, "content-length": end })
          .end(BYTES.subarray(0, end));
        return true;
      };
      expect(await store.get("x")).toEqual(BYTES);
      end = 999;
      await expect(store.get("x")).rejects.toMatchObject({ code: "IO", details: { found: 206 } });
    }));

  it("retries after 500, 503 and 429, and then gives the right bytes", () =>
    withServer(async (server, store) => {
      const statuses = [500, 503, 429];
      server.intercept = (_request, response) => {
        const status = statuses.shift();
        if (status !== undefined) response.writeHead(status, { "retry-after": "0" }).end("busy");
        return status !== undefined;
      };
      expect(await store.getRange("x", { offset: 1, length: 2 })).toEqual(Uint8Array.of(1, 2));
      expect(server.log).toHaveLength(4);
    }));

  it("gives up after the given number of tries, with IO and the reason", () =>
    withServer(async (server, store) => {
      server.intercept = (_request, response) => {
        response.writeHead(503).end("busy");
        return true;
      };
      await expect(store.get("x")).rejects.toMatchObject({
        code: "IO",
        details: { path: `${server.url}/x`, found: "status 503" },
        message: `${server.url}/x: GET failed after 5 tries (status 503)`,
      });
      expect(server.log).toHaveLength(5);
    }));

  it("says what a server must send (CORS) where a browser does not tell a page why a request failed", async () => {
    const store = new HttpStore("https://example.org/", {
      ...FAST,
      fetch: () => Promise.reject(new TypeError("Failed to fetch")),
    });
    await expect(store.get("x")).rejects.toMatchObject({
      code: "IO",
      message: expect.stringContaining("it must send Access-Control-Allow-Origin"),
    });
  });

  it("does not retry what a server refuses", () =>
    withServer(async (server, store) => {
      server.intercept = (_request, response) => {
        response.writeHead(403).end("no");
        return true;
      };
      await expect(store.get("x")).rejects.toMatchObject({ code: "IO", details: { found: 403 } });
      await expect(store.stat("x")).rejects.toMatchObject({ code: "IO", details: { found: 403 } });
      expect(server.log).toHaveLength(2);
      const lenient = new HttpStore(server.url, { absentStatuses: [403, 404] });
      expect(await lenient.get("x")).toBeUndefined();
    }));

  it.each([
    ["ENOTFOUND", 1],
    ["certificate has expired", 1],
    ["ECONNREFUSED", 3],
    ["EAI_AGAIN", 3],
  ])("%s at the first contact is tried %d times", async (code, tries) => {
    let asked = 0;
    const fetch = () => {
      asked++;
      return Promise.reject(new TypeError("fetch failed", { cause: new Error(code) }));
    };
    const store = new HttpStore("http://example.test", { fetch, retries: 2, retryDelayMs: 1 });
    await expect(store.get("x")).rejects.toThrow(
      `after ${tries === 1 ? "1 try" : "3 tries"} (fetch failed: ${code})`,
    );
    expect(asked).toBe(tries);
  });

  it("a server that has answered before is tried again, although its name is not found for a moment", () =>
    withServer(async (server) => {
      let failures = 0;
      const fetch: typeof globalThis.fetch = (...request) =>
        failures-- > 0
          ? Promise.reject(new TypeError("fetch failed", { cause: new Error("ENOTFOUND") }))
          : globalThis.fetch(...request);
      const store = new HttpStore(server.url, { fetch, retryDelayMs: 1 });
      await store.get("x");
      failures = 2;
      expect(await store.getRange("x", { offset: 1, length: 2 })).toEqual(Uint8Array.of(1, 2));
    }));

  it("says IO if no server answers", async () => {
    const server = await serveObjects([]);
    await server.close();
    const store = new HttpStore(server.url, { retries: 1, retryDelayMs: 1 });
    await expect(store.get("x")).rejects.toMatchObject({
      code: "IO",
      message: expect.stringContaining("after 2 tries"),
    });
  });

  it("retries after a truncated body, and never returns its bytes", () =>
    withServer(async (server, store) => {
      let cuts = 2;
      server.intercept = (_request, response) => {
        if (cuts-- <= 0) return false;
        response.writeHead(206, { "content-length": 100, "content-range": "bytes 0-99/1000" });
        response.write(BYTES.subarray(0, 40), () => response.destroy());
        return true;
      };
      expect(await store.getRange("x", { offset: 0, length: 100 })).toEqual(BYTES.slice(0, 100));
      cuts = Number.POSITIVE_INFINITY;
      await expect(store.getRange("x", { offset: 0, length: 100 })).rejects.toMatchObject({ code: "IO" });
    }));

  it("treats a chunked body shorter than its content-range as truncated", () =>
    withServer(async (server, store) => {
      server.intercept = (_request, response) => {
        response.writeHead(206, { "content-range": "bytes 0-99/1000" }).end(BYTES.subarray(0, 40));
        return true;
      };
      await expect(store.getRange("x", { offset: 0, length: 100 })).rejects.toMatchObject({
        code: "IO",
        message: expect.stringContaining('the body has 40 bytes, "content-range" says 100'),
      });
    }));

  it("refuses a range other than the requested one", () =>
    withServer(async (server, store) => {
      for (const wrong of ["bytes 5-14/1000", "bytes 0-4/1000", "bytes 0-19/1000"]) {
        server.intercept = (_request, response) => {
          response.writeHead(206, { "content-range": wrong }).end(BYTES.subarray(0, 10));
          return true;
        };
        await expect(store.getRange("x", { offset: 0, length: 10 }), wrong).rejects.toMatchObject({
          code: "IO",
          details: { found: wrong },
        });
      }
    }));

  it("refuses a part that does not give its position, or gives it in an unreadable form", () =>
    withServer(async (server, store) => {
      for (const wrong of [
        undefined,
        "",
        "bytes */1000",
        "bytes 0-9",
        "items 0-9/1000",
        "bytes 0-9/1000, bytes 0-9/1000",
      ]) {
        server.intercept = (_request, response) => {
          const headers = {
            "content-length": 10,
            ...(wrong === undefined ? {} : { "content-range": wrong }),
          };
          // The right number of bytes, from elsewhere in the object.
          response.writeHead(206, headers).end(BYTES.subarray(500, 510));
          return true;
        };
        const refusal = { code: "IO", details: { field: "content-range" } };
        await expect(store.getRange("x", { offset: 0, length: 10 }), wrong).rejects.toMatchObject(refusal);
        await expect(store.getRange("x", { suffixLength: 10 }), wrong).rejects.toMatchObject(refusal);
        await expect(store.getHead("x", 10), wrong).rejects.toMatchObject(refusal);
      }
    }));

  it("checks only the length if a browser hides the header of another origin", async () => {
    const answering = (length: number): typeof globalThis.fetch => {
      const response = new Response(BYTES.slice(0, length), { status: 206 });
      return () => Promise.resolve(Object.defineProperty(response, "type", { value: "cors" }));
    };
    const read = (length: number): Promise<Uint8Array | undefined> =>
      new HttpStore("https://example.org/", { fetch: answering(length) }).getRange("x", {
        offset: 0,
        length: 10,
      });
    expect(await read(10)).toEqual(BYTES.slice(0, 10));
    await expect(read(9)).rejects.toMatchObject({ code: "IO", details: { field: "content-range" } });
  });

  it("stops reading a body longer than the range, also if its length is not given", () =>
    withServer(async (server, store) => {
      server.intercept = (_request, response) => {
        response.writeHead(206, { "content-range": "bytes 0-9/1000" });
        const pour = (): void => {
          while (!response.destroyed && response.write(new Uint8Array(65_536)));
          if (!response.destroyed) response.once("drain", pour);
        };
        pour();
        return true;
      };
      await expect(store.getRange("x", { offset: 0, length: 10 })).rejects.toMatchObject({ code: "LIMIT" });
    }));

  it("refuses ranges of big objects on a server without Range, and does not download them", () =>
    withServer(async (server, store) => {
      let sent = 0;
      server.intercept = (_request, response) => {
        response.writeHead(200, { "content-length": 1e9 });
        response.write(new Uint8Array(1000));
        sent++;
        return true;
      };
      await expect(store.getRange("x", { offset: 0, length: 10 })).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining("server without Range support"),
      });
      expect(sent).toBe(1);
    }));

  it("says STALE if the object changed between two ranges, until it is opened again", () =>
    withServer(async (server, store) => {
      await store.getRange("x", { offset: 0, length: 10 });
      server.objects.set(
        "x",
        BYTES.map((byte) => byte + 1),
      );
      await expect(store.getRange("x", { offset: 0, length: 10 })).rejects.toMatchObject({
        code: "STALE",
        details: { path: `${server.url}/x` },
      });
      await store.close();
      expect(await store.getRange("x", { offset: 0, length: 2 })).toEqual(Uint8Array.of(1, 2));
    }));

  it("says STALE also if the object changed after its size was read, or after it was read whole", () =>
    withServer(async (server, store) => {
      for (const look of [() => store.stat("x"), () => store.get("x")]) {
        server.objects.set("x", BYTES);
        await look();
        const changed = BYTES.map((byte) => byte + 1);
        server.objects.set("x", changed);
        await expect(store.getRange("x", { suffixLength: 4 })).rejects.toMatchObject({ code: "STALE" });
        expect(await store.get("x")).toEqual(changed);
        await store.close();
      }
    }));

  it("uses time and size as the version if there is no ETag", () =>
    withServer(async (server, store) => {
      let time = "Mon, 02 Nov 2026 10:00:00 GMT";
      server.intercept = (_request, response) => {
        response.setHeader("last-modified", time);
        const { writeHead } = response;
        response.writeHead = ((status: number, headers: Record<string, unknown>) => {
          const { etag: _etag, ...rest } = headers;
          return Reflect.apply(writeHead, response, [status, rest]);
        }) as typeof writeHead;
        return false;
      };
      expect(await store.stat("x")).toEqual({
        size: 1000,
        version: `${time} 1000`,
        modified: Date.parse(time),
      });
      await store.getRange("x", { offset: 0, length: 10 });
      time = "Mon, 02 Nov 2026 10:00:01 GMT";
      await expect(store.getRange("x", { offset: 0, length: 10 })).rejects.toMatchObject({ code: "STALE" });
    }));

  it("ends the wait for the next try on an abort", () =>
    withServer(
      async (server, store) => {
        const controller = new AbortController();
        server.intercept = (_request, response) => {
          response.writeHead(503, { "retry-after": "30" }).end();
          response.once("close", () => setImmediate(() => controller.abort(new Error("enough"))));
          return true;
        };
        await expect(store.get("x", { signal: controller.signal })).rejects.toThrow("enough");
      },
      { retryDelayMs: 30_000 },
    ));

  it("ends a body under way on an abort", () =>
    withServer(async (server, store) => {
      const controller = new AbortController();
      server.intercept = (_request, response) => {
        response.writeHead(200, { "content-length": 1000 });
        response.write(new Uint8Array(10), () => controller.abort(new Error("enough")));
        return true;
      };
      await expect(store.get("x", { signal: controller.signal })).rejects.toThrow("enough");
    }));

  it("has no more requests under way than allowed", () =>
    withServer(
      async (server, store) => {
        let running = 0;
        let most = 0;
        server.intercept = (_request, response) => {
          most = Math.max(most, ++running);
          response.once("close", () => running--);
          return false;
        };
        const reads = Array.from({ length: 30 }, (_, i) => store.getRange("x", { offset: i, length: 1 }));
        expect((await Promise.all(reads)).map((bytes) => bytes?.[0])).toEqual([...BYTES.subarray(0, 30)]);
        expect(most).toBeLessThanOrEqual(3);
      },
      { maxConcurrent: 3 },
    ));

  it("sends user and password as a header, the query with every request, and shows neither in messages", () =>
    withServer(async (server) => {
      const url = new URL(server.url);
      url.username = "me";
      url.password = "pa:ss";
      url.search = "?sig=secret";
      const store = new HttpStore(url);
      expect(await store.getRange("x", { offset: 0, length: 1 })).toEqual(Uint8Array.of(0));
      expect(server.log).toEqual(["GET /base%20dir/x?sig=secret bytes=0-0"]);
      expect(server.headers[0]?.authorization).toBe(`Basic ${Buffer.from("me:pa:ss").toString("base64")}`);
      expect(store.describe("x")).toBe(`${server.url}/x`);
    }));

  it("never follows a redirect to a file", () =>
    withServer(
      async (server, store) => {
        server.intercept = (_request, response) => {
          response.writeHead(302, { location: "file:///etc/passwd" }).end();
          return true;
        };
        await expect(store.get("x")).rejects.toMatchObject({ code: "IO" });
      },
      { retries: 0 },
    ));

  describe("redirects", () => {
    const key = { headers: { "x-key": "secret" } };

    /** A fetch that answers by URL: an address to redirect to, or bytes. Records each request, with `x-key` if sent. */
    function makeFetch(answers: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>>): {
      readonly asked: string[];
      readonly fetch: typeof globalThis.fetch;
    } {
      const asked: string[] = [];
      return {
        asked,
        fetch: async (input, init) => {
          const url = String(input);
          asked.push(`${url}${new Headers(init?.headers).has("x-key") ? " with the key" : ""}`);
          const answer = answers[url];
          if (answer === undefined) return new Response(null, { status: 404 });
          if (typeof answer !== "string") return new Response(answer);
          return new Response(null, { status: 302, headers: { location: answer } });
        },
      };
    }

    it("to another server are followed without the headers meant for the first, and not at all on request", async () => {
      const { asked, fetch } = makeFetch({
        "https://example.org/x": "https://cdn.example.net/y?token=t",
        "https://cdn.example.net/y?token=t": BYTES,
      });
      const store = new HttpStore("https://example.org/", { ...key, fetch });
      expect(await store.get("x")).toEqual(BYTES);
      expect(asked).toEqual(["https://example.org/x with the key", "https://cdn.example.net/y?token=t"]);
      const own = new HttpStore("https://example.org/", { ...key, fetch, redirects: "same-origin" });
      const error: unknown = await own.get("x").catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code: "UNSAFE_PATH", details: { found: "https://cdn.example.net" } });
      expect(String(error)).not.toContain("token");
      expect(asked.length).toBe(3);
    });

    it("on the same server are followed with them, up to five in a row", async () => {
      const { asked, fetch } = makeFetch({
        "https://example.org/x": "/y",
        "https://example.org/y": BYTES,
        "https://example.org/a": "/b",
        "https://example.org/b": "/a",
      });
      const store = new HttpStore("https://example.org/", { ...key, fetch, redirects: "same-origin" });
      expect(await store.get("x")).toEqual(BYTES);
      expect(asked.every((each) => each.endsWith("with the key"))).toBe(true);
      await expect(store.get("a")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
      expect(asked.length).toBe(2 + 6);
    });

    it.each([
      "http://127.0.0.1/",
      "http://127.1/",
      "http://2130706433/",
      "http://0x7f.0.0.1/",
      "http://localhost:8080/",
      "http://x.localhost/",
      "http://[::1]/",
      "http://[::ffff:10.0.0.1]/",
      "http://[fe80::1]/",
      "http://[fd00::1]/",
      "http://10.1.2.3/",
      "http://172.20.0.1/",
      "http://192.168.1.1/",
      "http://169.254.169.254/latest/meta-data/",
      "http://metadata.google.internal/",
      "http://0.0.0.0/",
    ])("from the web into the local network are refused: %s", async (local) => {
      const { asked, fetch } = makeFetch({ "https://example.org/x": local, [new URL(local).href]: BYTES });
      const store = new HttpStore("https://example.org/", { fetch });
      await expect(store.get("x")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
      expect(asked).toEqual(["https://example.org/x"]);
    });

    it("to a page of another name do not count as an absent object", async () => {
      const { fetch } = makeFetch({
        "https://example.org/data": "https://example.org/data/",
        "https://example.org/x": "/login/",
        "https://example.org/login/": BYTES,
      });
      const store = new HttpStore("https://example.org/", { fetch });
      expect(await store.get("data")).toBeUndefined();
      expect(await store.get("x")).toEqual(BYTES);
    });
  });

  it("refuses a base that is not HTTP", () => {
    for (const base of ["file:///tmp", "x", "", "ftp://host/x"]) {
      expect(() => new HttpStore(base), base).toThrow(expect.objectContaining({ code: "BAD_ARGUMENT" }));
    }
  });
});

describe("a server that answers every unknown path with its start page", () => {
  const folder = join(import.meta.dirname, "../../fixtures/corpus/ctable/bcolz-daily-equities");
  const objects = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => [`daily.bcolz${file.slice(folder.length)}`, new Uint8Array(readFileSync(file))] as const);
  const PAGE = new TextEncoder().encode(
    "\n<!doctype html>\n<html><body><script src=/main.js></script></body></html>",
  );

  async function withPages(act: (server: TestServer, store: HttpStore) => Promise<void>): Promise<void> {
    const server = await serveObjects(objects);
    server.intercept = ({ url = "", method, headers }, response) => {
      if (server.objects.has(decodeURIComponent(url).replace("/base dir/", ""))) return false;
      const suffix = /bytes=-(\d+)/.exec(headers.range ?? "");
      response.writeHead(suffix ? 206 : 200, {
        "content-type": "text/html; charset=utf-8",
        "content-length": suffix ? 5 : PAGE.length,
        ...(suffix ? { "content-range": `bytes ${PAGE.length - 5}-${PAGE.length - 1}/${PAGE.length}` } : {}),
      });
      response.end(method === "HEAD" ? undefined : suffix ? PAGE.slice(-5) : PAGE);
      return true;
    };
    try {
      await act(server, new HttpStore(server.url, FAST));
    } finally {
      await server.close();
    }
  }

  it("serves a table that opens", () =>
    withPages(async (_server, store) => {
      const close = await openArray(store, "daily.bcolz", { column: "close", dtype: "uint32" });
      const { data } = await close.get([slice(0, 4)]);
      expect(data).toEqual(Uint32Array.of(51654, 50967, 52198, 51992));
    }));

  it("has no object where it sends the page, whatever the request", () =>
    withPages(async (_server, store) => {
      expect(await store.get("x")).toBeUndefined();
      expect(await store.stat("x")).toBeUndefined();
      expect(await store.getHead("x", 100)).toBeUndefined();
      expect(await store.getRange("x", { offset: 0, length: 4 })).toBeUndefined();
      expect(await store.getRange("x", { suffixLength: 5 })).toBeUndefined();
    }));

  it("is named as the reason if there is no archive", () =>
    withPages(async (_server, store) => {
      await expect(open(store, "dialy.bcolz")).rejects.toMatchObject({
        code: "NOT_FOUND",
        message: expect.stringContaining("the server answered with a web page"),
      });
    }));

  it("is named at an address below the path that was opened, also if another archive was opened before", () =>
    withPages(async (server, store) => {
      await open(store, "daily.bcolz");
      await expect(open(store, "dialy.bcolz")).rejects.toThrow(`at ${server.url}/dialy.bcolz`);
    }));

  it("may call its data pages: only their bytes count", () =>
    withServer(async (server, store) => {
      server.intercept = (_request, response) => {
        response.setHeader("content-type", "text/html");
        return false;
      };
      expect(await store.get("x")).toEqual(BYTES);
      expect(await store.getRange("x", { offset: 10, length: 3 })).toEqual(BYTES.slice(10, 13));
      expect(await store.stat("x")).toMatchObject({ size: BYTES.length });
    }));
});
