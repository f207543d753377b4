/** Tables over HTTP as Parquet: ranges, versions, and what happens when the table changes. */
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { convert } from "../../../src/node/index.ts";
import { serveView } from "../../../src/node/serve/serve.ts";
import { openParquet } from "../../../src/parquet/open.ts";
import { HttpStore } from "../../../src/store/http.ts";
import { putCarray } from "../../convert/to-zarr/make-archive.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { ask } from "./ask.ts";

test("each table below the root is a file: whole, in ranges, with one ETag, and described by HEAD", async () => {
  const folder = temporaryFolder();
  const store = new FileStore(folder);
  const table = join(corpusFolder, "ctable", "bcolz-daily-equities");
  await convert(table, join(folder, "t.parquet"), { to: "parquet" });
  const written = Buffer.from((await store.get("t.parquet")) ?? []);
  await store.close();
  await using served = await closing(join(corpusFolder, "ctable"));
  const path = "/bcolz-daily-equities.parquet";
  const whole = await ask(served.url, path);
  expect([whole.status, whole.bytes.equals(written)]).toEqual([200, true]);
  const head = await ask(served.url, path, {}, "HEAD");
  expect(head.headers).toMatchObject({
    "content-length": String(written.length),
    "accept-ranges": "bytes",
    etag: whole.headers.etag,
  });
  for (const [range, first, end] of [
    ["bytes=-8", written.length - 8, written.length],
    ["bytes=0-3", 0, 4],
    ["bytes=100-999999999", 100, written.length],
  ] as const) {
    const part = await ask(served.url, path, { range });
    expect([part.status, part.bytes.equals(written.subarray(first, end))]).toEqual([206, true]);
  }
  expect((await ask(served.url, path, { "if-none-match": String(head.headers.etag) })).status).toBe(304);
  expect((await ask(served.url, path, { range: `bytes=${written.length}-` })).status).toBe(416);
  expect((await ask(served.url, "/no-such-table.parquet")).status).toBe(404);
  // hyparquet, through ranges alone.
  const scan = await openParquet(new HttpStore(served.url), path.slice(1), undefined);
  const days = await scan.readColumn({ column: "day", rowStart: 0, rowEnd: 2 });
  expect(days.length).toBe(2);
});

test("a client that goes away in the middle of a file is not a failure of the server", async () => {
  const errors: unknown[] = [];
  const served = await serveView([join(corpusFolder, "ctable")], {
    onError: (_, error) => errors.push(error),
  });
  try {
    const path = "/bcolz-daily-equities.parquet";
    const { hostname, port } = new URL(served.url);
    const { bytes } = await ask(served.url, path);
    for (let turns = 0; turns < 60; turns++) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`);
      for (let i = 0; i < turns; i++) await setImmediate();
      socket.resetAndDestroy();
    }
    expect((await ask(served.url, path)).bytes.equals(bytes)).toBe(true);
    expect(errors).toEqual([]);
  } finally {
    await served.close();
  }
});

test("a table that changes gets another ETag, and ranges of the old one fail", async () => {
  const folder = temporaryFolder();
  const store = new FileStore(folder);
  const put = (add: number): Promise<unknown> => {
    const values = Float64Array.from({ length: 3000 }, (_, i) => ((i * 7919) % 4099) + add);
    const settings = { dtype: "float64", shape: [3000] } as const;
    return putCarray(store, "t/a.bcolz", new Uint8Array(values.buffer), 500, settings);
  };
  await put(0);
  await using served = await closing(join(folder, "t"));
  const before = await ask(served.url, "/a.parquet");
  await put(1);
  const range = "bytes=4-999";
  const former = String(before.headers.etag);
  // Before the server looks again, bytes of another state are detected by their checksums.
  const failed = await ask(served.url, "/a.parquet", { range, "if-match": former });
  expect(failed.status).toBe(412);
  const after = await ask(served.url, "/a.parquet", { range, "if-range": former });
  expect(after.status).toBe(200);
  expect(after.headers.etag).not.toBe(former);
  expect(after.bytes.equals(before.bytes)).toBe(false);
  const now = await ask(served.url, "/a.parquet", { range, "if-match": String(after.headers.etag) });
  expect([now.status, now.bytes.equals(after.bytes.subarray(4, 1000))]).toEqual([206, true]);
  await store.close();
});

async function closing(
  path: string,
): Promise<{ readonly url: string; [Symbol.asyncDispose](): Promise<void> }> {
  const served = await serveView(path);
  return { url: served.url, [Symbol.asyncDispose]: () => served.close() };
}
