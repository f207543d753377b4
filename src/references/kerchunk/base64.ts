/** Bytes as base64 and back, in pieces that fit on the stack. */
import { SuperchunkError } from "../../errors.ts";

/** A multiple of three, so that pieces need no padding between them. */
const PIECE = 3 * 8192;

/** The text of bytes. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE)
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + PIECE)));
  return text;
}

/** The bytes of a text. Throws `BAD_FIELD` where it is not base64. */
export function fromBase64(text: string, path: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text);
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", "an inlined chunk is not base64", { path, cause });
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
