/** A server that stalls is given up, asked again, and reported. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { HttpStore } from "../../../src/store/http.ts";
import { serveObjects, type TestServer } from "../../store/server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await serveObjects([["a", new Uint8Array(1000).fill(7)]]);
});
afterEach(() => server.close());

/** Requests that were sent. On a busy machine one may be given up before the server sees it. */
let sent = 0;
const makeStore = (retries: number): HttpStore => {
  sent = 0;
  const counting: typeof fetch = (...request) => {
    sent++;
    return fetch(...request);
  };
  return new HttpStore(server.url, { timeoutMs: 100, retries, retryDelayMs: 1, fetch: counting });
};

it("an answer that does not arrive is an error that says so", async () => {
  server.intercept = () => true;
  await expect(makeStore(1).get("a")).rejects.toMatchObject({
    code: "IO",
    message: expect.stringMatching(/2 tries.*no answer within 100 ms/) as string,
  });
  expect(sent).toBe(2);
});

it("a body that stalls is requested again", async () => {
  let asked = 0;
  server.intercept = (_, response) => {
    if (++asked > 1) return false;
    response.writeHead(200, { "content-length": "1000" });
    response.write(new Uint8Array(10));
    return true;
  };
  // More tries, because on a busy machine even a complete answer may take longer than the store waits.
  expect(await makeStore(100).get("a")).toEqual(new Uint8Array(1000).fill(7));
  expect(sent).toBeGreaterThan(1);
});

it("the caller's own abort ends the wait with its reason", async () => {
  server.intercept = () => true;
  const reason = new Error("enough");
  const controller = new AbortController();
  const reading = makeStore(3).get("a", { signal: controller.signal });
  setTimeout(() => controller.abort(reason), 10);
  await expect(reading).rejects.toBe(reason);
});
