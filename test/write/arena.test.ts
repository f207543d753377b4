import { expect, test } from "vitest";
import { ChunkArena } from "../../src/write/rows/chunk-maker.ts";

test("an arena stores chunks one after another in blocks that it reuses when they are returned", () => {
  const arena = new ChunkArena();
  const first = arena.reserve(100);
  arena.keep(60);
  const second = arena.reserve(100);
  arena.keep(100);
  expect([second.buffer === first.buffer, second.byteOffset - first.byteOffset]).toEqual([true, 60]);
  const blocks = arena.take();
  expect(blocks.map((block) => block.buffer)).toEqual([first.buffer]);
  expect(arena.reserve(1).buffer).not.toBe(first.buffer);
  arena.take();
  arena.giveBack(blocks);
  expect(arena.reserve(1).buffer).toBe(first.buffer);
});

test("an arena gives a released block to the next one that needs as much, and only to one", () => {
  const before = new ChunkArena();
  const small = before.reserve(10).buffer;
  const blocks = before.take();
  const large = before.reserve(small.byteLength + 1).buffer;
  before.giveBack([...blocks, ...before.take()]);
  before.rest();
  const [a, b, c] = [new ChunkArena(), new ChunkArena(), new ChunkArena()];
  expect(a.reserve(small.byteLength + 1).buffer).toBe(large);
  expect(b.reserve(10).buffer).toBe(small);
  expect([small, large]).not.toContain(c.reserve(10).buffer);
});
