/** The checksums of a `blpk` file by number, and the lengths of their digests. @see FORMAT.md [FC] */
import { SuperchunkError } from "../errors.ts";
import type { ChecksumName } from "./types.ts";

/** Names by their number in a header. [FC-01] */
export const CHECKSUM_NAMES: readonly ChecksumName[] = [
  "None",
  "adler32",
  "crc32",
  "md5",
  "sha1",
  "sha224",
  "sha256",
  "sha384",
  "sha512",
];

/** Bytes of each digest. For adler32, the "32 bytes" of the BLZ document are bits. [FC-02] */
export const DIGEST_LENGTHS: Readonly<Record<ChecksumName, number>> = {
  None: 0,
  adler32: 4,
  crc32: 4,
  md5: 16,
  sha1: 20,
  sha224: 28,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};

export function digestLength(name: ChecksumName): number {
  return DIGEST_LENGTHS[name];
}

/** The checksum with a stored number. Throws `BAD_FIELD` for a number that no version defines. [FC-01] */
export function checksumByNumber(
  number: number,
  path: string,
  offset: number,
  field = "checksum",
): ChecksumName {
  const name = CHECKSUM_NAMES[number];
  if (name !== undefined) return name;
  throw new SuperchunkError(
    "BAD_FIELD",
    `${field} at byte ${offset} is ${number}, but there are only the checksums 0 to ${CHECKSUM_NAMES.length - 1}. The file is damaged; look for another copy`,
    { path, offset, field, expected: `0 to ${CHECKSUM_NAMES.length - 1}`, found: number },
  );
}

export function checksumNumber(name: ChecksumName): number {
  return CHECKSUM_NAMES.indexOf(name);
}
