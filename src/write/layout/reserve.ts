/** Room that is left behind a chunk, so that a larger one fits into its slot later. Pure. @see FORMAT.md [F1.4-03] */
import { HEADER_LENGTH } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";

/** Bytes behind each chunk and its digest, or a share of the two: `10%`. */
export type Reserve = number | `${number}%`;

/** Bytes to leave behind a chunk of `length` bytes, digest included; `most` is its decoded size with the digest. */
export function reserveOf(reserve: Reserve | undefined, length: number, most: number): number {
  if (reserve === undefined) return 0;
  const wished =
    typeof reserve === "number" ? reserve : Math.ceil((length * Number(reserve.slice(0, -1))) / 100);
  // Stored as it is, a chunk is its header longer than its data: more is never needed.
  return Math.max(0, Math.min(wished, most + HEADER_LENGTH - length));
}

/** A reserve that was given or stored, checked; undefined for none. Throws `BAD_ARGUMENT`. */
export function checkReserve(value: unknown): Reserve | undefined {
  if (value === undefined || value === 0) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  if (typeof value === "string" && /^\d+(\.\d+)?%$/.test(value))
    return Number(value.slice(0, -1)) > 0 ? (value as Reserve) : undefined;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `reserve is ${JSON.stringify(value)}; expected bytes, or a share of each chunk such as "10%"`,
    { field: "reserve", expected: 'bytes, or "10%"', found: value },
  );
}
