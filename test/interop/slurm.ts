/** Slurm on this machine: one controller and one node, without privileges, and without munge. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { hostname, userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { unpackDebian } from "./debian.ts";
import { cacheFolder } from "./environments.ts";
import { freePort, lastLines, type ProgramResult, runProgram } from "./program.ts";

const PACKAGES = [
  ...["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins"],
  ...["libhwloc15", "liblua5.1-0", "libyaml-0-2", "libjson-c5", "libmunge2"],
];
/** Concurrent jobs. */
const SLOTS = 2;
const START_SECONDS = 300;

/** The programs, unpacked from Debian's archive. */
export interface SlurmPrograms {
  /** `usr` of what was unpacked. */
  readonly usr: string;
  readonly libraries: string;
}

/** Slurm's programs, or why they are missing. */
export async function findSlurm(): Promise<SlurmPrograms | { readonly absent: string }> {
  if (process.platform !== "linux") return { absent: "Slurm runs on Linux" };
  const folder = join(cacheFolder, "slurm");
  const usr = join(folder, "debian", "usr");
  const libraries = join(usr, "lib", process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu");
  const found = { usr, libraries };
  if (existsSync(join(usr, "sbin", "slurmd-wlm"))) return found;
  await mkdir(folder, { recursive: true });
  const failure = await unpackDebian(PACKAGES, folder);
  return failure === undefined ? found : { absent: failure };
}

/** A cluster of this machine, until it is stopped. */
export class Slurm {
  /** What its commands need in the environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly #usr: string;
  readonly #services: readonly ChildProcess[];

  private constructor(usr: string, env: Readonly<Record<string, string>>, services: readonly ChildProcess[]) {
    this.#usr = usr;
    this.env = env;
    this.#services = services;
  }

  /** Starts the cluster. Throws if it does not come up. */
  static async start({ usr, libraries }: SlurmPrograms, folder: string): Promise<Slurm> {
    await mkdir(join(folder, "state"), { recursive: true });
    await mkdir(join(folder, "spool"), { recursive: true });
    const [node = "localhost"] = hostname().split(".");
    const { username } = userInfo();
    const plugins = join(libraries, "slurm-wlm");
    const settings = {
      ...{ ClusterName: "superchunk", SlurmctldHost: `${node}(127.0.0.1)` },
      ...{ SlurmUser: username, SlurmdUser: username, PluginDir: plugins },
      // Only this machine, and this user, can reach it.
      ...{ AuthType: "auth/none", CredType: "cred/none", MpiDefault: "none" },
      ...{
        ProctrackType: "proctrack/pgid",
        TaskPlugin: "task/none",
        JobAcctGatherType: "jobacct_gather/none",
      },
      ...{ SelectType: "select/cons_tres", SelectTypeParameters: "CR_CPU", SchedulerType: "sched/builtin" },
      ...{ SlurmctldPort: await freePort(), SlurmdPort: await freePort() },
      ...{ SlurmctldPidFile: join(folder, "controller.pid"), SlurmdPidFile: join(folder, "node.pid") },
      ...{ StateSaveLocation: join(folder, "state"), SlurmdSpoolDir: join(folder, "spool") },
      ...{ ReturnToService: 2, MailProg: "/bin/true", MinJobAge: 300 },
      ...{ AccountingStorageType: "accounting_storage/none", SlurmctldParameters: "idle_on_node_suspend" },
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
    const machine = `NodeName=${node} NodeAddr=127.0.0.1 CPUs=${SLOTS} RealMemory=1000 State=UNKNOWN`;
    const partition = `PartitionName=main Nodes=${node} Default=YES MaxTime=INFINITE State=UP`;
    const file = join(folder, "slurm.conf");
    // The node may have fewer processors than concurrent jobs.
    await writeFile(
      file,
      `${[...lines, "SlurmdParameters=config_overrides", machine, partition].join("\n")}\n`,
    );
    const env = {
      SLURM_CONF: file,
      LD_LIBRARY_PATH: [plugins, libraries, process.env["LD_LIBRARY_PATH"]].filter(Boolean).join(delimiter),
    };
    const start = (program: string, ...args: readonly string[]): ChildProcess =>
      spawn(join(usr, "sbin", program), args, { env: { ...process.env, ...env }, stdio: "ignore" });
    const stepd = join(usr, "sbin", "slurmstepd-wlm");
    const services = [start("slurmctld-wlm", "-D"), start("slurmd-wlm", "-D", "-N", node, "-d", stepd)];
    for (const service of services) service.once("error", () => undefined); // reported by what follows
    const slurm = new Slurm(usr, env, services);
    for (let tries = START_SECONDS; ; tries--) {
      const found = await slurm.run("sinfo", ["--noheader", "--format=%T"]);
      if (found.stdout.trim() === "idle") return slurm;
      if (tries === 0) {
        await slurm.stop();
        throw new Error(`Slurm does not start: ${lastLines(found)}`);
      }
      await wait(1000);
    }
  }

  /** Runs one of Slurm's commands. */
  run(
    command: string,
    args: readonly string[],
    more: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
  ): Promise<ProgramResult> {
    const { cwd, env } = more;
    return runProgram(join(this.#usr, "bin", command), args, {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...this.env, ...env },
    });
  }

  /** Submits a job, as typed after `sbatch`. Resolves with its number. */
  async submit(
    args: readonly string[],
    where: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
  ): Promise<string> {
    const done = await this.run("sbatch", ["--parsable", ...args], where);
    if (done.code !== 0) throw new Error(`sbatch ${args.join(" ")}: ${lastLines(done)}`);
    return done.stdout.trim();
  }

  /** True as long as a job waits or runs. */
  async hasJobs(): Promise<boolean> {
    const { code, stdout } = await this.run("squeue", ["--noheader"]);
    return code !== 0 || stdout.trim() !== "";
  }

  /** Resolves when no job is left. */
  async untilIdle(): Promise<void> {
    while (await this.hasJobs()) await wait(200);
  }

  async stop(): Promise<void> {
    await this.run("scancel", ["--user", userInfo().username]);
    for (const service of [...this.#services].reverse()) {
      if (service.exitCode !== null || service.pid === undefined) continue;
      const ended = new Promise((resolve) => service.once("close", resolve));
      service.kill("SIGTERM");
      await Promise.race([ended, wait(5000)]);
      service.kill("SIGKILL");
    }
  }
}
