/**
 * A linked file that bloscpack appends to: it overwrites the index without an error. Linking again gives the file an
 * index of its new contents, for every reader.
 */
import { createHash } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "./command.ts";
import { lastLines } from "./program.ts";
import type { SuiteContext } from "./suite.ts";
import { zarrReaders } from "./support.ts";

export async function appendToLinked({ checks, folder, peer }: SuiteContext): Promise<void> {
  const writer = peer("bloscpack, writing");
  if (writer === undefined) return;
  const [file, root] = [join(folder, "grows.blp"), join(folder, "grows.zarr")];
  const [first, more] = [ramp(0, 150_000), ramp(150_000, 70_000)];
  const paths = [join(folder, "first.bin"), join(folder, "more.bin")] as const;
  writeFileSync(paths[0], first);
  writeFileSync(paths[1], more);
  const steps = async (what: string, expected: number, ...args: string[]): Promise<void> => {
    const result = await runCommand(...args);
    checks.equal(`${what}: exit code (${lastLines(result)})`, result.code, expected);
  };
  await steps("compress", 0, "compress", paths[0], file, "--chunk-size", "100K", "--typesize", "4");
  await steps("link", 0, "link", file, root, "--dtype", "<i4");
  chmodSync(file, 0o644); // bloscpack would be refused, unless it runs as root
  const settings = { typesize: 4, clevel: 7, shuffle: true, cname: "blosclz" } as const;
  const [appended] = await writer.read([{ path: file, make: "append", from: paths[1], settings }]);
  checks.equal(`bloscpack appends to a linked file (${JSON.stringify(appended)})`, appended?.kind, "values");
  await steps("verify finds what the append did", 3, "verify", root);
  await steps("link again", 0, "link", file, root);
  await steps("verify", 0, "verify", root);
  const all = Buffer.concat([first, more]);
  const sha256 = createHash("sha256").update(all).digest("hex");
  for (const name of zarrReaders) {
    const [answer] = (await peer(name)?.read([{ path: root, dtype: "<i4" }])) ?? [];
    if (answer !== undefined)
      checks.values(`${name} reads what was appended`, answer, { shape: [220_000], sha256 });
  }
  await steps("unlink", 0, "unlink", root);
  const [bytes] = (await peer("bloscpack")?.read([{ path: file }])) ?? [];
  if (bytes !== undefined)
    checks.values("bloscpack reads all after unlink", bytes, { shape: [all.length], sha256 });
}

function ramp(start: number, count: number): Uint8Array {
  return new Uint8Array(Int32Array.from({ length: count }, (_, i) => (start + i) * 3).buffer);
}
