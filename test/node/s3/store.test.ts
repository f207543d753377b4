/** S3 keeps the contract of stores, and two writers can never both win. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { S3Store } from "../../../src/node/buckets/bucket-store.ts";
import { describePutting, describeReading, OBJECTS } from "../../store/store-contract.ts";
import { CREDENTIALS, startS3, type TestS3 } from "./server.ts";

let server: TestS3;
let prefixes = 0;

beforeAll(async () => {
  server = await startS3();
});
afterAll(() => server.close());

function makeStore(prefix = `p${prefixes++}`): S3Store {
  const { endpoint, bucket } = server;
  return new S3Store({ endpoint, bucket, prefix, credentials: CREDENTIALS, maxAttempts: 3 });
}

describeReading("the store in S3", async () => {
  const store = makeStore();
  for (const [key, bytes] of OBJECTS) await store.put(key, bytes);
  return { store, lists: true };
});
describePutting("the store in S3", async () => ({ store: makeStore() }));

const NOT_IMPLEMENTED = "<Error><Code>NotImplemented</Code><Message>no</Message></Error>";

describe("puts", () => {
  it("upload large objects in parts, byte for byte, and show them at once", async () => {
    const store = makeStore();
    const total = 20 << 20;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      const piece = new Uint8Array(3_000_001); // reused, as makers may
      for (let at = 0; at < total; at += piece.length) {
        const length = Math.min(piece.length, total - at);
        for (let i = 0; i < length; i++) piece[i] = ((at + i) * 31) % 251;
        expect(await store.stat("big")).toBeUndefined();
        yield piece.subarray(0, length);
      }
    }
    const info = await store.put("big", pieces());
    expect(await store.stat("big")).toMatchObject(info);
    expect(info.size).toBe(total);
    const bytes = (await store.get("big")) ?? new Uint8Array();
    let wrong = 0;
    for (let i = 0; i < total; i++) if (bytes[i] !== (i * 31) % 251) wrong++;
    expect([bytes.length, wrong]).toEqual([total, 0]);
  });

  it("leave no parts behind if their source fails", async () => {
    const store = makeStore();
    server.log.length = 0;
    const broken = new Error("the source broke");
    async function* pieces(): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(17 << 20);
      throw broken;
    }
    await expect(store.put("big", pieces())).rejects.toBe(broken);
    expect(await store.stat("big")).toBeUndefined();
    expect(server.log.some((line) => line.startsWith("DELETE") && line.includes("uploadId="))).toBe(true);
  });

  it("have one winner among writers that create an object, also in parts", async () => {
    for (const [size, count] of [
      [10, 4],
      [9 << 20, 2],
    ] as const) {
      const prefix = `race${size}`;
      const writers = Array.from({ length: count }, (_, i) => ({
        store: makeStore(prefix),
        bytes: new Uint8Array(size).fill(i),
      }));
      const results = await Promise.allSettled(
        writers.map(({ store, bytes }) => store.put("a", bytes, { ifAbsent: true })),
      );
      expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
      const winner = results.findIndex(({ status }) => status === "fulfilled");
      expect((await makeStore(prefix).get("a"))?.[0]).toBe(winner);
    }
  });

  it("replace only the version that they name", async () => {
    const store = makeStore();
    const first = await store.put("a", Uint8Array.of(1));
    const second = await store.put("a", Uint8Array.of(2), { ifVersion: first.version });
    await expect(store.put("a", Uint8Array.of(3), { ifVersion: first.version })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    await expect(store.put("none", Uint8Array.of(3), { ifVersion: first.version })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect([await store.get("a"), (await store.stat("a"))?.version]).toEqual([
      Uint8Array.of(2),
      second.version,
    ]);
  });

  it("are refused if the server ignores or refuses the condition If-Match, before anything is replaced", async () => {
    for (const answer of ["ignores", "refuses"]) {
      const store = makeStore(answer);
      const first = await store.put("a", Uint8Array.of(1));
      server.intercept = (request, response) => {
        if (request.headers["if-match"] === undefined) return false;
        if (answer === "ignores") delete request.headers["if-match"];
        else response.writeHead(501, { "content-type": "application/xml" }).end(NOT_IMPLEMENTED);
        return answer === "refuses";
      };
      try {
        for (let tries = 0; tries < 2; tries++)
          await expect(store.put("a", Uint8Array.of(2), { ifVersion: first.version })).rejects.toMatchObject({
            code: "UNSUPPORTED",
            message: expect.stringContaining(
              `${store.describe("a")}: ${server.endpoint} ignores the condition`,
            ),
          });
      } finally {
        server.intercept = () => false;
      }
      const names: string[] = [];
      for await (const { name } of store.list("")) names.push(name);
      expect([await store.get("a"), names]).toEqual([Uint8Array.of(1), ["a"]]);
    }
  });

  it("recognize their own success if its answer was lost", async () => {
    const store = makeStore("lost");
    let lost = 0;
    // The write is done, and the connection breaks before the writer gets the answer.
    server.intercept = (request, response) => {
      if (request.method === "PUT" && lost === 0) {
        lost++;
        const end = response.end.bind(response);
        void end;
        response.writeHead = (() => response.destroy()) as never;
      }
      return false;
    };
    try {
      const info = await store.put("a", Uint8Array.of(1, 2), { ifAbsent: true });
      expect([lost, info.size]).toEqual([1, 2]);
      await expect(store.put("a", Uint8Array.of(3), { ifAbsent: true })).rejects.toMatchObject({
        code: "CONFLICT",
      });
    } finally {
      server.intercept = () => false;
    }
  });
});

describe("reads", () => {
  it("refuse to mix two versions of an object", async () => {
    const reader = makeStore("mix");
    const writer = makeStore("mix");
    await writer.put("a", new Uint8Array(100).fill(1));
    expect(await reader.getRange("a", { offset: 0, length: 10 })).toEqual(new Uint8Array(10).fill(1));
    await writer.put("a", new Uint8Array(100).fill(2));
    await expect(reader.getRange("a", { offset: 10, length: 10 })).rejects.toMatchObject({
      code: "STALE",
      details: { field: "etag", expected: expect.any(String), found: expect.any(String) },
    });
    await reader.close();
    expect(await reader.getRange("a", { offset: 10, length: 10 })).toEqual(new Uint8Array(10).fill(2));
  });

  it("are retried if the server is busy, or the body breaks off", async () => {
    const store = makeStore();
    await store.put("a", new Uint8Array(1000).fill(7));
    let asked = 0;
    server.intercept = (request, response) => {
      if (request.method !== "GET") return false;
      asked++;
      if (asked === 1) response.writeHead(503).end("<Error><Code>SlowDown</Code></Error>");
      else if (asked === 2) {
        response.writeHead(200, { "content-length": "1000", etag: '"x"' });
        response.write(new Uint8Array(10));
        setImmediate(() => response.destroy());
      } else return false;
      return true;
    };
    try {
      expect(await store.get("a")).toEqual(new Uint8Array(1000).fill(7));
      expect(asked).toBe(3);
    } finally {
      server.intercept = () => false;
    }
  });

  it("run a bounded number at a time", async () => {
    const { endpoint, bucket } = server;
    const store = new S3Store({
      endpoint,
      bucket,
      prefix: "many",
      credentials: CREDENTIALS,
      maxConcurrent: 3,
    });
    const bytes = new Uint8Array(100);
    const md5 = createHash("md5").update(bytes).digest("hex");
    await store.put("a", bytes);
    let running = 0;
    let most = 0;
    let asked = 0;
    const waiting: (() => void)[] = [];
    server.intercept = ({ headers }, response) => {
      most = Math.max(most, ++running);
      response.on("close", () => running--);
      const range = headers.range?.replace("=", " ");
      waiting.push(() =>
        response.writeHead(206, { etag: `"${md5}"`, "content-range": `${range}/100` }).end("a"),
      );
      // Each waits for two more, while there are more.
      if (++asked === 20 || waiting.length === 3)
        for (const answer of waiting.splice(0)) setImmediate(answer);
      return true;
    };
    try {
      await Promise.all(Array.from({ length: 20 }, (_, i) => store.getRange("a", { offset: i, length: 1 })));
      expect([most > 1, most <= 3]).toEqual([true, true]);
    } finally {
      server.intercept = () => false;
    }
  });

  it("follow listings over many pages", async () => {
    const store = makeStore();
    const names = Array.from({ length: 25 }, (_, i) => `${i}`);
    await Promise.all(names.map((name) => store.put(`d/${name}`, new Uint8Array(1))));
    let pages = 0;
    server.intercept = (request) => {
      request.url = `${request.url}&max-keys=10`; // a thousand otherwise
      pages++;
      return false;
    };
    try {
      const found: string[] = [];
      for await (const { name } of store.list("d")) found.push(name);
      expect(found.sort()).toEqual(names.sort());
      expect(pages).toBe(3);
    } finally {
      server.intercept = () => false;
    }
  });
});

describe("failures", () => {
  const answer = (status: number, code: string): void => {
    server.intercept = (_, response) => {
      response.writeHead(status, { "content-type": "application/xml" });
      response.end(`<Error><Code>${code}</Code><Message>of the server</Message></Error>`);
      return true;
    };
  };

  it.each([
    [403, "AccessDenied", "IO", "access denied"],
    [403, "InvalidAccessKeyId", "IO", "access denied"],
    [404, "NoSuchBucket", "NOT_FOUND", "no such bucket"],
    [400, "ExpiredToken", "IO", "refused"],
    [503, "SlowDown", "IO", "is busy or has failed"],
  ])("are reported with status %d %s, and never show credentials", async (status, code, ours, text) => {
    answer(status, code);
    try {
      const { endpoint, bucket } = server;
      const credentials = {
        accessKeyId: "AKIAVISIBLE",
        secretAccessKey: "hush-hush",
        sessionToken: "token-token",
      };
      const store = new S3Store({ endpoint, bucket, credentials, maxAttempts: 1 });
      const failures = await Promise.all(
        [store.get("a"), store.getRange("a", { offset: 0, length: 1 }), store.put("a", Uint8Array.of(1))].map(
          (each) =>
            each.then(
              () => undefined,
              (error: unknown) => error as Error,
            ),
        ),
      );
      for (const failure of failures) {
        expect(failure).toMatchObject({ code: ours, message: expect.stringContaining(text) as string });
        const { inspect } = await import("node:util");
        const shown = inspect(failure, { depth: 10, showHidden: true });
        expect(shown).not.toMatch(/AKIAVISIBLE|hush-hush|token-token/);
      }
    } finally {
      server.intercept = () => false;
    }
  });

  it("of a listing say that the bucket does not exist, also if the server is not S3", async () => {
    server.intercept = (_, response) => {
      response.writeHead(404, { "content-type": "text/html" });
      response.end("<p>nothing here</p>");
      return true;
    };
    try {
      const { endpoint, bucket } = server;
      const store = new S3Store({ endpoint, bucket, credentials: CREDENTIALS, maxAttempts: 1 });
      const listing = async (): Promise<void> => {
        for await (const _ of store.list("a"));
      };
      await expect(listing()).rejects.toMatchObject({
        code: "NOT_FOUND",
        message: expect.stringContaining(`s3://${bucket}/a: no such bucket at ${endpoint}`) as string,
      });
    } finally {
      server.intercept = () => false;
    }
  });

  it.each(["nohost:9", "localhost", "ftp://host", "http://user:hush-hush@host"])(
    "caused by an endpoint %s of the environment name the variable, and do not repeat its value",
    async (endpoint) => {
      const before = process.env["AWS_ENDPOINT_URL_S3"];
      process.env["AWS_ENDPOINT_URL_S3"] = endpoint;
      try {
        const failure = await new S3Store({ bucket: "bbb", credentials: CREDENTIALS }).get("a").then(
          () => undefined,
          (error: unknown) => error as Error,
        );
        expect(failure).toMatchObject({
          code: "BAD_ARGUMENT",
          message: expect.stringContaining("AWS_ENDPOINT_URL_S3") as string,
        });
        expect(failure?.message).not.toContain(endpoint);
      } finally {
        if (before === undefined) delete process.env["AWS_ENDPOINT_URL_S3"];
        else process.env["AWS_ENDPOINT_URL_S3"] = before;
      }
    },
  );

  it("say that no region is set, if none is", async () => {
    const names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"];
    const files = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
    const before = { ...process.env };
    for (const name of names) delete process.env[name];
    // An empty variable counts as unset.
    process.env["AWS_ENDPOINT_URL"] = "";
    for (const name of files) process.env[name] = "/nowhere";
    try {
      const store = new S3Store({ bucket: "bbb", credentials: CREDENTIALS, maxAttempts: 1 });
      await expect(store.get("a")).rejects.toMatchObject({
        code: "IO",
        message: expect.stringContaining("set AWS_REGION") as string,
      });
    } finally {
      for (const name of [...names, ...files]) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    }
  });

  it("say that no server answers at the address", async () => {
    const store = new S3Store({
      endpoint: "http://127.0.0.1:9",
      bucket: "b".repeat(3),
      credentials: CREDENTIALS,
      maxAttempts: 1,
    });
    await expect(store.get("a")).rejects.toMatchObject({
      code: "IO",
      message: expect.stringContaining("http://127.0.0.1:9 did not answer; check the endpoint") as string,
    });
  });
});
