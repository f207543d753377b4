/**
 * The objects of s3rver in memory. Its own store keeps three files for each object, shows them half-written, answers before they are
 * written, and takes a range that ends at byte 0 for one without an end.
 */
import { createHash } from "node:crypto";
import { buffer } from "node:stream/consumers";
import type { Content, NewObject, Store } from "s3rver";
import S3Object from "s3rver/lib/models/object.js";

interface Stored {
  readonly bytes: Buffer;
  readonly metadata: Readonly<Record<string, unknown>>;
}

interface Upload {
  readonly key: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly parts: Map<number, Buffer>;
}

export class Objects implements Store {
  readonly #bucket: string;
  readonly #stored = new Map<string, Stored>();
  readonly #uploads = new Map<string, Upload>();
  readonly #created = new Date();

  constructor(bucket: string) {
    this.#bucket = bucket;
  }

  /** What a request's path names, if it is there: `/bucket/key`, as in an address. */
  find(path: string): { readonly size: number; readonly etag: string } | undefined {
    const key = decodeURIComponent(path).slice(this.#bucket.length + 2);
    const stored = this.#stored.get(key);
    return stored === undefined
      ? undefined
      : { size: stored.bytes.length, etag: String(stored.metadata["etag"]) };
  }

  async getBucket(name: string): Promise<{ readonly name: string; readonly creationDate: Date } | null> {
    return name === this.#bucket ? { name, creationDate: this.#created } : null;
  }

  async getSubresource(): Promise<null> {
    return null;
  }

  async existsObject(_: string, key: string): Promise<boolean> {
    return this.#stored.has(key);
  }

  async getObject(
    bucket: string,
    key: string,
    range: { readonly start?: number; readonly end?: number } = {},
  ): Promise<S3Object | null> {
    const stored = this.#stored.get(key);
    if (stored === undefined) return null;
    const object = new S3Object(bucket, key, null, stored.metadata);
    const { start = 0, end: last = Number.POSITIVE_INFINITY } = range;
    const end = Math.min(last, stored.bytes.length - 1);
    if (range.start !== undefined) object.range = { start, end };
    if (range.start === undefined || start <= end)
      // A stream, as far as answers to HEAD know.
      object.content = Object.assign(stored.bytes.subarray(start, end + 1), { destroy: () => undefined });
    return object;
  }

  async putObject({ key, content, metadata }: NewObject): Promise<{ size: number; md5: string }> {
    const bytes = await bytesOf(content);
    return this.#put(key, bytes, metadata);
  }

  /** Puts an object without a request. */
  fill(key: string, bytes: Uint8Array): void {
    this.#put(key, Buffer.from(bytes), { "content-type": "application/octet-stream" });
  }

  async copyObject(
    _: string,
    from: string,
    __: string,
    to: string,
    metadata: Readonly<Record<string, unknown>> | null,
  ): Promise<Readonly<Record<string, unknown>>> {
    const source = this.#stored.get(from);
    if (source === undefined) throw new Error(`no object ${from}`);
    this.#put(to, source.bytes, metadata ?? source.metadata);
    return this.#stored.get(to)?.metadata ?? {};
  }

  async deleteObject(_: string, key: string): Promise<void> {
    this.#stored.delete(key);
  }

  async listObjects(
    bucket: string,
    options: {
      readonly delimiter?: string;
      readonly startAfter?: string;
      readonly prefix?: string;
      readonly maxKeys?: number;
    },
  ): Promise<{ objects: S3Object[]; commonPrefixes: string[]; isTruncated: boolean }> {
    const { delimiter = "", startAfter = "", prefix = "", maxKeys = Number.POSITIVE_INFINITY } = options;
    const objects: S3Object[] = [];
    const folders = new Set<string>();
    const keys = [...this.#stored.keys()].filter((key) => key > startAfter && key.startsWith(prefix)).sort();
    for (const key of keys) {
      const end = delimiter === "" ? -1 : key.indexOf(delimiter, prefix.length);
      if (end !== -1) folders.add(key.slice(0, end + delimiter.length));
      else if (objects.length === maxKeys)
        return { objects, commonPrefixes: [...folders], isTruncated: true };
      else objects.push(new S3Object(bucket, key, null, this.#stored.get(key)?.metadata ?? {}));
    }
    return { objects, commonPrefixes: [...folders], isTruncated: false };
  }

  async initiateUpload(_: string, key: string, id: string, metadata: NewObject["metadata"]): Promise<void> {
    this.#uploads.set(id, { key, metadata, parts: new Map() });
  }

  async putPart(_: string, id: string, part: string, content: Content): Promise<{ md5: string }> {
    const bytes = await bytesOf(content);
    this.#uploads.get(id)?.parts.set(Number(part), bytes);
    return { md5: md5Of(bytes) };
  }

  async putObjectMultipart(
    _: string,
    id: string,
    named: readonly { readonly number: number }[],
  ): Promise<{ size: number; md5: string }> {
    const upload = this.#uploads.get(id);
    if (upload === undefined) throw new Error(`no upload ${id}`);
    this.#uploads.delete(id);
    const numbers = named.map(({ number }) => number).sort((a, b) => a - b);
    const bytes = Buffer.concat(numbers.map((number) => upload.parts.get(number) ?? Buffer.alloc(0)));
    return this.#put(upload.key, bytes, upload.metadata);
  }

  #put(key: string, bytes: Buffer, metadata: NewObject["metadata"]): { size: number; md5: string } {
    const md5 = md5Of(bytes);
    const facts = {
      etag: `"${md5}"`,
      "last-modified": new Date().toUTCString(),
      "content-length": bytes.length,
    };
    this.#stored.set(key, { bytes, metadata: { ...metadata, ...facts } });
    return { size: bytes.length, md5 };
  }
}

function bytesOf(content: Content): Promise<Buffer> | Buffer {
  return Buffer.isBuffer(content) ? content : buffer(content);
}

function md5Of(bytes: Buffer): string {
  return createHash("md5").update(bytes).digest("hex");
}
