import { expect, test } from "vitest";
import { open } from "../../src/array/open.ts";
import type { ArrayArchive, ArraySlice } from "../../src/array/types.ts";
import { createArray, openWritable } from "../../src/array/write/create.ts";
import { MemoryStore } from "../../src/store/memory.ts";

test("appended rows are read back by a reader, through every chunk length", async () => {
  for (const chunklen of [1, 3, 7, 64]) {
    const store = new MemoryStore();
    const array = await createArray(store, "a", {
      dtype: "<i4",
      chunklen,
      superchunklen: 4,
      attrs: { x: 1 },
    });
    const expected: number[] = [];
    for (let i = 0; i < 60; i++) {
      const part = Int32Array.from({ length: i % 9 }, (_, k) => i * 100 + k);
      await array.append(part);
      expected.push(...part);
      if (i % 3 === 0) await array.flush();
      if (i % 20 === 19) {
        const { data } = (await array.get()) as ArraySlice;
        expect([...(data as Int32Array)]).toEqual(expected);
      }
    }
    await array.close();
    const reader = (await open(store, "a")) as ArrayArchive;
    expect(reader.attrs).toEqual({ x: 1 });
    const { data } = (await reader.get()) as ArraySlice;
    expect([...(data as Int32Array)]).toEqual(expected);
    expect((await reader.verify()).findings).toEqual([]);
    const again = await openWritable(store, "a");
    await again.append(Int32Array.of(7));
    await again.resize(100);
    expected.push(7);
    await again.set([{ start: 1, stop: 50, step: 5 }], -1);
    for (let i = 1; i < 50; i += 5) expected[i] = -1;
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(expected.slice(0, 100));
    await again.deleteRows(10, 30);
    const after = expected.slice(0, 100).filter((_, i) => i < 10 || i >= 30);
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    await again.compact({ chunklen: 5, superchunklen: 4 });
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    await again.close();
    const third = (await open(store, "a")) as ArrayArchive;
    expect([...(((await third.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    expect((await third.verify()).findings).toEqual([]);
    const names: string[] = [];
    for await (const { name } of store.list("a/data")) names.push(name);
    expect(names.sort()).toEqual(["__1__.bin", "__2__.bin", "__3__.bin", "__4__.bin"]);
  }
});
