/** The lock of a writer that cannot be proved dead. */
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";

/** Writes the lock of a writer on another host to `path`; returns the name of that host. */
export function lockFromAfar(path: string): string {
  const host = `not-${hostname()}`;
  const rest = { machine: "m", boot: "b", namespace: "", pid: 1, started: "", since: "", token: "t" };
  writeFileSync(path, JSON.stringify({ host, ...rest }));
  return host;
}
