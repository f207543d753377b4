/** Random archives to Zarr and back: after every step the values, types and attributes are the original ones. */

import { isDeepStrictEqual } from "node:util";
import { MemoryStore, open, parseDType } from "superchunk";
import { convert } from "superchunk/zarr";
import { openZarr } from "../../build/src/zarr/read/open.js";
import { makeArchive, makeTable } from "./archives.mjs";
import { makeZarr2, makeZarr3 } from "./zarr-arrays.mjs";
import { choicesFrom } from "./zarr-chains.mjs";

/** What a format, or Zarr v3, cannot hold: reported, never done halfway. */
const REFUSED = ["UNSUPPORTED", "LIMIT"];

/** One archive, or table, through several conversions. Throws if anything differs. */
export async function fuzzConversions(seed) {
  const choices = choicesFrom(seed);
  const store = new MemoryStore();
  let about;
  try {
    if (choices.below(4) === 0) {
      const columns = await makeTable(store, "a", choices);
      about = columns.map(describe);
      await roundTrip(store, columns, choices);
    } else {
      const values = await makeArchive(store, "a", choices);
      about = describe(values);
      await roundTrip(store, values, choices);
    }
  } catch (cause) {
    throw new Error(`seed ${seed}, ${JSON.stringify(about)}: ${cause.message}`, { cause });
  }
}

/** A random Zarr array of version 2 or 3, with chunks missing, to archives and to Zarr again. */
export async function fuzzWayBack(seed) {
  const choices = choicesFrom(seed);
  const store = new MemoryStore();
  let about;
  const step = async (name, work) => {
    try {
      return await work();
    } catch (error) {
      if (error.name === "SuperchunkError" && REFUSED.includes(error.code)) return undefined;
      throw new Error(`${name}: ${error.message}`, { cause: error });
    }
  };
  try {
    const { document, values } = await (choices.below(2) === 0
      ? makeZarr2(store, "a", choices)
      : makeZarr3(store, "a", choices));
    about = { document, ...describe(values) };
    const node = await openZarr(store, "a");
    await compare("the Zarr array", node, values);
    await wayBack(store, node, values, choices, "a", step);
    await step("to Zarr v3", async () => {
      await convert(node, { store, path: "c" }, { verify: choices.below(2) === 0 });
      const converted = await openZarr(store, "c");
      await compare("Zarr v3", converted, values);
      assertSame("its fill value", itemOf(converted), itemOf(node));
    });
  } catch (cause) {
    throw new Error(`seed ${seed}, ${JSON.stringify(about)}: ${cause.message}`, { cause });
  }
}

function itemOf(node) {
  return toLittle(node.model.fillItem, node.dtype);
}

function describe({ bytes, dtype, ...values }) {
  return { ...values, nbytes: bytes.length };
}

async function roundTrip(store, values, choices) {
  const { below, pick } = choices;
  const archive = await open(store, "a");
  await compare("the archive", archive, values);
  const layout = {
    grid: pick(["regular", "regular", "rectilinear"]),
    portable: below(4) === 0,
    chunksPerShard: pick([undefined, 1, 2, 5]),
    verify: below(2) === 0,
  };
  const step = async (name, work) => {
    try {
      return await work();
    } catch (error) {
      if (error.name === "SuperchunkError" && REFUSED.includes(error.code)) return undefined;
      throw new Error(`${name} ${JSON.stringify(layout)}: ${error.message}`, { cause: error });
    }
  };
  await step("to Zarr", async () => {
    await convert(archive, { store, path: "z" }, layout);
    const node = await openZarr(store, "z");
    await compare("Zarr", node, values, layout);
    if (layout.portable) return;
    await wayBack(store, node, values, choices, "z", step);
  });
  await step("to the transformer", async () => {
    await convert(
      archive,
      { store, path: "t", node: "a" },
      { to: "zarr3-transformer", chunksPerShard: pick([undefined, 1, 3]) },
    );
    const node = await openZarr(store, "t/a");
    await compare("the transformer", node, values);
    await wayBack(store, node, values, choices, "t", step);
    await step("from the transformer to Zarr", async () => {
      await convert(node, { store, path: "tz" }, { verify: below(2) === 0 });
      await compare("Zarr by the transformer", await openZarr(store, "tz"), values);
    });
  });
  await step("joined", async () => {
    if (Array.isArray(values) || values.shape.length === 0) return;
    const others = [archive, archive, archive].slice(0, 1 + below(3));
    await convert(others, { store, path: "j" }, layout);
    const whole = Uint8Array.from(others.flatMap(() => [...values.bytes]));
    const shape = [values.shape[0] * others.length, ...values.shape.slice(1)];
    await compare("joined", await openZarr(store, "j"), { ...values, bytes: whole, shape }, layout);
  });
}

async function wayBack(store, node, values, choices, from, step) {
  for (const format of ["blz", "bcolz", "bloscpack", "npy"]) {
    await step(`${from} back to ${format}`, async () => {
      const key = `${from}-${format}`;
      await convert(node, { store, path: key }, { to: format, verify: choices.below(2) === 0 });
      if (format === "npy") return compareNpy(store, key, values);
      if (format === "bloscpack" && (Array.isArray(values) || node.kind === "group")) return;
      const archive = await open(store, key);
      // An array of structs has no place for the attributes of its fields.
      if (format === "blz" && Array.isArray(values))
        values = values.map((column) => ({ ...column, attrs: {} }));
      await compare(format, archive, values);
      await convert(archive, { store, path: `${key}-z` });
      const again = await openZarr(store, `${key}-z`);
      await compare(`Zarr by ${format}`, again, values);
      if (
        format !== "bloscpack" &&
        node.kind === "array" &&
        again.kind === "array" &&
        node.fillValue !== null
      )
        assertSame(`the fill value by ${format}`, itemOf(again), itemOf(node));
    });
  }
}

