/** Whole archives with one thing changed: what opening, reading and verifying each of them reports. */
import { describe, expect, test } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { open, type Readable } from "../../src/open/open.ts";
import type { OpenAnyOptions } from "../../src/open/open-node.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { hex, utf8 } from "./hex.ts";

export type Objects = Readonly<Record<string, Uint8Array | string>>;
/** The rules that it breaks or proves, what is changed, the objects, and the codes that it may end in (`ok`: none). */
export type Case = readonly [
  rules: string,
  what: string,
  make: () => Objects | Promise<Objects>,
  codes: string,
];

/** The code that reading all of an archive ends in, or `ok`. */
async function codeOfReading(store: MemoryStore, path: string, options: OpenAnyOptions): Promise<string> {
  return codeOf(async () => {
    const opened = await open(store, path, options);
    for (const part of await partsOf(opened)) for await (const _ of part.streamBytes());
    return "ok";
  });
}

/** The code of the first error that `verify` finds, or that opening throws; `ok` if there is none. */
async function codeOfVerifying(store: MemoryStore, path: string, options: OpenAnyOptions): Promise<string> {
  return codeOf(async () => {
    const { findings } = await (await open(store, path, options)).verify();
    return findings.find(({ severity }) => severity === "error")?.code ?? "ok";
  });
}

async function codeOf(look: () => Promise<string>): Promise<string> {
  try {
    return await look();
  } catch (error) {
    if (isSuperchunkError(error)) return error.code;
    throw error;
  }
}

async function partsOf(opened: Readable) {
  const holder = opened.kind === "group" ? await opened.arrays() : opened;
  return "names" in holder ? holder.names.map((name) => holder.column(name)) : [holder];
}

export function storeOf(objects: Objects): MemoryStore {
  return new MemoryStore(
    Object.entries(objects).map(([key, value]) => [key, typeof value === "string" ? utf8(value) : value]),
  );
}

/** The bytes with others at an offset. */
export function patched(bytes: Uint8Array, at: number, change: string): Uint8Array {
  const copy = bytes.slice();
  copy.set(hex(change), at);
  return copy;
}

/** What to open: a file by its name, otherwise the root. */
function pathOf(objects: Objects): string {
  return ["a.blp", "refs.json"].find((name) => name in objects) ?? "";
}

/** Opens, reads and verifies each; both must end in the codes that the cases name. */
export function testCases(
  groups: readonly (readonly [name: string, cases: readonly Case[]])[],
  options: OpenAnyOptions = {},
): void {
  describe.each(groups)("%s", (_name, cases) => {
    test.each(cases)("%s %s", async (_rules, _what, make, codes) => {
      const objects = await make();
      const store = storeOf(objects);
      const path = pathOf(objects);
      expect(await codeOfReading(store, path, options)).toMatch(new RegExp(`^(?:${codes})$`));
      expect(await codeOfVerifying(store, path, options)).toMatch(new RegExp(`^(?:${codes})$`));
    });
  });
}

/** The same for archives in which nothing was changed. */
export function testWhole(
  whole: readonly (() => Objects | Promise<Objects>)[],
  options: OpenAnyOptions = {},
): void {
  test("the archives that the cases change are whole", async () => {
    for (const make of whole) {
      const objects = await make();
      expect(await codeOfReading(storeOf(objects), pathOf(objects), options)).toBe("ok");
      expect(await codeOfVerifying(storeOf(objects), pathOf(objects), options)).toBe("ok");
    }
  });
}
