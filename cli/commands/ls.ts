/** `superchunk ls`: the archives under a folder, a line each. */
import type { Command } from "commander";
import type { Archive } from "../../src/array/types.ts";
import { SuperchunkError } from "../../src/errors.ts";
import type { Context } from "../context.ts";
import { EXIT, exitCodeOf, toJsonFailure } from "../failure.ts";
import { JsonArray } from "../json-array.ts";
import { jsonDType, shapeText, shortDType } from "../layout.ts";
import { archivesUnder, type NamedArchive } from "../tree.ts";
import { formatPlural, formatRatio, formatSize, ratioOf } from "../units.ts";
import { printable } from "../values/cell-text.ts";

interface LsOptions {
  readonly json?: boolean;
}

/** Adds `ls PATH`. */
export function addLs(program: Command, context: Context): void {
  program
    .command("ls")
    .description("list all archives under a folder, a line each; damaged ones too (exit code 3)")
    .argument("<path>", "folder, or file or URL of one archive")
    .option("--json", "print a JSON array, one archive to a line")
    .addHelpText(
      "after",
      `
Examples:
  superchunk ls /data/bundles
  superchunk ls /data/bundles --json`,
    )
    .action(async (path: string, options: LsOptions) => {
      const list = options.json === true ? new JsonArray(context.out) : undefined;
      if (list === undefined) await context.out.line(headerLine());
      for await (const each of archivesUnder(path, context.signal)) {
        const line = await describe(each, list === undefined, context);
        await (list === undefined ? context.out.line(String(line)) : list.add(line));
      }
      await list?.end();
    });
}

/** What is printed for one archive, or for the reason why it cannot be opened. */
async function describe(named: NamedArchive, forPeople: boolean, context: Context): Promise<unknown> {
  const { path } = named;
  try {
    const archive = await named.open({ signal: context.signal });
    try {
      const cbytes = await archive.storedBytes({ signal: context.signal });
      return forPeople ? archiveLine(path, archive, cbytes) : archiveJson(path, archive, cbytes);
    } finally {
      await archive.close();
    }
  } catch (error) {
    if (!(error instanceof SuperchunkError)) throw error;
    context.note(exitCodeOf(error) === EXIT.damaged ? EXIT.damaged : EXIT.failed);
    if (!forPeople) return { path, error: toJsonFailure(error) };
    const state = error.isDamage ? "DAMAGED" : "FAILED";
    return `${state.padEnd(14)}  ${printable(path)}  ${error.code}: ${printable(error.message)}`;
  }
}

function headerLine(): string {
  return columns("dialect", "dtype", "shape", "size", "ratio", "path");
}

function columns(
  dialect: string,
  dtype: string,
  shape: string,
  size: string,
  ratio: string,
  path: string,
): string {
  return [
    dialect.padEnd(14),
    dtype.padEnd(9),
    shape.padEnd(14),
    size.padStart(10),
    ratio.padStart(6),
    path,
  ].join("  ");
}

function archiveLine(path: string, archive: Archive, cbytes: number): string {
  const size = formatSize(archive.nbytes);
  const ratio = formatRatio(archive.nbytes, cbytes);
  return columns(archive.dialect, ...dtypeAndShape(archive), size, ratio, printable(path));
}

function dtypeAndShape(archive: Archive): [string, string] {
  if (archive.kind === "bytes") return ["bytes", String(archive.nbytes)];
  if (archive.kind === "table")
    return [formatPlural(archive.names.length, "col"), formatPlural(archive.length, "row")];
  return [shortDType(archive.dtype), shapeText(archive.shape)];
}

function archiveJson(path: string, archive: Archive, cbytes: number): unknown {
  const { dialect, kind, nbytes } = archive;
  return {
    path,
    dialect,
    kind,
    dtype: archive.kind === "array" ? jsonDType(archive.dtype) : null,
    shape: archive.kind === "array" ? archive.shape : [archive.kind === "table" ? archive.length : nbytes],
    nbytes,
    cbytes,
    ratio: ratioOf(nbytes, cbytes),
  };
}
