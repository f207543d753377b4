/** `npm publish` runs a script that refuses a package without addresses. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { sample } from "../scope.ts";

const root = join(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
};
const ADDRESSES = {
  repository: { type: "git", url: "git+https://example.org/owner/name.git" },
  homepage: "https://example.org/owner/name#readme",
  bugs: { url: "https://example.org/owner/name/issues" },
};

/** Publishes a package with these members to a registry that does not answer. */
function publish(members: object, ...flags: readonly string[]) {
  const folder = temporaryFolder();
  const prepublishOnly = scripts["prepublishOnly"]?.replace("scripts/", join(root, "scripts", "/"));
  const manifest = { name: "example", version: "1.0.0", ...members, scripts: { prepublishOnly } };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const args = ["publish", "--registry=http://127.0.0.1:9/", "--fetch-retries=0", ...flags];
  const { status, stderr } = spawnSync("npm", args, {
    cwd: folder,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  return { status, stderr };
}

const LACKING: readonly (readonly [members: object, missing: string])[] = [
  [{}, "repository, homepage, bugs"],
  [{ ...ADDRESSES, homepage: "" }, "homepage"],
  [{ ...ADDRESSES, bugs: { email: "name@example.org" } }, "bugs"],
];

test.each(sample(LACKING, 1))(
  "a package with %o is not published, and the message says what is missing",
  (members, missing) => {
    const { status, stderr } = publish(members);
    expect(status).not.toBe(0);
    expect(stderr).toContain(`not published: package.json has no https address as ${missing}.`);
    expect(stderr).not.toContain("127.0.0.1");
  },
);

test("a dry run warns, and goes on", () => {
  const { status, stderr } = publish({}, "--dry-run");
  expect([status, stderr]).toEqual([0, expect.stringContaining("npm publish will refuse this")]);
});

test("a package with addresses goes on to the registry", () => {
  expect(publish(ADDRESSES).stderr).toMatch(/127\.0\.0\.1|ENEEDAUTH/);
});
