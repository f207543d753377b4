/** Files with the names that the examples of the help use, each as its example needs it. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { runCli } from "./harness.ts";

const ROWS = 3000;

/** Creates them in an empty folder; absolute paths of an example are moved below `data` and `archive`. */
export async function makeWorld(folder: string): Promise<void> {
  const at = (name: string): string => join(folder, name);
  const run = async (...argv: readonly string[]): Promise<void> => {
    const { code, err } = await runCli(argv);
    if (code !== 0) throw new Error(`${argv.join(" ")} ends with ${code}: ${err}`);
  };
  const npy = (name: string, dtype: string, values: Uint8Array, shape: readonly number[]): void =>
    writeFileSync(at(name), Buffer.concat([encodeNpyHeader(parseDType(dtype, name), shape), values]));
  const doubles = (count: number): Uint8Array =>
    new Uint8Array(Float64Array.from({ length: count }, (_, i) => i / 4).buffer);

  writeFileSync(at("notes.txt"), "a line of notes\n".repeat(100));
  writeFileSync(at("more.txt"), "more of it\n");
  writeFileSync(at("list.txt"), "prices\ndaily_equities.bcolz\n");
  npy("prices.npy", "<f8", doubles(ROWS), [ROWS]);
  npy("today.npy", "<f8", doubles(10), [10]);
  npy("corrected.npy", "<f8", doubles(100), [100]);
  npy("volume.npy", "<f8", doubles(ROWS), [ROWS]);
  npy("ids.npy", "<i8", new Uint8Array(8 * ROWS), [ROWS]);
  npy("table.npy", "<f8", doubles(80), [20, 4]);
  writeFileSync(at("signal.bin"), doubles(1000 * 256).subarray(0, 1000 * 256 * 4));

  await run("compress", at("notes.txt"), at("notes.txt.blp"));
  await run("compress", at("notes.txt"), at("log.blp"));
  await run("compress", at("signal.bin"), at("signal.blp"), "--chunk-size", "102400");
  await run("compress", at("table.npy"), at("prices.blp"));
  await run("create", at("prices"), "--from", at("prices.npy"), "--chunklen", "500");
  await run("create", at("prices.bcolz"), "--as", "carray", "--from", at("prices.npy"), "--attr", "draft=1");
  const columns = ["--column", `id=${at("ids.npy")}`, "--column", `price=${at("prices.npy")}`];
  await run("create", at("trades.bcolz"), "--as", "ctable", ...columns);
  writeFileSync(at("trades.csv"), "id,price\n7,0.25\n8,\n");
  await run("convert", at("trades.bcolz"), at("bars.parquet"));
  const noted = [...columns, "--column", `note=${at("ids.npy")}`];
  await run("create", at("noted.bcolz"), "--as", "ctable", ...noted);
  await run("create", at("trades"), "--dtype", '[["id","<i8"],["prize","<f8"]]', "--shape", "10");
  await run("create", at("points"), "--dtype", "<f4", "--shape", "20,3");
  await run("create", at("days"), "--dtype", "<M8[D]", "--shape", "20");
  await run("create", at("counters"), "--dtype", "<i8", "--shape", "20", "--reserve", "20%");
  await run("create", at("samples"), "--dtype", "<i2");
  await run("create", at("broken"), "--from", at("prices.npy"), "--chunklen", "500", "--superchunklen", "2");
  rmSync(join(at("broken"), "data", "__3__.bin"));
  const whole = readFileSync(at("signal.blp"));
  writeFileSync(at("download.blp"), whole.subarray(0, whole.length >> 1));
  cpSync(at("prices.bcolz"), at("old.bcolz"), { recursive: true });
  rmSync(join(at("old.bcolz"), "meta", "storage"));
  for (const year of ["2024", "2025"])
    await run("create", at(`${year}.bcolz`), "--as", "carray", "--from", at("today.npy"));

  const table = findFixture("ctable/bcolz-daily-equities").file;
  cpSync(table, at("daily_equities.bcolz"), { recursive: true });
  mkdirSync(at("data"));
  cpSync(table, join(at("data"), "bundles", "equities"), { recursive: true });
  cpSync(at("prices.blp"), join(at("data"), "bundles", "prices.blp"));
  cpSync(findFixture("zarr3-transformer/i4-1d").file, at("old.zarr"), { recursive: true });
  await run("convert", table, at("bundle.zarr"));
  await run("convert", join(at("data"), "bundles"), at("bundles.zarr"));
  await run("convert", at("prices"), at("prices.zarr"));
  await run("virtualize", join(at("data"), "bundles"), at("bundles.json"), "--to", "kerchunk");
  await run("plan", join(at("data"), "bundles"), at("planned.zarr"), "-o", at("plan.json"));
  await run("run", at("plan.json"));
  for (const name of ["disk", "mirror"])
    await run("containers", at("bundles.json"), "--set", name, "--prefix", `s3://${name}/`);
}

/** The outputs of an example must not exist: its last operand, or for `create` its first, or what `blpk` names itself. */
export function clearTargets(command: string, operands: readonly string[], folder: string): void {
  const [first = "", ...others] = operands;
  const last = others.at(-1);
  if (command === "plan") rmSync(join(folder, others[0] ?? ""), { recursive: true, force: true });
  const target =
    command === "create"
      ? first
      : command === "compress"
        ? (last ?? `${first}.blp`)
        : command === "decompress"
          ? (last ?? first.replace(/\.blp$/, ""))
          : ["convert", "virtualize", "repair", "plan"].includes(command)
            ? last
            : undefined;
  if (target === undefined || target === "-" || target.includes("://")) return;
  rmSync(join(folder, target), { recursive: true, force: true });
}
