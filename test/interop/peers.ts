/**
 * The programs that we are compared with, and how each is run.
 *
 * To add one: a recipe with its `requirements/NAME.txt`, a reader in `readers/`, and an entry here.
 */
import { join } from "node:path";
import { type ExactJson, parseExactJson, repositoryRoot } from "../fixtures/manifest.ts";
import type { Answer, Job } from "./answers.ts";
import { type Absent, type Environment, type EnvironmentRecipe, prepareEnvironment } from "./environments.ts";
import { lastLines, runProgram } from "./program.ts";
import { readWithZarrita } from "./zarrita.ts";

const ZARR: EnvironmentRecipe = { name: "zarr", pythons: ["3.12", "3.13"] };

/** Needs a compiler and Debian's libraries, which not every machine has; its fork reads almost the same. */
const BCOLZ: EnvironmentRecipe = {
  name: "bcolz",
  pythons: ["3.7"],
  build: "bcolz-build",
  debian: ["libblosc-dev", "libblosc1", "libsnappy1v5", "liblz4-1", "libzstd1"],
};

const BLOSCPACK: EnvironmentRecipe = { name: "bloscpack", pythons: ["3.9"], build: "bloscpack-build" };

const BCOLZ_ZIPLINE: EnvironmentRecipe = { name: "bcolz-zipline", pythons: ["3.11"] };

const PYTHON_BLOSC: EnvironmentRecipe = { name: "python-blosc", pythons: ["3.11"] };

const SERVED: EnvironmentRecipe = { name: "served", pythons: ["3.12", "3.13"] };

const PARQUET: EnvironmentRecipe = { name: "parquet", pythons: ["3.12", "3.13"] };

/** Brings Spark's jars, and needs a Java. */
const SPARK: EnvironmentRecipe = { name: "spark", pythons: ["3.12", "3.13"], program: "java" };

const HDF5: EnvironmentRecipe = { name: "hdf5", pythons: ["3.12", "3.13", "3.11"] };

interface Peer {
  /** Undefined if it runs in this process. */
  readonly recipe?: EnvironmentRecipe;
  readonly reader?: readonly string[];
  /** A run with CI=true passes without it. */
  readonly optional?: boolean;
}

const PEERS = {
  "zarr-python": { recipe: ZARR, reader: ["zarr_python.py"] },
  zarrs: { recipe: ZARR, reader: ["zarr_python.py", "--zarrs"] },
  tensorstore: { recipe: ZARR, reader: ["tensorstore_reader.py"] },
  "zarr-python, looping": { recipe: ZARR, reader: ["live_reader.py", "zarr-python"] },
  "zarrs, looping": { recipe: ZARR, reader: ["live_reader.py", "zarrs"] },
  "tensorstore, looping": { recipe: ZARR, reader: ["live_reader.py", "tensorstore"] },
  "zarr-python over HTTP": { recipe: SERVED, reader: ["served_reader.py", "zarr"] },
  "xarray over HTTP": { recipe: SERVED, reader: ["served_reader.py", "xarray"] },
  "tensorstore over HTTP": { recipe: SERVED, reader: ["served_reader.py", "tensorstore"] },
  zarrita: {},
  pyarrow: { recipe: PARQUET, reader: ["parquet_reader.py", "pyarrow"] },
  duckdb: { recipe: PARQUET, reader: ["parquet_reader.py", "duckdb"] },
  polars: { recipe: PARQUET, reader: ["parquet_reader.py", "polars"] },
  datafusion: { recipe: PARQUET, reader: ["parquet_reader.py", "datafusion"] },
  fastparquet: { recipe: PARQUET, reader: ["parquet_reader.py", "fastparquet"] },
  spark: { recipe: SPARK, reader: ["parquet_reader.py", "spark"], optional: true },
  recipes: { recipe: HDF5, reader: ["recipe.py"] },
  "python-blosc2 2": { recipe: { name: "blosc2-2", pythons: ["3.11", "3.10"] }, reader: ["recipe.py"] },
  "python-blosc2 3": { recipe: { name: "blosc2-3", pythons: ["3.12"] }, reader: ["recipe.py"] },
  "zarr 2.18": { recipe: { name: "zarr2", pythons: ["3.11"] }, reader: ["zarr2_transformer.py"] },
  bloscpack: {
    recipe: BLOSCPACK,
    reader: ["bloscpack_reader.py"],
  },
  "bloscpack, writing": {
    recipe: BLOSCPACK,
    reader: ["foreign_writer.py"],
  },
  "bcolz-zipline": { recipe: BCOLZ_ZIPLINE, reader: ["bcolz_reader.py"] },
  "bcolz-zipline, writing": { recipe: BCOLZ_ZIPLINE, reader: ["foreign_writer.py"] },
  "python-blosc": { recipe: PYTHON_BLOSC, reader: ["blosc_codec.py"] },
  // docs/reference-reader, with python-blosc as its decoder.
  "reference reader": { recipe: PYTHON_BLOSC, reader: ["reference_reader.py"] },
  "bcolz 1.2.1": { recipe: BCOLZ, reader: ["bcolz_reader.py"], optional: true },
  "bcolz 1.2.1, writing": { recipe: BCOLZ, reader: ["foreign_writer.py"], optional: true },
  // The library that bcolz was built with.
  "c-blosc": { recipe: BCOLZ, reader: ["blosc_codec.py", "--library"], optional: true },
} as const satisfies Record<string, Peer>;

