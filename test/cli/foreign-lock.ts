/** The lock of a writer that nobody can prove dead. */
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";

/** Writes the lock of a writer on another host to `path`; the name of that host. */
export function lockFromAfar(path: string): string {
  const host = `not-${hostname()}`;
  const rest = { machine: "m", boot: "b", namespace: "", pid: 1, started: "", since: "", token: "t" };
  writeFileSync(path, JSON.stringify({ host, ...rest }));
  return host;
}
