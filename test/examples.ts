/** The examples of a document, as typed: blocks of JavaScript as modules, lines of shell as commands. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { type RunResult, runCli } from "./cli/harness.ts";
import { repositoryRoot } from "./fixtures/manifest.ts";
import { folderOfProcess } from "./folder.ts";

const source = (path: string): string => join(repositoryRoot, "src", path);

/** The blocks of a language in a document of the repository. */
export function readExamples(document: string, language: "js" | "ts" | "sh"): readonly string[] {
  const text = readFileSync(join(repositoryRoot, document), "utf8");
  return [...text.matchAll(/```(\w+)\n(.*?)```/gs)].flatMap(([, of, code = ""]) =>
    of === language ? [code] : [],
  );
}

/** A folder for one test. */
export function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), "examples-"));
}

const EXTERNAL = ["koffi", "@aws-sdk/client-s3", "@earthmover/icechunk", "bullmq", "@uwdata/flechette"];
const ENTRIES = new Map([
  ["superchunk", "index"],
  ["superchunk/node", "node/index"],
  ["superchunk/zarr", "zarr"],
  ["superchunk/blosc", "blosc"],
  ["superchunk/blosc/wasm", "pool/use-modules"],
  ["superchunk/queue", "queue/index"],
]);

/** The package's entries, built once for all examples of a process. */
let built: Promise<string> | undefined;
async function buildEntries(): Promise<string> {
  const folder = folderOfProcess();
  await build({
    entryPoints: [...ENTRIES.values()].map((name) => ({ in: source(`${name}.ts`), out: name })),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    packages: "external",
  });
  const { buildPoolWorker } = await import(
    pathToFileURL(join(repositoryRoot, "scripts", "build-pool-worker.mjs")).href
  );
  await buildPoolWorker(join(folder, "blosc-worker.js"));
  symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"), "junction");
  return folder;
}

/** Runs JavaScript as a module of a user of the package; resolves with what it exports. */
export async function runModule(code: string): Promise<Record<string, unknown>> {
  built ??= buildEntries();
  const entries = await built;
  const folder = makeFolder();
  try {
    const { outputFiles } = await build({
      stdin: { contents: code, resolveDir: repositoryRoot, loader: "ts" },
      bundle: true,
      write: false,
      platform: "node",
      format: "esm",
      external: EXTERNAL,
      plugins: [
        {
          name: "the package",
          setup: ({ onResolve }) =>
            onResolve({ filter: /^superchunk(?:\/|$)/ }, ({ path }) => {
              const url = pathToFileURL(join(entries, `${ENTRIES.get(path) ?? path}.mjs`));
              return { path: url.href, external: true };
            }),
        },
      ],
    });
    const file = join(folder, "example.mjs");
    writeFileSync(file, outputFiles[0]?.contents ?? "");
    return await import(pathToFileURL(file).href);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The lines of a block that call the command: the part after its name, without the comment. */
export function commandsIn(block: string): readonly string[] {
  return [...block.matchAll(/^(?:npx )?superchunk (.*?)(?: +#.*)?$/gm)].map(([, words = ""]) => words);
}

/** Runs one of {@link commandsIn} in a folder. Single and double quotes join words, as in a shell. */
export async function runCommand(words: string, folder: string): Promise<RunResult> {
  const before = process.cwd();
  process.chdir(folder);
  try {
    const args = Array.from(words.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g));
    return await runCli(args.map(([, double, single, plain = ""]) => double ?? single ?? plain));
  } finally {
    process.chdir(before);
  }
}

/**
 * The compiler's messages for modules, by their names, with the strictest settings a user may have; nothing if there
 * are none.
 */
export function compileModules(files: Readonly<Record<string, string>>, more: object = {}): string {
  // Inside the repository, so that packages are found.
  const folder = mkdtempSync(join(repositoryRoot, "node_modules", ".types-"));
  const compilerOptions = {
    target: "es2022",
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
    module: "nodenext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    paths: Object.fromEntries([...ENTRIES].map(([name, entry]) => [name, [source(`${entry}.ts`)]])),
    ...more,
  };
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    const project = { compilerOptions, files: [source("bytes/hash-wasm.d.ts")], include: ["*.ts"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(project));
    const compiler = join(repositoryRoot, "node_modules/typescript/bin/tsc");
    // Several threads would each check the library's types again.
    execFileSync(process.execPath, [compiler, "-p", folder, "--singleThreaded"], {
      encoding: "utf8",
      stdio: "pipe",
    });
    return "";
  } catch (error) {
    return (error as { readonly stdout: string }).stdout;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
