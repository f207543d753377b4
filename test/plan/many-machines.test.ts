/** docs/many-machines.md: its calculation is right, and the files to copy are valid for their schedulers. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { COMMAND_NAMES } from "../../cli/command-list.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

const docs = join(repositoryRoot, "docs");
const guide = readFileSync(join(docs, "many-machines.md"), "utf8");
const fileOf = (name: string): string => readFileSync(join(docs, "machines", name), "utf8");

it("the guide names every file to copy, and these start existing commands", () => {
  const names = readdirSync(join(docs, "machines"));
  expect(names.filter((name) => !guide.includes(`(machines/${name})`))).toEqual([]);
  const commands = names.flatMap((name) =>
    Array.from(
      fileOf(name).matchAll(
        /(?:superchunk |"?(?:args|command)"?: \["|command=)(plan|run|work|finish|status)\b/g,
      ),
      ([, command = ""]) => command,
    ),
  );
  expect(commands.length).toBeGreaterThan(6);
  expect(commands.filter((command) => !COMMAND_NAMES.includes(command))).toEqual([]);
});

it("the result for 1 PB follows from its formula", () => {
  const cellsOf = (name: string): string[] =>
    (new RegExp(`^\\| ${name} \\|(.*)\\|$`, "m").exec(guide)?.[1] ?? "")
      .split("|")
      .map((cell) => cell.trim());
  const columns = [256 << 10, 16 << 20].map((c) => {
    const [S, s, N, r, t, b] = [1e15, 128 << 20, 100, 12, 0.03, 300e6];
    const [gets, puts] = [S / c, S / s];
    const rate = Math.min(b, (r * c) / t);
    const hours = S / (N * rate) / 3600;
    return {
      gets,
      puts,
      rate,
      hours,
      money: [(gets * 0.0004) / 1000, (puts * 0.005) / 1000],
      machines: N * hours * 0.08,
    };
  });
  const whole = (value: number): string => Math.round(value).toLocaleString("en");
  const all = (cell: (column: (typeof columns)[number]) => string): string[] => columns.map(cell);
  expect(cellsOf("GET")).toEqual(all(({ gets }) => `${whole(gets / 1e6)} million`));
  expect(cellsOf("PUT")).toEqual(all(({ puts }) => `${(puts / 1e6).toFixed(1)} million`));
  expect(cellsOf("rate of a process")).toEqual(all(({ rate }) => `${whole(rate / 1e6)} MB/s`));
  expect(cellsOf("hours with 100 processes")).toEqual(all(({ hours }) => whole(hours)));
  expect(cellsOf("requests")).toEqual(all(({ money }) => money.map((sum) => `$${whole(sum)}`).join(" + ")));
  expect(cellsOf("machines at \\$0.08 an hour")).toEqual(all(({ machines }) => `$${whole(machines)}`));
  // 50 TB, 450 TB and the rest of the million GB, at the prices of their tiers.
  const month = 50e3 * 0.023 + 450e3 * 0.022 + 500e3 * 0.021;
  expect(cellsOf("the copy, each month")).toEqual(all(() => `$${whole(month)}`));
});

it("the overhead of a share, and the most shares, follow from the time that a process needs to start", () => {
  const [, start, ...overhead] =
    /= ([\d.]+) s \/ seconds of the share +10 s: (\d+) % +3 minutes: (\d+) %/.exec(guide) ?? [];
  const [, least, ...most] =
    /seconds of one convert \/ (\d+) +one hour: (\d+) +one day: (\d+)/.exec(guide) ?? [];
  expect(overhead.map(Number)).toEqual(
    [10, 180].map((seconds) => Math.round((100 * Number(start)) / seconds)),
  );
  expect(most.map(Number)).toEqual([3600, 86_400].map((seconds) => seconds / Number(least)));
  expect(guide).toContain(`for 1.4 to ${start} s`);
});

/** Fields that batch/v1 has where these files have any. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/ */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  "": ["apiVersion", "kind", "metadata", "spec"],
  metadata: ["name", "labels", "annotations", "namespace"],
  spec: [
    ...["activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions"],
    ...["maxFailedIndexes", "parallelism", "podFailurePolicy", "template", "ttlSecondsAfterFinished"],
  ],
  "spec.podFailurePolicy": ["rules"],
  "spec.podFailurePolicy.rules": ["action", "onExitCodes", "onPodConditions"],
  "spec.podFailurePolicy.rules.onPodConditions": ["type", "status"],
  "spec.template": ["metadata", "spec"],
  "spec.template.spec": ["containers", "restartPolicy", "terminationGracePeriodSeconds", "volumes"],
  "spec.template.spec.containers": [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "name",
    "resources",
    "volumeMounts",
  ],
  "spec.template.spec.containers.env": ["name", "value", "valueFrom"],
  "spec.template.spec.containers.envFrom": ["configMapRef", "secretRef", "prefix"],
  "spec.template.spec.containers.envFrom.secretRef": ["name", "optional"],
  "spec.template.spec.containers.resources": ["limits", "requests"],
  "spec.template.spec.containers.resources.limits": ["cpu", "memory"],
  "spec.template.spec.containers.resources.requests": ["cpu", "memory"],
};

/** Fields of a document that its kind does not have. */
function unknownFields(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => unknownFields(each, path));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    if (FIELDS[path]?.includes(name) !== true) return [`${path}.${name}`];
    return unknownFields(each, path === "" ? name : `${path}.${name}`);
  });
}

it("the Kubernetes Jobs have the fields that a Job has", () => {
  for (const name of ["kubernetes-run.yaml", "kubernetes-finish.yaml"]) {
    const job: unknown = parse(fileOf(name));
    expect(unknownFields(job), name).toEqual([]);
    expect(job, name).toMatchObject({
      apiVersion: "batch/v1",
      kind: "Job",
      spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "superchunk" }] } } },
    });
  }
  const { spec } = parse(fileOf("kubernetes-run.yaml")) as {
    spec: {
      completionMode: string;
      completions: number;
      maxFailedIndexes: number;
      podFailurePolicy: { rules: { onPodConditions?: object[] }[] };
      template: { spec: { containers: [{ args: string[] }] } };
    };
  };
  // The schema of Kubernetes requires both.
  for (const { onPodConditions = [] } of spec.podFailurePolicy.rules)
    for (const each of onPodConditions) expect(Object.keys(each).sort()).toEqual(["status", "type"]);
  const { args } = spec.template.spec.containers[0];
  expect(args[args.indexOf("--shares") + 1]).toBe(`${spec.completions}`);
  // Kubernetes accepts the limit per index only in indexed Jobs.
  expect(spec.completionMode).toBe("Indexed");
  expect(spec.maxFailedIndexes).toBeLessThanOrEqual(spec.completions);
});

it("the definition for AWS Batch is JSON with what a container needs", () => {
  expect(JSON.parse(fileOf("aws-batch.json"))).toMatchObject({
    jobDefinitionName: "superchunk",
    type: "container",
    containerProperties: {
      image: expect.stringContaining("/superchunk:") as string,
      jobRoleArn: expect.any(String) as string,
      networkConfiguration: { assignPublicIp: "ENABLED" },
      resourceRequirements: [
        { type: "VCPU", value: expect.stringMatching(/^\d+$/) as string },
        { type: "MEMORY", value: expect.stringMatching(/^\d+$/) as string },
      ],
    },
    retryStrategy: { attempts: expect.any(Number) as number },
  });
  // A job that waits for the array is given to Batch with the number of that array.
  expect(fileOf("aws-batch.sh")).toContain('--depends-on "jobId=$run"');
});
