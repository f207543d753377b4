/** The gzip codec: what other programs write, several members too, and damaged streams. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { gzipStage } from "../../src/zarr/codecs/bytes-codecs.ts";
import fc from "../property.ts";

const stage = gzipStage({ level: 5 }, { path: "zarr.json", field: "codecs" });
const data = Uint8Array.from({ length: 5000 }, (_, i) => (i * i) >> 6);

/** A member with the optional parts of a header. */
function withHeaderParts(member: Uint8Array): Uint8Array {
  const head = member.slice(0, 10);
  head[3] = 4 | 8 | 16 | 2;
  const parts = [head, [3, 0, 1, 2, 3], [97, 0], [98, 99, 0], [0, 0], member.subarray(10)];
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

const join = (...parts: readonly Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts));

describe("[FH-10] gzip", () => {
  test("of any bytes in any members gives the original data, with and without a given size", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 0, max: 9 }), fc.boolean()), {
          minLength: 1,
          maxLength: 4,
        }),
        async (members) => {
          const whole = join(...members.map(([bytes]) => bytes));
          const packed = join(
            ...members.map(([bytes, level, extra]) => {
              const member = new Uint8Array(gzipSync(bytes, { level }));
              return extra ? withHeaderParts(member) : member;
            }),
          );
          for (const out of [undefined, new Uint8Array(whole.length)])
            expect(await stage.decode(packed, whole.length, true, out)).toEqual(whole);
        },
      ),
    );
  });

  test("of two equal members is twice the data, and more than allowed is refused", async () => {
    const packed = join(gzipSync(data), gzipSync(data));
    expect(await stage.decode(packed, 10_000, false)).toEqual(join(data, data));
    await expect(stage.decode(packed, 5000, true)).rejects.toMatchObject({ code: "BAD_CHUNK" });
    await expect(stage.decode(packed, 9999, true)).rejects.toMatchObject({ code: "BAD_CHUNK" });
  });

  test("with any byte of its streams, checksums or sizes changed, or cut anywhere, is refused", async () => {
    const member = new Uint8Array(gzipSync(data.subarray(0, 300)));
    const packed = join(member, member);
    for (let at = 0; at < packed.length; at++) {
      const cut = await stage.decode(packed.slice(0, at), 600, true).catch((error: unknown) => error);
      if (at === member.length) expect(cut).toHaveLength(300);
      else expect(isSuperchunkError(cut) && cut.isDamage, `cut at ${at}`).toBe(true);
      // Time, extra flags and system do not describe the data.
      if (at % member.length >= 4 && at % member.length < 10) continue;
      const changed = packed.slice();
      changed[at] = (changed[at] ?? 0) ^ 0x20;
      const result = await stage.decode(changed, 600, true).catch((error: unknown) => error);
      if (result instanceof Uint8Array)
        expect(result, `byte ${at}`).toEqual(join(data.subarray(0, 300), data.subarray(0, 300)));
      else expect(isSuperchunkError(result) && result.isDamage, `byte ${at}: ${String(result)}`).toBe(true);
    }
  });

  test("is written so that other programs can decompress it", async () => {
    const { gunzipSync } = await import("node:zlib");
    expect(new Uint8Array(gunzipSync(await stage.encode(data)))).toEqual(data);
  });
});
