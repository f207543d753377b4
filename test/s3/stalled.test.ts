/** A server that stops in the middle is given up, asked again, and told of. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { HttpStore } from "../../src/store/http.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await serveObjects([["a", new Uint8Array(1000).fill(7)]]);
});
afterEach(() => server.close());

const makeStore = (retries: number): HttpStore =>
  new HttpStore(server.url, { timeoutMs: 100, retries, retryDelayMs: 1 });

it("an answer that does not come is an error that says so", async () => {
  server.intercept = () => true;
  await expect(makeStore(1).get("a")).rejects.toMatchObject({
    code: "IO",
    message: expect.stringMatching(/2 tries.*no answer within 100 ms/) as string,
  });
  expect(server.log).toHaveLength(2);
});

it("a body that stops is asked for again", async () => {
  let asked = 0;
  server.intercept = (_, response) => {
    if (++asked > 1) return false;
    response.writeHead(200, { "content-length": "1000" });
    response.write(new Uint8Array(10));
    return true;
  };
  expect(await makeStore(1).get("a")).toEqual(new Uint8Array(1000).fill(7));
  expect(asked).toBe(2);
});

it("the caller's own abort ends the wait with its own reason", async () => {
  server.intercept = () => true;
  const reason = new Error("enough");
  const controller = new AbortController();
  const reading = makeStore(3).get("a", { signal: controller.signal });
  setTimeout(() => controller.abort(reason), 10);
  await expect(reading).rejects.toBe(reason);
});
