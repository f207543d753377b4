/**
 * Every archive of the corpus, and some that this library made, are served by the command and read over HTTP by
 * every reader of Zarr v3, without a conversion.
 *
 * The values must be those of the manifest, in each reader that has the data type; the others must refuse.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { corpusFolder, loadArchives, repositoryRoot } from "../fixtures/manifest.ts";
import { expectValues } from "./expectations.ts";
import { type MadeArchive, makeArchives } from "./made-archives.ts";
import type { PeerName } from "./peers.ts";
import type { Suite, SuiteContext } from "./suite.ts";
import { findRefusal, kindOf, type ZarrReader } from "./support.ts";

/** Which readers read over HTTP, and whose table of data types applies. */
const READERS: readonly { readonly peer: PeerName; readonly like: ZarrReader }[] = [
  { peer: "zarr-python over HTTP", like: "zarr-python" },
  { peer: "xarray over HTTP", like: "zarr-python" },
  { peer: "tensorstore over HTTP", like: "tensorstore" },
  { peer: "zarrita", like: "zarrita" },
];

export const serve: Suite = {
  name: "serve",
  peers: READERS.map(({ peer }) => peer),
  async run(context) {
    const own = join(context.folder, "made");
    const made = await makeArchives(own);
    for (const portable of [false, true]) {
      const served = await startServer([own, ...(portable ? ["--portable"] : [])]);
      const corpus = loadArchives()
        .filter(({ refuse }) => !refuse)
        .flatMap((row) => expectValues(row, portable).map((values) => ({ path: row.path, values })));
      const asked = [...corpus, ...made.map(({ path, values }) => ({ path: `made/${path}`, values }))];
      try {
        for (const reader of READERS) await readAll(context, reader, served.url, asked, portable);
      } finally {
        context.checks.equal("the server ends cleanly", await served.stop(), 0);
      }
    }
  },
};

/** Serves the corpus, and what the arguments name, with the command. */
async function startServer(
  args: readonly string[],
): Promise<{ readonly url: string; stop(): Promise<number | null> }> {
  const command = join(repositoryRoot, "build", "cli", "main.js");
  const dialects = new Set(loadArchives().map(({ dialect }) => dialect));
  const folders = [...dialects].map((dialect) => join(corpusFolder, dialect));
  const server = spawn(process.execPath, [command, "serve", ...folders, "--port", "0", ...args], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(server, "exit") as Promise<[number | null]>;
  for await (const line of createInterface(server.stdout)) {
    const url = /http:\/\/\S+\//.exec(line)?.[0];
    if (url === undefined) continue;
    server.stdout.resume();
    return {
      url,
      stop: async () => {
        server.kill("SIGINT");
        return (await ended)[0];
      },
    };
  }
  throw new Error(`serve ended with ${(await ended)[0]}`);
}

async function readAll(
  { checks, peer }: SuiteContext,
  { peer: name, like }: (typeof READERS)[number],
  url: string,
  asked: readonly MadeArchive[],
  portable: boolean,
): Promise<void> {
  const reader = peer(name);
  if (reader === undefined) return;
  const path = (each: MadeArchive): string =>
    `${url}${each.path}${each.values.node === "" ? "" : `/${each.values.node}`}`;
  const answers = await reader.read(
    asked.map((each) => ({ path: path(each), dtype: each.values.dtype, fields: each.values.fields })),
  );
  for (const [index, each] of asked.entries()) {
    const answer = answers[index] ?? { kind: "error", error: "no answer" };
    const what = `${each.path} ${each.values.node}${portable ? " (portable)" : ""}`;
    const refusal = findRefusal(like, each.values);
    if (refusal !== undefined) checks.refused(`${name} refuses ${what} (${refusal})`, answer);
    else checks.values(`${name} reads ${what}, ${kindOf(each.values.dtype)}`, answer, each.values);
  }
}
