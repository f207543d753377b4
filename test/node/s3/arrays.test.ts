/**
 * Arrays are stored in S3 with the commit protocol of arrays on disk: one of two writers gets a conflict, and no row
 * is lost.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { S3Store } from "../../../src/node/index.ts";
import { createArray, openWritable } from "../../../src/write/array/create.ts";
import { openShared } from "../../../src/write/array/open-shared.ts";
import { CREDENTIALS, startS3, type TestS3 } from "./server.ts";

let server: TestS3;
beforeAll(async () => {
  server = await startS3();
});
afterAll(() => server.close());

const makeStore = (): S3Store =>
  new S3Store({ bucket: server.bucket, endpoint: server.endpoint, credentials: CREDENTIALS });

/** Rows `[from, to)`, each its own number. */
const rows = (from: number, to: number): Float64Array =>
  Float64Array.from({ length: to - from }, (_, i) => from + i);

async function readAll(path: string): Promise<number[]> {
  const archive = await open(makeStore(), path);
  if (archive.kind !== "array") throw new Error("not an array");
  const { data } = (await archive.get(null)) as { data: ArrayLike<number> };
  return Array.from(data);
}

describe("an array in S3", () => {
  it("is created, grows, changes and shrinks", async () => {
    const array = await createArray(makeStore(), "grows", { dtype: "<f8", chunkLength: 100 });
    await array.append(rows(0, 250));
    await array.close();
    expect(await readAll("grows")).toEqual(Array.from(rows(0, 250)));
    const again = await openWritable(makeStore(), "grows");
    await again.append(rows(250, 430));
    await again.set([7], -1);
    await again.resize(420);
    await again.close();
    const expected = Array.from(rows(0, 420));
    expected[7] = -1;
    expect(await readAll("grows")).toEqual(expected);
  });

  it("is created by only one of two concurrent writers", async () => {
    const tries = [0, 1].map(() => createArray(makeStore(), "raced", { dtype: "<f8", chunkLength: 100 }));
    const outcomes = await Promise.allSettled(tries);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    for (const outcome of outcomes)
      if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "CONFLICT" });
  });

  it("takes the rows of one of two concurrent writers, and reports the conflict to the other", async () => {
    const array = await createArray(makeStore(), "shared", { dtype: "<f8", chunkLength: 100 });
    await array.append(rows(0, 150));
    await array.close();
    const writers = [await openWritable(makeStore(), "shared"), await openWritable(makeStore(), "shared")];
    const outcomes = await Promise.allSettled(
      writers.map(async (writer, i) => {
        await writer.append(rows(1000 * (i + 1), 1000 * (i + 1) + 130));
        await writer.close();
      }),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
    for (const outcome of outcomes)
      if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "CONFLICT" });
    const first = 1000 * (winner + 1);
    expect(await readAll("shared")).toEqual([...rows(0, 150), ...rows(first, first + 130)]);
    // The loser opens the array again, and its rows are appended.
    const later = await openWritable(makeStore(), "shared");
    await later.append(rows(5000, 5010));
    await later.close();
    expect((await readAll("shared")).slice(-10)).toEqual(Array.from(rows(5000, 5010)));
  });
});

describe("an array in S3 with several appending writers", () => {
  it("[FG-17] has all rows once, even if answers are lost", async () => {
    await (await createArray(makeStore(), "many", { dtype: "<f8", chunkLength: 8 })).close();
    let count = 0;
    // Every ninth commit gets no answer, and every other one of these does not arrive either; the SDK retries on its
    // own.
    server.intercept = (asked, response) => {
      if (asked.method !== "PUT" || !/many\/meta\/sizes/.test(asked.url ?? "") || ++count % 9 !== 0)
        return false;
      if (count % 2 === 0) return response.destroy() !== undefined;
      response.end = () => response.destroy();
      return false;
    };
    const writers = [1, 2, 3].map(async (writer) => {
      const array = await openShared(makeStore(), "many");
      for (let k = 0; k < 4; k++) {
        await array.append(rows(1000 * writer + 5 * k, 1000 * writer + 5 * k + 5));
        await array.flush();
      }
      await array.close();
    });
    await Promise.all(writers);
    server.intercept = () => false;
    const found = await readAll("many");
    const expected = [1, 2, 3].flatMap((writer) => [...rows(1000 * writer, 1000 * writer + 20)]);
    expect(found.sort((a, b) => a - b)).toEqual(expected);
    expect(count).toBeGreaterThan(12);
  });
});
