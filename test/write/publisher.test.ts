import { expect, test } from "vitest";
import { Publisher, type Segment } from "../../src/write/array/publisher.ts";

const MIB = 1 << 20;

/** A segment of one chunk that has so many bytes. */
function segmentOf(number: number, nbytes: number): Segment {
  return {
    number,
    first: 0,
    columns: [[{ bytes: new Uint8Array(nbytes), digest: new Uint8Array(4), nbytes }]],
  };
}

/** A publisher that publishes nothing until `finish` says so, and the order of events. */
function startPublisher(): { publisher: Publisher; events: string[]; finish(number: number): void } {
  const ends = new Map<number, () => void>();
  const events: string[] = [];
  const publisher = new Publisher(
    ({ number }) => {
      events.push(`begun ${number}`);
      return new Promise((resolve) => ends.set(number, resolve));
    },
    (blocks) => void events.push(`given back ${blocks.length}`),
  );
  return { publisher, events, finish: (number) => ends.get(number)?.() };
}

/** Lets every promise settle that can. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("one full superchunk, but not two, is being written while the next one is made", async () => {
  const { publisher, events, finish } = startPublisher();
  await publisher.add(segmentOf(1, 25 * MIB), [new Uint8Array(1)]);
  const second = publisher.add(segmentOf(2, 25 * MIB), []).then(() => events.push("go on"));
  await settle();
  expect(events).toEqual(["begun 1", "begun 2"]);
  finish(1);
  await second;
  expect(events).toEqual(["begun 1", "begun 2", "given back 1", "go on"]);
  finish(2);
  await publisher.drain();
});

test("two small superchunks, but not three, are being written while the next one is made", async () => {
  const { publisher, events, finish } = startPublisher();
  for (const number of [1, 2]) await publisher.add(segmentOf(number, MIB), []);
  const third = publisher.add(segmentOf(3, MIB), []).then(() => events.push("go on"));
  await settle();
  expect(events).toEqual(["begun 1", "begun 2", "begun 3"]);
  finish(2);
  await third;
  expect(events.slice(3)).toEqual(["given back 0", "go on"]);
  for (const number of [1, 3]) finish(number);
  await publisher.drain();
});

test("failures that happen together are reported once, and a retry reports only new ones", async () => {
  let isFull = true;
  const published: number[] = [];
  const publisher = new Publisher(
    async ({ number }) => {
      await settle();
      if (isFull) throw new Error(`no room for ${number}`);
      published.push(number);
    },
    () => undefined,
  );
  for (const number of [1, 2]) await publisher.add(segmentOf(number, MIB), []);
  await expect(publisher.drain()).rejects.toThrow("no room for 1");
  isFull = false;
  await publisher.drain();
  expect(published).toEqual([1, 2]);
});