export type PeerName = keyof typeof PEERS;

/** Names of all peers. */
export const peerNames: readonly PeerName[] = Object.keys(PEERS) as PeerName[];

/** An available peer. */
export interface ReadyPeer {
  readonly name: PeerName;
  /** Reads all jobs in one process; answers in the order of the jobs. */
  read(jobs: readonly Job[]): Promise<Answer[]>;
}

/** A missing peer, and why. */
export interface AbsentPeer extends Absent {
  readonly name: PeerName;
  readonly optional: boolean;
}

/** Makes the peers ready, those of different environments concurrently. */
export async function preparePeers(names: readonly PeerName[]): Promise<(ReadyPeer | AbsentPeer)[]> {
  const environments = new Map<EnvironmentRecipe, Promise<Environment | Absent>>();
  return Promise.all(
    names.map(async (name) => {
      const { recipe, reader, optional }: Peer = PEERS[name];
      if (recipe === undefined || reader === undefined) return { name, read: readWithZarrita };
      const preparing = environments.get(recipe) ?? prepareEnvironment(recipe);
      environments.set(recipe, preparing);
      const environment = await preparing;
      if ("absent" in environment) return { name, optional: optional ?? false, ...environment };
      return { name, read: (jobs) => askReader(environment, reader, jobs) };
    }),
  );
}

/** Ten times what the slowest takes for a small array. */
const SECONDS_PER_JOB = 0.25;

async function askReader(
  { executable, env }: Environment,
  [script = "", ...args]: readonly string[],
  jobs: readonly Job[],
): Promise<Answer[]> {
  const result = await runProgram(
    executable,
    [join(repositoryRoot, "test", "interop", "readers", script), ...args],
    {
      input: JSON.stringify(
        jobs.map((job, id) => ({ id, ...job })),
        (_, value) => (typeof value === "bigint" ? String(value) : value),
      ),
      env: { ...env, PYTHONDONTWRITEBYTECODE: "1", PYTHONIOENCODING: "utf-8" },
      timeoutSeconds: Math.max(300, jobs.length * SECONDS_PER_JOB),
    },
  );
  const answers = new Map<ExactJson, Answer>();
  for (const line of result.stdout.split("\n")) {
    if (line.trim() === "") continue;
    const said = parseExactJson(line) as unknown as RawAnswer;
    answers.set(said.id, toAnswer(said));
  }
  // A reader that crashed has not answered any of the jobs that followed.
  return jobs.map(
    (_, id) => answers.get(id) ?? { kind: "error", error: `no answer from ${script}, ${lastLines(result)}` },
  );
}

interface RawAnswer {
  readonly id: number;
  readonly error?: string;
  readonly done?: boolean;
  readonly members?: readonly string[];
  readonly shape?: readonly number[];
  readonly sha256?: string;
  readonly attrs?: ExactJson;
}

function toAnswer({ error, done, members, shape, sha256, attrs }: RawAnswer): Answer {
  if (error !== undefined) return { kind: "error", error };
  if (done === true) return { kind: "done" };
  if (members !== undefined) return { kind: "group", members, attrs: attrs ?? null };
  if (shape === undefined || sha256 === undefined)
    return { kind: "error", error: "the answer has no values" };
  return { kind: "values", shape, sha256, attrs: attrs ?? null };
}