async function compareNpy(store, key, values) {
  if (Array.isArray(values) || values.columns !== undefined) return;
  const bytes = await store.get(key);
  const header = Buffer.from(bytes).readUInt16LE(8);
  const text = Buffer.from(bytes.subarray(10, 10 + header)).toString("latin1");
  if (!text.includes(`'fortran_order': False`)) throw new Error(`the .npy says ${text}`);
  const shape = `(${values.shape.join(", ")}${values.shape.length === 1 ? "," : ""})`;
  if (!text.includes(shape)) throw new Error(`the .npy says ${text}, not ${shape}`);
  const descr = /'descr': (.*), 'fortran_order'/.exec(text)?.[1] ?? "";
  const dtype = parseDType(descr, key);
  assertSame("npy", toLittle(bytes.subarray(10 + header), dtype), toLittle(values.bytes, values.dtype));
}

/** A node, or an archive, must match what it was made from. */
export async function compare(what, node, values, layout = {}) {
  if (Array.isArray(values)) {
    for (const column of values) {
      const member =
        node.kind === "group"
          ? await node.open(column.name)
          : node.kind === "table"
            ? node.column(column.name)
            : undefined;
      if (member === undefined) {
        // A table that became an array of structs.
        return;
      }
      await compare(`${what}, column ${column.name}`, member, column, layout);
    }
    return;
  }
  if (node.kind !== "array") {
    const names = node.kind === "table" ? node.names : undefined;
    for (const field of values.dtype.fields) {
      const member = names === undefined ? await node.open(field.name) : node.column(field.name);
      await compare(`${what}, field ${field.name}`, member, fieldOf(values, field), layout);
    }
    return;
  }
  const { shape } = values;
  if (values.columns !== undefined && node.columnNames?.length > 0 && node.shape.length < shape.length) {
    // A group in between has rows of one dimension, and the others in its fields.
    for (const field of values.dtype.fields)
      await compare(`${what}, field ${field.name}`, node.column(field.name), fieldOf(values, field), layout);
    return;
  }
  const isSame = layout.portable === true || isDeepStrictEqual([...node.shape], shape);
  if (!isSame) throw new Error(`${what} has the shape ${node.shape}, not ${shape}`);
  const found = await node.getBytes();
  if (layout.portable === true && found.length !== values.bytes.length) {
    throw new Error(`${what} has ${found.length} bytes, not ${values.bytes.length}`);
  }
  if (layout.portable === true && (values.dtype.kind === "struct" || values.dtype.kind === "unicode")) return;
  assertSame(what, toLittle(found, node.dtype), toLittle(values.bytes, values.dtype));
  if (values.attrs !== undefined) {
    for (const [name, value] of Object.entries(values.attrs))
      if (
        !isDeepStrictEqual(node.attrs[name], value) &&
        JSON.stringify(node.attrs[name]) !== JSON.stringify(value)
      )
        throw new Error(
          `${what} has the attributes ${JSON.stringify(node.attrs)}, not ${JSON.stringify(values.attrs)}`,
        );
  }
  if (layout.portable !== true && JSON.stringify(plain(node.dtype)) !== JSON.stringify(plain(values.dtype)))
    throw new Error(
      `${what} is of ${JSON.stringify(plain(node.dtype))}, not ${JSON.stringify(plain(values.dtype))}`,
    );
}

/** A dtype without its byte order. */
function plain({ kind, itemSize, unit, fields, ...rest }) {
  return {
    ...{ kind, itemSize, unit, count: rest.count },
    fields: fields?.map(({ name, shape, dtype }) => ({ name, shape, dtype: plain(dtype) })),
  };
}

function fieldOf(values, field) {
  const size = field.dtype.itemSize * field.shape.reduce((product, n) => product * n, 1);
  const step = values.dtype.itemSize;
  const items = values.bytes.length / step;
  const bytes = new Uint8Array(items * size);
  for (let i = 0; i < items; i++)
    bytes.set(values.bytes.subarray(i * step + field.offset, i * step + field.offset + size), i * size);
  return { dtype: field.dtype, shape: [...values.shape, ...field.shape], bytes };
}

/** Items with every number in little-endian order. */
export function toLittle(bytes, dtype) {
  const out = bytes.slice();
  for (let at = 0; at < out.length; at += dtype.itemSize) turn(out.subarray(at, at + dtype.itemSize), dtype);
  return out;
}

function turn(item, dtype) {
  if (dtype.kind === "struct") {
    for (const { dtype: own, offset, shape } of dtype.fields) {
      const count = shape.reduce((product, n) => product * n, 1);
      for (let i = 0; i < count; i++)
        turn(item.subarray(offset + i * own.itemSize, offset + (i + 1) * own.itemSize), own);
    }
  } else if (dtype.byteOrder === "big") {
    const width =
      dtype.kind === "unicode" ? 4 : dtype.kind === "complex" ? dtype.itemSize / 2 : dtype.itemSize;
    for (let at = 0; at < item.length; at += width) item.subarray(at, at + width).reverse();
  }
}

export function assertSame(what, found, wanted) {
  if (found.length !== wanted.length)
    throw new Error(`${what} has ${found.length} bytes, not ${wanted.length}`);
  for (let i = 0; i < wanted.length; i++)
    if (found[i] !== wanted[i]) throw new Error(`${what}: byte ${i} is ${found[i]}, not ${wanted[i]}`);
}
