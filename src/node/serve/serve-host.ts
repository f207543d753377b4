/**
 * Which names a server answers to.
 *
 * A page on the web can make a browser send requests to this machine under a name of its own (DNS rebinding), and
 * read the answers; so a name that is not the server's own is refused. Addresses cannot be rebound.
 */
import { isIP } from "node:net";
import { hostname } from "node:os";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];
const WILDCARDS = new Set(["0.0.0.0", "::", "[::]"]);

/** Tells whether a `Host` header names this server. */
export type HostCheck = (header: string | undefined) => boolean;

/** The check for a server that listens on `host`; `allowed` are further names. */
export function makeHostCheck(host: string, allowed: readonly string[] = []): HostCheck {
  const own = new Set([...LOOPBACK, ...[host, ...allowed].map((name) => bracket(name.toLowerCase()))]);
  const isOpen = WILDCARDS.has(host);
  if (isOpen) own.add(hostname().toLowerCase());
  return (header) => {
    const match = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d+)?$/i.exec(header?.trim() ?? "");
    const name = match?.[1]?.toLowerCase();
    if (name === undefined) return false;
    return own.has(name) || (isOpen && isIP(name.replace(/^\[|\]$/g, "")) !== 0);
  };
}

/** An address as it stands in URLs: IPv6 in brackets. */
export function bracket(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
