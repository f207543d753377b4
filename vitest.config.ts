import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import type { Reporter } from "vitest/node";

/** `npm run test:all` is `vitest run --mode all`. test/scope.ts reads the variable in the tests. */
const scopeOf = (mode: string): string =>
  mode === "all" || process.env["SUPERCHUNK_TESTS"] === "all" ? "all" : "quick";

const OTHER_SUITES = ["test/interop/**", "test/browser/**"];

const files = readdirSync("test", { recursive: true, encoding: "utf8" })
  .map((name) => `test/${name.replaceAll("\\", "/")}`)
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => ({ name, text: readFileSync(join(import.meta.dirname, name), "utf8") }));

/**
 * Test files that replace modules or what is global, or that count which files run, have a process of their own. All others
 * share one for each core: to load the library once for each of 200 files would take longer than to run the tests.
 */
const alone = files
  .filter(({ text }) =>
    /\bvi\.(?:mock|resetModules|stubGlobal)\(|^\s*globalThis\.\w+ = |\bregister[A-Z]\w+\(|startPreciseCoverage/m.test(
      text,
    ),
  )
  .map(({ name }) => name);

/** Says what ran, and what did not. */
const sayScope = (scope: string): Reporter => ({
  onTestRunEnd(modules) {
    const tests = modules.flatMap((each) => [...each.children.allTests()]).length;
    const names = new Set(modules.map(({ moduleId }) => moduleId.replaceAll("\\", "/")));
    const sweeps = files
      .filter(({ name }) => [...names].some((each) => each.endsWith(`/${name}`)))
      .reduce((sum, { text }) => sum + (text.match(/\b(?:sweep|sample)\(/g)?.length ?? 0), 0);
    console.log(
      scope === "all"
        ? `all: ${tests} tests, ${sweeps} sweeps over all of their cases\n`
        : `quick suite: ${tests} tests, every law at least once; ${sweeps} sweeps took a sample of their cases ` +
            "(npm run test:all runs the sweeps)\n",
    );
  },
});

/**
 * Flags of the processes that run tests. Most functions run a few times only: Node 20 optimizes them too early for that (later versions
 * wait longer by themselves, and do not have the flag), and threads that collect garbage only take time from the tests.
 */
const V8_FLAGS = process.version.startsWith("v20.")
  ? ["--interrupt-budget=400000", "--single-threaded-gc"]
  : [];

/** Linux's folder in memory. */
const MEMORY = "/dev/shm";
/** Bytes that must be free there: several times what the tests use at once. */
const ROOM = 2 ** 31;

/**
 * Where `npm test` makes temporary folders: in memory, where programs may be run from it and it is large enough, because a disk
 * costs a quarter of the processor time of tests that write files. All sweeps run on the disk. TMPDIR chooses another place.
 */
function temporaryPlace(scope: string): { readonly TMPDIR?: string } {
  if (scope === "all" || process.env["TMPDIR"] !== undefined || !existsSync(MEMORY)) return {};
  const [, options = "noexec"] =
    new RegExp(`^\\S+ ${MEMORY} tmpfs (\\S+)`, "m").exec(readFileSync("/proc/mounts", "utf8")) ?? [];
  const { bavail, bsize } = statfsSync(MEMORY);
  const isUsable = !/\b(?:noexec|ro)\b/.test(options) && bavail * bsize >= ROOM;
  if (!isUsable) return {};
  // A folder of this run, because processes that are ended leave theirs behind.
  const folder = mkdtempSync(join(MEMORY, "superchunk-"));
  // As /tmp: some tests give up the rights of root.
  chmodSync(folder, 0o1777);
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return { TMPDIR: folder };
}

export default defineConfig(({ mode }) => {
  const scope = scopeOf(mode);
  const common = {
    // As with the limits of tests below, what is polled for only ends what hangs.
    expect: { requireAssertions: true, poll: { timeout: 120_000 } },
    env: { SUPERCHUNK_TESTS: scope, ...temporaryPlace(scope) },
    setupFiles: ["test/equality.ts"],
    execArgv: V8_FLAGS,
    // No test is timed: these only end what hangs, also on busy processors and a disk that takes long to sync.
    testTimeout: scope === "all" ? 600_000 : 180_000,
    hookTimeout: 180_000,
  };
  return {
    test: {
      // One more than processors: a sixth of the time tests wait, for servers, retries and processes that they kill.
      maxWorkers: availableParallelism() + 1,
      reporters: ["default", sayScope(scope)],
      // Compiled files are kept in node_modules, for the next run and for both projects.
      experimental: { fsModuleCache: true },
      projects: [
        {
          test: {
            ...common,
            name: "shared",
            include: ["test/**/*.test.ts"],
            exclude: [...configDefaults.exclude, ...OTHER_SUITES, ...alone],
            isolate: false,
          },
        },
        { test: { ...common, name: "alone", include: alone, isolate: true } },
      ],
    },
  };
});
