/** The command `serve`, and the page that explains how to use it. */
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { Interruption } from "../../../cli/failure.ts";
import type { TerminalStream } from "../../../cli/output/output.ts";
import { run } from "../../../cli/run.ts";
import { convert, open, serveView } from "../../../src/node/index.ts";
import { zarrView } from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { sha256 } from "../../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture, repositoryRoot } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { readThroughView } from "../../view/read-view.ts";
import { ask } from "./ask.ts";

const TABLE = "ctable/bcolz-daily-equities";

/** Runs the command until it prints an address, passes that to `work`, and presses Ctrl-C. */
async function whileServing(
  argv: readonly string[],
  work: (url: string, out: () => string) => Promise<void>,
): Promise<number> {
  const controller = new AbortController();
  let out = "";
  let found: (url: string) => void;
  const address = new Promise<string>((resolve) => {
    found = resolve;
  });
  const stdout: TerminalStream = new Writable({
    write(piece: Buffer, _, done): void {
      out += piece.toString();
      const url = /http:\/\/[^\s"]+\//.exec(out)?.[0];
      if (url !== undefined) found(url);
      done();
    },
  });
  const stderr = new PassThrough();
  stderr.resume();
  const ended = run(argv, { stdin: new PassThrough().end(), stdout, stderr, signal: controller.signal });
  const url = await Promise.race([
    address,
    ended.then((code) => Promise.reject(new Error(`ended with ${code}: ${out}`))),
  ]);
  try {
    await work(url, () => out);
  } finally {
    controller.abort(new Interruption("SIGINT"));
  }
  return ended;
}

describe("serve", () => {
  it("names the Zarr that it leaves out, and not Zarr folders with archives in them", async () => {
    const folder = temporaryFolder();
    await cp(join(corpusFolder, "bloscpack-3", "array-f8.blp"), join(folder, "prices.blp"));
    for (const name of ["a.zarr", "group/b"])
      await convert([join(folder, "prices.blp")], join(folder, name), { to: "zarr" });
    const group = JSON.stringify({ zarr_format: 3, node_type: "group", attributes: {} });
    await writeFile(join(folder, "group/zarr.json"), group);
    await mkdir(join(folder, "linked"));
    await writeFile(join(folder, "linked/zarr.json"), group);
    await cp(join(folder, "prices.blp"), join(folder, "linked/prices.blp"));
    const left = ["a.zarr", "group"].map((name) => join(folder, name));
    await whileServing(["serve", folder, "--port", "0"], async (_, out) => {
      while (!out().includes("Ctrl-C")) await new Promise((resolve) => setImmediate(resolve));
      expect(out()).toContain(`2 folders of Zarr left out (${left.join(", ")}): any file server`);
    });
    const served = await serveView([folder]);
    expect([served.archives, served.leftOut]).toEqual([2, left]);
    await served.close();
  });

  it("prints an address that opens here, and one for other machines, if it listens on all of its addresses", async () => {
    const table = `${corpusFolder}/${TABLE}`;
    for (const command of [["serve"], ["view", "--no-open"]])
      await whileServing([...command, table, "--port", "0", "--host", "0.0.0.0"], async (url, out) => {
        while (!out().includes("Ctrl-C")) await new Promise((resolve) => setImmediate(resolve));
        const { hostname: local, port } = new URL(url);
        expect(local).toBe("127.0.0.1");
        expect((await ask(url, "/zarr.json")).status).toBe(200);
        const there = `${hostname()}:${port}`;
        expect(out()).toContain(`other machines: http://${there}/`);
        expect((await ask(url, "/zarr.json", { host: there })).status).toBe(200);
      });
    await whileServing(["serve", table, "--port", "0"], async (_, out) => {
      while (!out().includes("Ctrl-C")) await new Promise((resolve) => setImmediate(resolve));
      expect(out()).not.toContain("other machines");
    });
  });

  it("prints lines that open a set of references, as a table and as a tree, and none for Parquet", async () => {
    const set = join(temporaryFolder(), "set.json");
    const source = `${corpusFolder}/${TABLE}`;
    expect((await runCli(["virtualize", source, set])).code).toBe(0);
    const args = ["serve", set, "--allow", source, "--port", "0"];
    const code = await whileServing(args, async (url, out) => {
      expect((await ask(url, "/set.json/close/c/0")).status).toBe(200);
      expect(out()).toContain(`xr.open_zarr("${url}set.json")`);
      expect(out()).not.toContain("parquet");
    });
    expect(code).toBe(0);
    const sources = [source, `${corpusFolder}/bloscpack-3/array-f8.blp`];
    expect((await runCli(["virtualize", ...sources, set, "--overwrite"])).code).toBe(0);
    await whileServing(args, async (url, out) => {
      await ask(url, "/");
      expect(out()).toContain(`xr.open_datatree("${url}set.json", engine="zarr")`);
    });
  });

  it("shows a table under its own name, prints lines that open it, and ends cleanly on Ctrl-C", async () => {
    const code = await whileServing(
      ["serve", `${corpusFolder}/${TABLE}`, "--port", "0"],
      async (url, out) => {
        const group = `${url}bcolz-daily-equities`;
        for (const line of [
          `zarr.open("${group}", mode="r")`,
          `xr.open_zarr("${group}")`,
          `new zarr.FetchStore("${group}")`,
        ])
          expect(out()).toContain(line);
        const fixture = findFixture(TABLE);
        if (fixture.kind !== "table") throw new Error("not a table");
        const store = new zarr.FetchStore(`${group}/close`);
        const { dtype = null, sha256: expected } = fixture.columns["close"] ?? {};
        const bytes = await readThroughView({ get: (key) => store.get(key as `/${string}`) }, "", dtype);
        expect(sha256(bytes)).toBe(expected);
      },
    );
    expect(code).toBe(0);
  });

  it("shows a folder at the root, and says which of its archives cannot be read", async () => {
    const code = await whileServing(
      ["serve", `${corpusFolder}/carray`, "--port", "0", "--json"],
      async (url, out) => {
        const told = JSON.parse(out()) as {
          url: string;
          archives: number;
          nodes: { path: string; error?: string }[];
        };
        expect([told.url, told.archives]).toEqual([url, told.nodes.length - 1]);
        expect(told.nodes.find(({ path }) => path === "bcolz-object")?.error).toContain("object");
        expect((await ask(url, "/bcolz-object/zarr.json")).status).toBe(422);
        expect((await ask(url, "/bcolz-f8-chunks/c/0")).status).toBe(200);
        expect((await ask(url, "/../ctable/bcolz-mixed/zarr.json")).status).toBe(404);
      },
    );
    expect(code).toBe(0);
  });

  it("admits pages of another origin only if told to", async () => {
    await whileServing(
      ["serve", `${corpusFolder}/${TABLE}`, "--port", "0", "--cors", "https://page.example"],
      async (url) => {
        const { headers } = await ask(url, "/zarr.json");
        expect(headers["access-control-allow-origin"]).toBe("https://page.example");
      },
    );
  });

  it("refuses missing paths, two paths with one name, and invalid ports", async () => {
    const missing = await runCli(["serve", "/no/such/path"]);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("/no/such/path")]);
    const twice = await runCli(["serve", `${corpusFolder}/carray`, `${corpusFolder}/carray`]);
    expect([twice.code, twice.err]).toEqual([2, expect.stringContaining('two paths have the name "carray"')]);
    expect((await runCli(["serve", `${corpusFolder}/carray`, "--port", "99999"])).code).toBe(2);
  });

  it("does not start if nothing that it should serve can be read, and says why", async () => {
    const failed = await runCli(["serve", `${corpusFolder}/manifest.json`, "--port", "0"]);
    expect([failed.code, failed.out]).toEqual([1, ""]);
    expect(failed.err).toMatch(/manifest\.json.*superchunk does not recognise it/);
  });
});

