/**
 * Google Cloud Storage and Azure Blob Storage on loopback, in memory: as much of both as their clients ask of a store.
 *
 * The interop suite `buckets` tries the same against emulators; these servers also lose answers and count requests.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

interface Stored {
  readonly bytes: Buffer;
  readonly version: string;
  readonly mark: string | undefined;
  readonly at: Date;
}

export interface TestBucket {
  readonly endpoint: string;
  readonly bucket: string;
  /** `METHOD path range` of each request. */
  readonly log: string[];
  readonly objects: Map<string, Stored>;
  /** Answers a request instead of the server; false passes it on. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean;
  close(): Promise<void>;
}

/** One request, parsed. */
interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** An answer: status, headers, and bytes or text. */
type Reply = readonly [status: number, headers: Record<string, string | number>, body?: Buffer | string];

const BUCKET = "archives";

async function start(answer: (asked: Asked, objects: Map<string, Stored>) => Reply): Promise<TestBucket> {
  const objects = new Map<string, Stored>();
  const log: string[] = [];
  const server = createServer(async (request, response) => {
    const range = request.headers["x-ms-range"] ?? request.headers.range;
    log.push(`${request.method} ${request.url}${range === undefined ? "" : ` ${range}`}`);
    if (running.intercept(request, response)) return;
    const asked = {
      method: request.method ?? "GET",
      url: new URL(request.url ?? "/", "http://host"),
      headers: request.headers,
      body: await buffer(request),
    };
    const [status, headers, body = ""] = answer(asked, objects);
    const bytes = Buffer.from(body);
    response.writeHead(status, { "content-length": bytes.length, ...headers });
    response.end(asked.method === "HEAD" ? "" : bytes);
  });
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const running: TestBucket = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bucket: BUCKET,
    log,
    objects,
    intercept: () => false,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return running;
}

let versions = 1_700_000_000_000_000;

function store(objects: Map<string, Stored>, key: string, bytes: Buffer, mark: string | undefined): Stored {
  const stored = { bytes, mark, version: String(versions++), at: new Date(1_700_000_000_000) };
  objects.set(key, stored);
  return stored;
}

/** The bytes of a `bytes=` range; undefined if it begins after the end. */
function part(bytes: Buffer, range: string): { piece: Buffer; header: string } | undefined {
  const [, from = "", to = ""] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  const first = from === "" ? Math.max(0, bytes.length - Number(to)) : Number(from);
  const last = from === "" || to === "" ? bytes.length - 1 : Math.min(bytes.length - 1, Number(to));
  if (first > last) return undefined;
  return { piece: bytes.subarray(first, last + 1), header: `bytes ${first}-${last}/${bytes.length}` };
}

/** Names and folders directly under a prefix, a page of ten at a time. */
function list(
  objects: Map<string, Stored>,
  url: URL,
  tokenName: string,
): { keys: string[]; folders: string[]; next: string | undefined } {
  const prefix = url.searchParams.get("prefix") ?? "";
  const keys: string[] = [];
  const folders = new Set<string>();
  for (const key of [...objects.keys()].sort()) {
    if (!key.startsWith(prefix)) continue;
    const slash = key.indexOf("/", prefix.length);
    if (slash < 0) keys.push(key);
    else folders.add(key.slice(0, slash + 1));
  }
  const from = Number(url.searchParams.get(tokenName) || 0);
  const next = keys.length > from + 10 ? String(from + 10) : undefined;
  return { keys: keys.slice(from, from + 10), folders: from > 0 ? [] : [...folders], next };
}

