import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { decodeSync, encodeSync, registerDeflater } from "../../src/codec/index.ts";
import { DATA } from "./encode-data.ts";

test("a registered encoder is called for every stream, at Blosc's level; a result that does not fit is stored instead", () => {
  const asked: number[] = [];
  registerDeflater("zlib", {
    name: "node:zlib",
    deflate(src, dst, clevel) {
      asked.push(clevel);
      const stream = deflateSync(src, { level: clevel });
      if (stream.length > dst.length) return -1;
      dst.set(stream);
      return stream.length;
    },
  });
  for (const kind of ["prices", "noise"] as const) {
    const data = DATA[kind]?.(65_536) ?? new Uint8Array();
    asked.length = 0;
    const chunk = encodeSync(data, { cname: "zlib", clevel: 7, typesize: 8 });
    expect(asked.length).toBeGreaterThan(0);
    expect(new Set(asked)).toEqual(new Set([7]));
    expect(Buffer.compare(decodeSync(chunk), data)).toBe(0);
  }
});
