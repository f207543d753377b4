/** A server under clients that request much and read nothing, and under more of them than it has places. */
import { once } from "node:events";
import { Agent, get } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { serveView } from "../../src/node/index.ts";
import type { ServedView } from "../../src/node/serve/serve.ts";
import type { ZarrView } from "../../src/zarr.ts";
import { ask } from "../node/serve/ask.ts";

const LARGE = new Uint8Array(8 << 20).fill(7);

/** Chunks of 8 MiB, and a document. */
const view: ZarrView = {
  get: (key) => Promise.resolve(key.endsWith("zarr.json") ? new TextEncoder().encode("{}") : LARGE),
  getRange: () => Promise.resolve(undefined),
  list: () => Promise.resolve([{ path: "", kind: "group" }]),
};

/** Connections that send requests and read nothing. */
async function attack(served: ServedView, count: number, requests: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i++) {
    const socket = connect(served.port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.pause();
    await once(socket, "connect");
    socket.write("GET /c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(requests));
    sockets.push(socket);
  }
  return sockets;
}

describe("a server", () => {
  it("answers requests for documents at once and for chunks soon, next to 64 clients that ask for 8 MiB and read nothing", async () => {
    // The timeout is shorter than usual, and all clients have the same address.
    const served = await serveView(view, { limits: { patienceMs: 200 } });
    const sockets = await attack(served, 64, 1);
    try {
      for (const path of ["/zarr.json", "/", "/zarr.json"])
        expect((await ask(served.url, path)).status).toBe(200);
      expect(sockets.filter(({ closed }) => closed)).toEqual([]);
      const { status, bytes } = await ask(served.url, "/c/0");
      expect([status, Buffer.compare(bytes, LARGE)]).toEqual([200, 0]);
    } finally {
      for (const socket of sockets) socket.destroy();
      await served.close();
    }
  });

  it("closes a connection that sends endless requests and reads no answer", async () => {
    const served = await serveView(view);
    const sockets = await attack(served, 1, 1000);
    try {
      const [socket] = sockets;
      socket?.resume();
      if (socket?.closed === false) await once(socket, "close");
      expect(socket?.closed).toBe(true);
      expect((await ask(served.url, "/c/0")).bytes.length).toBe(LARGE.length);
    } finally {
      await served.close();
    }
  });

  it("answers each of 500 keep-alive connections again and again", async () => {
    const served = await serveView(view);
    const agent = new Agent({ keepAlive: true, maxSockets: 500, maxFreeSockets: 500 });
    try {
      const used = new Set<number | undefined>();
      for (let round = 0; round < 3; round++) {
        const answers = Array.from(
          { length: 500 },
          () =>
            new Promise<number | undefined>((resolve, reject) => {
              get(`${served.url}zarr.json`, { agent }, (response) => {
                used.add(response.socket.localPort);
                response.resume().once("end", () => resolve(response.statusCode));
              }).once("error", reject);
            }),
        );
        expect(new Set(await Promise.all(answers))).toEqual(new Set([200]));
      }
      expect(used.size).toBeGreaterThan(400);
      expect((await ask(served.url, "/zarr.json")).status).toBe(200);
    } finally {
      agent.destroy();
      await served.close();
    }
  });
});