describe("docs/xarray-in-one-minute.md", () => {
  const page = readFile(`${repositoryRoot}/docs/xarray-in-one-minute.md`, "utf8");

  it("uses only commands and options that exist", async () => {
    const help = (await runCli(["serve", "--help"])).out;
    const text = await page;
    for (const option of new Set(text.match(/(?<=[`( ])--[a-z-]+/g)))
      expect([option, help.includes(option)]).toEqual([option, true]);
    for (const [, command = ""] of text.matchAll(/^superchunk ([a-z]+)/gm))
      expect((await runCli([command, "--help"])).code).toBe(0);
  });

  it("has JavaScript snippets that read the values", async () => {
    const [first = "", second = ""] = [...(await page).matchAll(/```js\n(.*?)```/gs)].map(([, code = ""]) =>
      code.replace(/^import .*$/gm, ""),
    );
    const run = (code: string, result: string): Promise<unknown> =>
      new Function("zarr", "open", "zarrView", `return (async () => { ${code}; return ${result}; })()`)(
        zarr,
        open,
        zarrView,
      ) as Promise<unknown>;
    let served: unknown;
    await whileServing(["serve", `${corpusFolder}/${TABLE}`, "--port", "0"], async (url) => {
      const code = first.replaceAll(
        "http://127.0.0.1:8765/daily_equities.bcolz",
        `${url}bcolz-daily-equities`,
      );
      served = await run(code, "await zarr.get(array, [zarr.slice(10)])");
    });
    const direct = await run(
      second.replace("daily_equities.bcolz", `${corpusFolder}/${TABLE}`),
      "await zarr.get(close, [zarr.slice(10)])",
    );
    expect(served).toEqual(direct);
    expect((served as { shape: number[] }).shape).toEqual([10]);
  });
});
