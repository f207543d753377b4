// BloscLZ, a FastLZ descendant. One stream format since Blosc 1.0.
import { copyMatch } from "./matches";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

/** Longer distances have two more bytes. */
const FAR: usize = 8191;

/** Decodes one BloscLZ stream. Returns the bytes written, or an error listed in the README. Stops after `need` bytes. */
export function decodeBlosclz(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  if (srcLength == 0) return ENDS_EARLY;
  let ip = src;
  const ipEnd = src + srcLength;
  let op = dst;
  const opEnd = dst + dstLength;
  // The first byte starts a run of literals whatever its upper bits say, because there is nothing to match yet.
  let control = <usize>load<u8>(ip) & 31;
  ip += 1;
  while (true) {
    if (op - dst >= need) return <i32>(op - dst);
    if (control < 32) {
      const literals = control + 1;
      if (literals > ipEnd - ip) return ENDS_EARLY;
      if (literals > opEnd - op) return TOO_LONG;
      v128.store(op, v128.load(ip));
      v128.store(op + 16, v128.load(ip + 16));
      ip += literals;
      op += literals;
      if (ip == ipEnd) return <i32>(op - dst);
    } else {
      let length = (control >> 5) + 2;
      let distance = (control & 31) << 8;
      if (length == 9) {
        let more: usize;
        do {
          if (ip >= ipEnd) return ENDS_EARLY;
          more = <usize>load<u8>(ip);
          ip += 1;
          length += more;
          if (length > dstLength) return TOO_LONG;
        } while (more == 255);
      }
      if (ip >= ipEnd) return ENDS_EARLY;
      const low = <usize>load<u8>(ip);
      ip += 1;
      distance += low;
      if (distance == FAR) {
        if (ipEnd - ip < 2) return ENDS_EARLY;
        distance = ((<usize>load<u8>(ip) << 8) | <usize>load<u8>(ip + 1)) + FAR;
        ip += 2;
      }
      distance += 1;
      if (distance > op - dst) return BAD_REFERENCE;
      if (length > opEnd - op) return TOO_LONG;
      // A stream ends with literals, so a control byte follows every match.
      if (ip >= ipEnd) return ENDS_EARLY;
      copyMatch(op, distance, length);
      op += length;
    }
    control = <usize>load<u8>(ip);
    ip += 1;
  }
}
