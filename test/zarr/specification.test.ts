/** A specification that contradicts itself is refused in its own terms, and nothing is created. */
import { expect, test } from "vitest";
import type { JsonValue } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createZarr, type ZarrSpecification } from "../../src/zarr/write/create.ts";

const base: ZarrSpecification = { shape: [10, 4], dataType: "float64", chunkShape: [2, 2] };
const LITTLE = { name: "bytes", configuration: { endian: "little" } };

async function refusal(change: Record<string, unknown>): Promise<unknown> {
  const store = new MemoryStore();
  const error = await createZarr(store, "p", { ...base, ...change } as ZarrSpecification).catch(
    (e: unknown) => e,
  );
  for await (const entry of store.list("p")) throw new Error(`${entry.name} was made`);
  return error;
}

test.each([
  [{ shardShape: [5, 2] }, "chunkShape", "a divisor of the outer chunk's shape [5,2] in each dimension"],
  [{ chunkShape: [2] }, "chunkShape", "a list of 2, one for each dimension"],
  [{ shardShape: [4] }, "shardShape", "a list of 2, one for each dimension"],
  [{ chunkShape: [0, 2] }, "chunkShape", "an integer of at least 1"],
  [{ shape: [-1, 4] }, "shape", "an integer of at least 0"],
  [{ shape: undefined }, "shape", "a list"],
  [{ dataType: { name: "numpy.datetime64" } }, "dataType", "a string"],
  [{ dataType: "int8", fillValue: 300 }, "fillValue", expect.stringContaining("-128 to 127")],
  [{ order: [0, 0] }, "order", "each of 0 to 1 once"],
  [{ codecs: [] }, "codecs", 'a list with "bytes" or "sharding_indexed"'],
  [{ codecs: [{ name: "blosc" }] }, "codecs", 'a codec after "bytes" or "sharding_indexed"'],
  [{ dimensionNames: ["a"] }, "dimensionNames", "a list of 2, one for each dimension"],
  [{ separator: "-" }, "separator", '"/" or "."'],
  [{ attributes: { f: (): number => 1 } }, "attributes", expect.anything()],
  [{ shardShape: [4, 4], indexLocation: "middle" }, "indexLocation", '"start" or "end"'],
  [{ indexLocation: "start" }, "indexLocation", "shardShape"],
  [{ indexCodecs: [LITTLE] }, "indexCodecs", "shardShape"],
  [{ shards: [4, 4] }, "shards", expect.stringContaining("shardShape")],
  [
    { chunkGrid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [[3, 3], [4]] } } },
    "chunkGrid",
    "lengths of together at least 10",
  ],
])("%j is refused as a wrong argument", async (change, field, expected) => {
  expect(await refusal(change)).toMatchObject({ code: "BAD_ARGUMENT", details: { field, expected } });
});

test.each([
  [{ dataType: "float99" }, "dataType"],
  [{ codecs: [LITTLE, { name: "lz99" }] }, "codecs"],
  [{ shardShape: [4, 4], indexCodecs: [{ name: "gzip" }] }, "indexCodecs"],
] satisfies readonly (readonly [Record<string, JsonValue>, string])[])(
  "%j is reported as unsupported",
  async (change, field) => {
    expect(await refusal(change)).toMatchObject({ code: "UNSUPPORTED", details: { field } });
  },
);

test("messages give the member, the found and the expected value", async () => {
  expect(String(await refusal({ shardShape: [5, 2] }))).toMatchInlineSnapshot(
    `"SuperchunkError: the specification's chunkShape is wrong: as a document codecs.0.configuration.chunk_shape is [2,2]; expected a divisor of the outer chunk's shape [5,2] in each dimension. Nothing was made"`,
  );
  expect(String(await refusal({ dataType: "int8", fillValue: 300 }))).toMatchInlineSnapshot(
    `"SuperchunkError: the specification's fillValue is wrong: it is 300; expected a value of the data type int (the value 300 does not fit the dtype: expected an integer from -128 to 127). Nothing was made"`,
  );
  expect(String(await refusal({ indexLocation: "start" }))).toMatchInlineSnapshot(
    `"SuperchunkError: the specification's indexLocation says how shards are, but shardShape is missing; expected shardShape. Nothing was made"`,
  );
  expect(String(await refusal({ dataType: "float99" }))).toMatchInlineSnapshot(
    `"SuperchunkError: the specification's dataType: dataType is "float99", a data type that superchunk does not read; numbers, bool, text, bytes, dates and structs are; read it with zarr-python"`,
  );
});