/** Google Cloud Storage with its JSON interface. */
export function startGcs(): Promise<TestBucket> {
  const sessions = new Map<
    string,
    { key: string; match: string | null; mark: string | undefined; bytes: Buffer[] }
  >();
  return start(({ method, url, headers, body }, objects) => {
    const json = (status: number, value: unknown): Reply => [
      status,
      { "content-type": "application/json" },
      JSON.stringify(value),
    ];
    const failure = (status: number, message: string): Reply =>
      json(status, { error: { code: status, message } });
    const facts = (key: string, { bytes, version, mark, at }: Stored): object => ({
      name: key,
      size: String(bytes.length),
      generation: version,
      updated: at.toISOString(),
      md5Hash: createHash("md5").update(bytes).digest("base64"),
      metadata: mark === undefined ? {} : { superchunkput: mark },
    });
    const put = (key: string, bytes: Buffer, mark: string | undefined, match: string | null): Reply => {
      if (match !== null && (objects.get(key)?.version ?? "0") !== match)
        return failure(412, "At least one of the pre-conditions you specified did not hold.");
      return json(200, facts(key, store(objects, key, bytes, mark)));
    };
    const [, bucket, key] =
      /^(?:\/upload)?(?:\/storage\/v1)?\/b\/([^/]+)\/o(?:\/(.*))?$/.exec(url.pathname) ?? [];
    if (bucket !== BUCKET) return failure(404, "The specified bucket does not exist.");
    const upload = url.searchParams.get("uploadType");
    const match = url.searchParams.get("ifGenerationMatch");
    const name = key === undefined ? (url.searchParams.get("name") ?? "") : decodeURIComponent(key);
    if (upload === "multipart") {
      const [, edge = ""] = /boundary=(.*)/.exec(String(headers["content-type"])) ?? [];
      const text = body.toString("latin1");
      const [, first = "", second = ""] = text.split(`--${edge}`);
      const content = (piece: string): string => piece.slice(piece.indexOf("\r\n\r\n") + 4, -2);
      const { metadata } = JSON.parse(content(first)) as { metadata?: { superchunkput?: string } };
      return put(name, Buffer.from(content(second), "latin1"), metadata?.superchunkput, match);
    }
    const session = url.searchParams.get("session");
    if (upload === "resumable" && session === null) {
      const { metadata } = JSON.parse(body.toString() || "{}") as { metadata?: { superchunkput?: string } };
      const id = String(sessions.size);
      sessions.set(id, { key: name, match, mark: metadata?.superchunkput, bytes: [] });
      const location = `http://${headers.host}${url.pathname}?uploadType=resumable&session=${id}`;
      return [200, { location }];
    }
    if (session !== null) {
      const open = sessions.get(session);
      if (open === undefined) return failure(404, "No such session");
      const [, from, total] = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headers["content-range"] ?? "") ?? [];
      const had = Buffer.concat(open.bytes).length;
      if (from === undefined || Number(from) === had) open.bytes.push(body);
      const bytes = Buffer.concat(open.bytes);
      if (total === "*") return [308, { range: `bytes=0-${bytes.length - 1}` }];
      return put(open.key, bytes, open.mark, open.match);
    }
    if (key === undefined) {
      const { keys, folders, next } = list(objects, url, "pageToken");
      const items = keys.map((each) => facts(each, objects.get(each) as Stored));
      return json(200, { items, prefixes: folders, ...(next === undefined ? {} : { nextPageToken: next }) });
    }
    const found = objects.get(name);
    if (found === undefined) return failure(404, `No such object: ${bucket}/${name}`);
    if (method === "DELETE") {
      objects.delete(name);
      return [204, {}];
    }
    if (url.searchParams.get("alt") !== "media") return json(200, facts(name, found));
    const given = {
      "x-goog-generation": found.version,
      "x-goog-hash": `crc32c=AAAAAA==,md5=${createHash("md5").update(found.bytes).digest("base64")}`,
      "last-modified": found.at.toUTCString(),
    };
    if (headers.range === undefined) return [200, given, found.bytes];
    const cut = part(found.bytes, headers.range);
    return cut === undefined
      ? failure(416, "range")
      : [206, { ...given, "content-range": cut.header }, cut.piece];
  });
}

/** Azure Blob Storage with its account in the path, as its emulator has it. */
export async function startAzure(): Promise<TestBucket> {
  const blocks = new Map<string, Buffer>();
  const server = await start(({ method, url, headers, body }, objects) => {
    const failure = (status: number, code: string): Reply => [
      status,
      { "x-ms-error-code": code, "content-type": "application/xml" },
      `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
    ];
    const [, container, encoded] = /^\/account\/([^/]+)(?:\/(.*))?$/.exec(url.pathname) ?? [];
    if (container !== BUCKET) return failure(404, "ContainerNotFound");
    const comp = url.searchParams.get("comp");
    if (comp === "list") {
      const { keys, folders, next = "" } = list(objects, url, "marker");
      const escaped = (text: string): string =>
        text.replace(/[&<>]/g, (letter) => `&#${letter.charCodeAt(0)};`);
      const blobs = keys.map(
        (key) =>
          `<Blob><Name>${escaped(key)}</Name><Properties><Content-Length>${objects.get(key)?.bytes.length}</Content-Length></Properties></Blob>`,
      );
      const prefixes = folders.map((each) => `<BlobPrefix><Name>${escaped(each)}</Name></BlobPrefix>`);
      return [
        200,
        { "content-type": "application/xml" },
        `<?xml version="1.0"?><EnumerationResults ServiceEndpoint="x" ContainerName="${BUCKET}"><Blobs>${blobs.join("")}${prefixes.join("")}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`,
      ];
    }
    const key = decodeURIComponent(encoded ?? "");
    const found = objects.get(key);
    const etag = (stored: Stored): string => `"0x${stored.version}"`;
    if (method === "PUT") {
      if (comp === "block") {
        blocks.set(`${key} ${url.searchParams.get("blockid")}`, body);
        return [201, {}];
      }
      if (headers["if-none-match"] === "*" && found !== undefined) return failure(409, "BlobAlreadyExists");
      const match = headers["if-match"];
      if (match !== undefined && (found === undefined || etag(found) !== match))
        return failure(412, "ConditionNotMet");
      const ids = [...body.toString().matchAll(/<Latest>([^<]*)<\/Latest>/g)].map(([, id = ""]) => id);
      const bytes =
        comp === "blocklist"
          ? Buffer.concat(ids.map((id) => blocks.get(`${key} ${id}`) ?? Buffer.alloc(0)))
          : body;
      const mark = headers["x-ms-meta-superchunkput"];
      return [201, { etag: etag(store(objects, key, bytes, typeof mark === "string" ? mark : undefined)) }];
    }
    if (found === undefined) return failure(404, "BlobNotFound");
    if (method === "DELETE") {
      objects.delete(key);
      return [202, {}];
    }
    const given = {
      etag: etag(found),
      "last-modified": found.at.toUTCString(),
      ...(found.mark === undefined ? {} : { "x-ms-meta-superchunkput": found.mark }),
    };
    if (method === "HEAD") return [200, { ...given, "content-length": found.bytes.length }];
    const range = headers["x-ms-range"];
    if (typeof range !== "string") return [200, given, found.bytes];
    const cut = part(found.bytes, range);
    return cut === undefined
      ? failure(416, "InvalidRange")
      : [206, { ...given, "content-range": cut.header }, cut.piece];
  });
  return Object.assign(server, { endpoint: `${server.endpoint}/account` });
}
