/** What a queue refuses before and without a server; test/interop/queue.ts has the rest, on a real one. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readJob } from "../../src/queue/connection.ts";
import { enqueue, queueStatus, work } from "../../src/queue/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const ID = "0123456789abcdef0123456789abcdef";

/** An address at which no server listens. A port that was free a moment ago can be taken by another test. */
const NOBODY = "127.0.0.1:1";

it.each(["localhost:6379", "http://127.0.0.1:6379", "redis://", ""])(
  "the address %j is wrong usage",
  async (url) => {
    await expect(queueStatus(ID, { url })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
    await expect(work({ url })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
    await expect(enqueue("/nothing/plan.json", { url })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  },
);

it("an absent server is one error, which does not show the password", async () => {
  const folder = temporaryFolder();
  const plan = join(folder, "plan.json");
  const table = join(corpusFolder, "ctable", "bcolz-daily-equities");
  expect((await runCli(["plan", table, join(folder, "out.zarr"), "-o", plan])).code).toBe(0);
  const queue = ["--queue", `redis://user:secret@${NOBODY}`];
  for (const words of [
    ["run", plan],
    ["status", plan],
  ]) {
    const { code, out, err } = await runCli([...words, ...queue]);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^superchunk: redis:\/\/127[^@]*: the queue's server fails: .*ECONNREFUSED/),
    ]);
    expect(out + err).not.toContain("secret");
  }
});

it("a worker waits for a server that is not there yet, and says so", async () => {
  const stop = new AbortController();
  const lost: string[] = [];
  const onLost = (reason: string): void => {
    lost.push(reason);
    stop.abort();
  };
  const worked = await work({ url: `redis://${NOBODY}`, signal: stop.signal, onLost });
  expect([worked, lost]).toEqual([{ done: 0, failed: 0 }, [expect.stringContaining("ECONNREFUSED")]]);
});

it("a worker does not wait for a server that refuses its password", async () => {
  const server = createServer((socket) => {
    socket.on("data", (commands) => {
      for (const _ of commands.toString().matchAll(/^\*\d/gm))
        socket.write("-WRONGPASS invalid username-password pair\r\n");
    });
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const url = `redis://user:secret@127.0.0.1:${port}`;
    await expect(work({ url })).rejects.toThrow(/127[^@]*: the queue's server fails: .*WRONGPASS/);
  } finally {
    server.close();
  }
});

it.each([
  ["of a task", { plan: "/plan.json", id: ID, unit: 3 }, true],
  ["of an end", { plan: "/plan.json", id: ID }, true],
  ["of another program", { file: "x" }, false],
  ["without anything", undefined, false],
  ["with a task that is not a number", { plan: "/plan.json", id: ID, unit: "3" }, false],
  ["with a negative task", { plan: "/plan.json", id: ID, unit: -1 }, false],
  ["with another id", { plan: "/plan.json", id: "../../etc" }, false],
] as const)("a job %s", (_, data, isOurs) => {
  expect(readJob({ data })).toEqual(isOurs ? data : undefined);
});
