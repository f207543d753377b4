/**
 * The `crc32c` codec: four bytes behind the data, always checked.
 *
 * Example: `{"name":"crc32c"}`. Compatible with zarr-python, tensorstore and zarrs.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html
 */
import { crc32c } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import type { Stage } from "./stage.ts";

const LENGTH = 4;

/** The configured codec. */
export function crc32cStage(): Stage {
  return {
    name: "crc32c",
    v3: { name: "crc32c" },
    fixedOverhead: LENGTH,
    decode: verifyCrc32c,
    encode: appendCrc32c,
  };
}

/** The bytes in front of the checksum, a view. Throws `TRUNCATED`, `CHECKSUM_MISMATCH`. */
async function verifyCrc32c(bytes: Uint8Array): Promise<Uint8Array> {
  if (bytes.length < LENGTH) {
    throw new SuperchunkError(
      "TRUNCATED",
      `a crc32c takes ${LENGTH} bytes, but only ${bytes.length} are there`,
      {
        field: "crc32c",
        expected: LENGTH,
        found: bytes.length,
      },
    );
  }
  const end = bytes.length - LENGTH;
  const data = bytes.subarray(0, end);
  const stored = new DataView(bytes.buffer, bytes.byteOffset + end, LENGTH).getUint32(0, true);
  const computed = await crc32c(data);
  if (stored === computed) return data;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the stored crc32c is ${hex(stored)}, but the ${end} bytes in front of it give ${hex(computed)}; the bytes are damaged`,
    { field: "crc32c", expected: hex(stored), found: hex(computed) },
  );
}

async function appendCrc32c(bytes: Uint8Array): Promise<Uint8Array> {
  const out = new Uint8Array(bytes.length + LENGTH);
  out.set(bytes);
  new DataView(out.buffer).setUint32(bytes.length, await crc32c(bytes), true);
  return out;
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(8, "0")}`;
}
