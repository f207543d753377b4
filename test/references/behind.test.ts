/** References that were written before their archive changed: which commands report it, and how they are updated. */
import { cp, utimes } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { create as createArray } from "../../src/node/edit.ts";
import { edit, listContainers, openArchive, setContainer } from "../../src/node/index.ts";
import { planReferences } from "../../src/references/plan/plan.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

/** Gives the last written file a time that no earlier guard takes for its own. */
async function age(root: string): Promise<void> {
  const later = new Date(Date.now() + 60_000);
  await utimes(join(root, "meta", "sizes"), later, later);
}

async function changeFirst(root: string, value: number): Promise<void> {
  const array = await edit(root);
  await array.set([0], value);
  await array.close();
  await age(root);
}

describe.each(["set.json", "set.parq"])("%s, after the archive changed", (name) => {
  it("is reported as out of date by verify and containers, and as up to date after --update", async () => {
    const folder = temporaryFolder();
    const [root, set] = [join(folder, "array"), join(folder, name)];
    const array = await createArray(root, { dtype: "<i4", chunkLength: 8, superchunkLength: 4 });
    await array.append(Int32Array.from({ length: 80 }, (_, i) => i));
    await array.close();
    const allow = ["--allow", folder];
    const behind = async (): Promise<string[]> => {
      const { code, out } = await runCli(["containers", set, "--json"]);
      expect(code).toBe(0);
      return (JSON.parse(out) as { behind: string[] }).behind;
    };
    expect((await runCli(["virtualize", root, set])).code).toBe(0);
    expect((await runCli(["verify", set, ...allow])).code).toBe(0);
    expect(await behind()).toEqual([]);

    await changeFirst(root, 7);
    const verified = await runCli(["verify", set, ...allow]);
    expect([verified.code, verified.out]).toEqual([1, expect.stringContaining("BEHIND")]);
    expect(await behind()).toEqual([`file://${root}/meta/sizes`]);
    expect((await runCli(["containers", set])).err).toContain("the references are out of date");
    // Editing a container does not make the set forget.
    await setContainer(set, "more", { prefix: "https://example.org/", anonymous: true });
    expect(await behind()).toHaveLength(1);

    expect((await runCli(["virtualize", root, set])).code).toBe(1);
    expect((await runCli(["virtualize", root, set, "--update"])).code).toBe(0);
    expect(await behind()).toEqual([]);
    expect((await runCli(["verify", set, ...allow])).code).toBe(0);
    expect((await runCli(["cat", join(set, "array"), "--head", "2", ...allow])).out).toBe("7\n1\n");
  });

  it("refers to chunks that set has replaced in the middle of a file, and to those around them", async () => {
    const folder = temporaryFolder();
    const [root, set] = [join(folder, "array"), join(folder, name)];
    const array = await createArray(root, { dtype: "<i4", chunkLength: 4, superchunkLength: 5 });
    await array.append(Int32Array.from({ length: 40 }, (_, i) => i));
    await array.flush();
    for (const row of [5, 13]) await array.set([row], -row);
    await array.close();
    expect((await runCli(["virtualize", root, set])).code).toBe(0);
    const { out } = await runCli(["cat", join(set, "array"), "--allow", folder]);
    const wanted = Array.from({ length: 40 }, (_, i) => ([5, 13].includes(i) ? -i : i));
    expect(out.trim().split("\n").map(Number)).toEqual(wanted);
    // An update of an Icechunk repository keeps the references before the first of them, and no others.
    const plan = await planReferences(await openArchive(root));
    expect(await plan.arrays[0]?.firstInObject(9)).toBe(1);
  });

  it("keeps containers that say how its objects are reached, and notices a missing table", async () => {
    const folder = temporaryFolder();
    const [root, set] = [join(folder, "table"), join(folder, name)];
    await cp(join(corpusFolder, "ctable", "bcolz-daily-equities"), root, { recursive: true });
    expect((await runCli(["virtualize", root, set])).code).toBe(0);
    const before = await listContainers(set);
    const [{ name: local = "" } = {}] = before;
    await setContainer(set, local, { location: `file://${root}/` });
    expect((await runCli(["virtualize", root, set, "--update"])).code).toBe(0);
    expect(await listContainers(set)).toMatchObject([{ name: local, location: `file://${root}/` }]);
    await age(join(root, "open"));
    const verified = await runCli(["verify", set, "--allow", root, "--json"]);
    expect([verified.code, verified.out]).toEqual([1, expect.stringContaining('"BEHIND"')]);
  });
});
