/** Requests as they go over the wire: fetch would clean paths, refuse a Host header, and undo gzip. */
import { type IncomingHttpHeaders, request } from "node:http";

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

export function ask(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = "GET",
): Promise<Reply> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      response.on("data", (piece: Buffer) => pieces.push(piece));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          bytes: Buffer.concat(pieces),
        }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}
