/**
 * A store that reads ahead after consecutive small ranges, such as the headers of a file's chunks over HTTP, which would otherwise
 * take a request each. Knows ranges; must not know what the bytes are.
 */
import { SuperchunkError } from "../../errors.ts";
import type { ByteRange, ReadableStore, StoreOptions } from "../../store/types.ts";
import { type Interceptor, interceptStore, type Wrapped } from "../../store/wrappers/intercept.ts";

/** Ranges up to this length are small. */
const SMALL = 32 << 10;
/** Small ranges at most this far apart count as consecutive. */
const NEAR = 160 << 10;
/** Bytes that are read together, at first and at most. */
const FIRST = 128 << 10;
const MOST = 2 << 20;
/** Parts of objects to keep. */
const KEPT = 8;

/** A part of an object that was read, or is being read. */
interface Part {
  readonly key: string;
  readonly offset: number;
  readonly length: number;
  readonly bytes: Promise<Uint8Array | undefined>;
}

/** Reads ahead in objects that do not change meanwhile: the inner store refuses bytes of another version. */
export function withReadAhead<S extends ReadableStore>(store: S): Wrapped<S> {
  const parts: Part[] = [];
  const last = new Map<string, { readonly offset: number; readonly length: number }>();

  const read = async (
    key: string,
    offset: number,
    length: number,
    options: StoreOptions | undefined,
  ): Promise<Uint8Array | undefined> => {
    options?.signal?.throwIfAborted();
    const held = parts.find(
      (part) => part.key === key && offset >= part.offset && offset + length <= part.offset + part.length,
    );
    if (held !== undefined) {
      const bytes = await held.bytes;
      last.set(key, { offset, length: held.length });
      return bytes?.slice(offset - held.offset, offset - held.offset + length);
    }
    const before = last.get(key);
    const isNext = before !== undefined && offset >= before.offset && offset - before.offset < NEAR;
    if (!isNext) {
      last.set(key, { offset, length: 0 });
      return store.getRange(key, { offset, length }, options);
    }
    const window = Math.max(length, Math.min(MOST, Math.max(FIRST, 2 * before.length)));
    // Other callers may wait for the same bytes, so no caller's abort ends the read.
    const bytes = store.getRange(key, { offset, length: window });
    const part: Part = { key, offset, length: window, bytes };
    parts.push(part);
    if (parts.length > KEPT) parts.shift();
    last.set(key, { offset, length: window });
    bytes.catch(() => {
      const at = parts.indexOf(part);
      if (at >= 0) parts.splice(at, 1);
    });
    return (await bytes)?.slice(0, length);
  };

  const interceptor: Interceptor = {
    onCall(call, proceed) {
      const [key, range, options] = call.args as [string, ByteRange, StoreOptions | undefined];
      const isSmall =
        call.method === "getRange" && "offset" in range && range.length > 0 && range.length <= SMALL;
      if (!isSmall || range.offset < 0) return proceed();
      // Only getRange gets here, so the result types match.
      return read(key, range.offset, range.length, options) as ReturnType<typeof proceed>;
    },
    onSync: () => {
      throw new SuperchunkError("UNSUPPORTED", "a page cannot read synchronously");
    },
  };
  return interceptStore(store, interceptor);
}
