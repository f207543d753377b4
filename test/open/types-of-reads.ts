/** What reads return, as types. Compiled, never run: `types.test.ts` compiles it with users' settings. */

import type { BoolArray, ComplexArray, TypedValues } from "superchunk";
import { type ArraySlice, type Readable, type Scalar, slice } from "superchunk";
import { open, openArray, openTable } from "superchunk/node";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(is: Same<A, B>): void;

export async function slicesAndScalars(index: number, maybe: number | null): Promise<void> {
  const array = await openArray("prices");
  const whole = await array.get();
  same<typeof whole, ArraySlice>(true);
  const all = await array.get(null);
  same<typeof all, ArraySlice>(true);
  const rows = await array.get([slice(0, 5)]);
  same<typeof rows, ArraySlice>(true);
  same<typeof rows.data, TypedValues>(true);
  const row = await array.get([index, null]);
  same<typeof row, ArraySlice>(true);
  const one = await array.get([index]);
  same<typeof one, Scalar>(true);
  const other = await array.get([3, index]);
  same<typeof other, Scalar>(true);
  const unsure = await array.get([maybe]);
  same<typeof unsure, ArraySlice | Scalar>(true);
  // @ts-expect-error a selection is a list
  await array.get(5);
  // @ts-expect-error text selects nothing
  await array.get(["0:5"]);
}

export async function dtypes(): Promise<void> {
  const close = await openArray("bars", { column: "close", dtype: "float64" });
  const { data } = await close.get([slice(0, 5)]);
  same<typeof data, Float64Array>(true);
  const price = await close.get([7]);
  same<typeof price, number>(true);
  for await (const chunk of close.chunks()) same<typeof chunk.data, Float64Array>(true);

  const big = await (await openArray("volumes", { dtype: "<u8" })).get([0]);
  same<typeof big, bigint>(true);
  const days = await (await openArray("days", { dtype: "datetime64[ns]" })).get();
  same<typeof days.data, BigInt64Array>(true);
  const flag = await (await openArray("flags", { dtype: "bool" })).get();
  same<typeof flag.data, BoolArray>(true);
  const roots = await (await openArray("roots", { dtype: "complex128" })).get([1]);
  same<typeof roots, readonly [number, number]>(true);
  const parts = await (await openArray("roots", { dtype: ">c16" })).get();
  same<typeof parts.data, ComplexArray>(true);
  const name = await (await openArray("names", { dtype: "S8" })).get([1]);
  same<typeof name, string>(true);
  const any: ArraySlice = await close.get(); // a narrower slice is a slice
  any.shape.join();
}

export async function kinds(): Promise<void> {
  const opened: Readable = await open("something");
  switch (opened.kind) {
    case "array": {
      const slices = await opened.get([slice(0, 5)]);
      same<typeof slices, ArraySlice>(true);
      if (opened.dialect === "carray") opened.encodedChunks();
      break;
    }
    case "table":
      opened.column("close").get();
      break;
    case "group":
      await opened.open("close");
      break;
    case "bytes":
      await opened.readBytes(0, 5);
      break;
  }
  const table = await openTable("bars");
  const rows: number = table.length;
  table.column(table.names[rows] ?? "");
}
