/** Memory that answers share one after the other: no answer has another's bytes, whichever client disconnects in between. */

import { rm } from "node:fs/promises";
import { get } from "node:http";
import { expect, it } from "vitest";
import { parseDType } from "../../../src/format/dtype.ts";
import { FileStore, serveView } from "../../../src/node/index.ts";
import { ServeBuffers } from "../../../src/node/serve/serve-gate.ts";
import { zarrTreeView } from "../../../src/view/view-tree.ts";
import { createCarray } from "../../../src/write/bcolz/bcolz-create.ts";
import { findViewEntries } from "../../../src/zarr.ts";
import { temporaryFolder } from "../../folder.ts";
import { ask } from "./ask.ts";

/** Sends a request, and disconnects when the first bytes arrive. */
function leaveEarly(url: string): Promise<void> {
  return new Promise((resolve) => {
    const request = get(url, (response) => {
      response.once("data", () => request.destroy());
      response.once("close", () => resolve());
    });
    request.on("error", () => resolve());
  });
}

it("concurrent answers have their own chunks, byte for byte, also next to interrupted ones", async () => {
  const folder = temporaryFolder();
  const store = new FileStore(folder);
  const chunklen = 40_000;
  const count = 24.5 * chunklen;
  const data = new Uint8Array(Float64Array.from({ length: count }, (_, i) => Math.sin(i) * 1e6).buffer);
  await createCarray(store, "a", { dtype: parseDType("<f8", "test"), data }, { chunkLength: chunklen });
  const view = zarrTreeView(await findViewEntries(store));
  const served = await serveView(view);
  try {
    const expected = await Promise.all(Array.from({ length: 25 }, (_, i) => view.get(`/a/c/${i}`)));
    const check = async (i: number): Promise<boolean> => {
      const { status, bytes } = await ask(served.url, `/a/c/${i % 25}`);
      return status === 200 && Buffer.compare(bytes, expected[i % 25] ?? new Uint8Array()) === 0;
    };
    const outcomes: boolean[] = [];
    for (let round = 0; round < 4; round++) {
      const asked = Array.from({ length: 40 }, (_, i) => check(i * 7 + round));
      const left = Array.from({ length: 8 }, (_, i) => leaveEarly(`${served.url}a/c/${i * 3}`));
      outcomes.push(...(await Promise.all(asked)));
      await Promise.all(left);
    }
    expect(outcomes).toEqual(outcomes.map(() => true));
    expect(outcomes.length).toBe(160);
  } finally {
    await served.close();
    await store.close();
    await rm(folder, { recursive: true });
  }
});

it("a buffer is lent again once it is returned, and never while a read into it may still be running", () => {
  const buffers = new ServeBuffers();
  const first = buffers.lend();
  const [memory] = first.list;
  expect(buffers.lend().list[0]).not.toBe(memory);
  first.giveBack(undefined); // nothing was read into it
  const second = buffers.lend();
  expect(second.list[0]).toBe(memory);
  second.list.pop();
  second.giveBack(memory?.subarray(3)); // its bytes were sent
  const third = buffers.lend();
  expect(third.list[0]).toBe(memory);
  third.list.pop();
  third.giveBack(undefined); // taken out, and the read failed
  expect(buffers.lend().list[0]).not.toBe(memory);
});

it("buffers grow as needed, up to a limit", () => {
  const buffers = new ServeBuffers();
  const lend = (needed: number): number => {
    const lent = buffers.lend();
    const [memory] = lent.list.splice(0);
    const fits = memory !== undefined && memory.length >= needed;
    lent.giveBack(fits ? memory.subarray(0, needed) : new Uint8Array(needed));
    return memory?.length ?? 0;
  };
  expect([lend(1000), lend(1 << 20), lend(1 << 20), lend(10)]).toEqual([1 << 16, 1 << 16, 1 << 20, 1 << 20]);
  lend(100 << 20);
  expect(lend(1)).toBe(16 << 20);
});
