/**
 * An S3 server in memory, on loopback: the SDK's requests for objects and their conditions, one after another for each key. `node
 * s3-server.mjs` prints its address.
 */
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const objects = new Map();

function list(query) {
  const prefix = query.get("prefix") ?? "";
  const names = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort();
  const folders = new Set();
  const keys = names.filter((key) => {
    const slash = key.indexOf("/", prefix.length);
    if (slash >= 0) folders.add(key.slice(0, slash + 1));
    return slash < 0;
  });
  const entries = keys.map((key) => `<Contents><Key>${key}</Key></Contents>`);
  const common = [...folders].map((key) => `<CommonPrefixes><Prefix>${key}</Prefix></CommonPrefixes>`);
  return `<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join("")}${common.join("")}</ListBucketResult>`;
}

function answer({ method, url, headers }, body) {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  const [, , ...parts] = decodeURIComponent(pathname).split("/");
  const key = parts.join("/");
  if (key === "") return { status: 200, body: list(searchParams) };
  const there = objects.get(key);
  if (method === "PUT") {
    const isHeld =
      headers["if-none-match"] === undefined
        ? headers["if-match"] === undefined || there?.etag === headers["if-match"]
        : there === undefined;
    if (!isHeld) return { status: 412, body: "<Error><Code>PreconditionFailed</Code></Error>" };
    const etag = `"${createHash("md5").update(body).digest("hex")}"`;
    objects.set(key, { body, etag, mark: headers["x-amz-meta-superchunk-put"] });
    return { status: 200, etag };
  }
  if (method === "DELETE") {
    objects.delete(key);
    return { status: 204 };
  }
  if (there === undefined) return { status: 404, body: "<Error><Code>NoSuchKey</Code></Error>" };
  const { etag, mark } = there;
  const more = mark === undefined ? {} : { "x-amz-meta-superchunk-put": mark };
  if (method === "HEAD") return { status: 200, etag, more, length: there.body.length };
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "") ?? [];
  if (from === undefined) return { status: 200, etag, more, body: there.body };
  const size = there.body.length;
  if (Number(from) >= size) return { status: 416, body: "<Error><Code>InvalidRange</Code></Error>" };
  const end = Math.min(size - 1, to === "" ? size - 1 : Number(to));
  const range = { ...more, "content-range": `bytes ${from}-${end}/${size}` };
  return { status: 206, etag, more: range, body: there.body.subarray(Number(from), end + 1) };
}

const server = createServer(async (request, response) => {
  // For the benchmark: processor seconds of the server.
  if (request.url === "/cpu") {
    const { user, system } = process.cpuUsage();
    response.end(String((user + system) / 1e6));
    return;
  }
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const { status, etag, body = "", more = {}, length } = answer(request, Buffer.concat(pieces));
  const sent = Buffer.from(body);
  response.writeHead(status, {
    ...more,
    ...(etag === undefined ? {} : { etag }),
    ...(status === 204 ? {} : { "content-length": length ?? sent.length }),
  });
  response.end(request.method === "HEAD" ? undefined : sent);
});
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
