/** Requests everything from a server once: `node load.mjs CONNECTIONS`, a JSON list of {url, range?} on stdin; prints JSON. */
import { Agent, get } from "node:http";

const connections = Number(process.argv[2] ?? 4);
let text = "";
for await (const piece of process.stdin) text += piece;
const waiting = JSON.parse(text).reverse();
const agent = new Agent({ keepAlive: true, maxSockets: connections });
const asked = waiting.length;
let bytes = 0;

function ask({ url, range }) {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, headers: range === undefined ? {} : { range } }, (response) => {
      const expected = range === undefined ? 200 : 206;
      if (response.statusCode !== expected) reject(new Error(`${url}: ${response.statusCode}`));
      response.on("data", (piece) => {
        bytes += piece.length;
      });
      response.on("end", resolve);
      response.on("error", reject);
    });
    request.on("error", reject);
  });
}

async function work() {
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await ask(next);
}

const start = performance.now();
await Promise.all(Array.from({ length: connections }, work));
const seconds = (performance.now() - start) / 1000;
agent.destroy();
console.log(JSON.stringify({ bytes, seconds, requests: asked }));
