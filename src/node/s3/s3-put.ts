/**
 * Puts one object: small ones in one request, large ones in parts, with the caller's condition.
 *
 * Knows how to distinguish a repeated put from another writer's put; must not know archives.
 */
import type { S3Client } from "@aws-sdk/client-s3";
import { SuperchunkError } from "../../errors.ts";
import { readPieces } from "../../store/source.ts";
import type { ObjectInfo, PutOptions, PutSource } from "../../store/types.ts";
import { describeS3Failure, type S3Module, type Turns } from "./s3-client.ts";

/** Bytes of a part, and most bytes of an object that is uploaded at once. S3 requires parts of at least 5 MiB. */
const PART_SIZE = 8 * 1024 * 1024;
/** S3 allows 10,000 parts. Their size doubles after this many parts, which makes room for 5 TiB. */
const PARTS_OF_A_SIZE = 1200;
/** Parts under way at a time. */
const PARTS_AT_ONCE = 4;
/** The metadata key by which a writer recognizes its own put. */
const MARK = "superchunk-put";

/** The target of a put. */
export interface PutPlace {
  readonly sdk: S3Module;
  readonly client: S3Client;
  readonly where: { readonly Bucket: string; readonly Key: string };
  readonly path: string;
  readonly turns: Turns;
}

/** Puts an object. Throws `CONFLICT` if its condition does not hold, else the errors of the SDK. */
export async function putObject(
  place: PutPlace,
  source: PutSource,
  options: PutOptions,
): Promise<ObjectInfo> {
  const mark = crypto.randomUUID();
  const parts = cutParts(source, options.signal);
  const first = await parts.next();
  const second = first.done === true ? first : await parts.next();
  if (second.done === true)
    return putWhole(place, first.done === true ? new Uint8Array(0) : first.value, mark, options);
  async function* all(): AsyncGenerator<Uint8Array> {
    if (first.done !== true) yield first.value;
    if (second.done !== true) yield second.value;
    yield* parts;
  }
  return putParts(place, all(), mark, options);
}

async function putWhole(
  place: PutPlace,
  body: Uint8Array,
  mark: string,
  options: PutOptions,
): Promise<ObjectInfo> {
  const { sdk, client, where, turns } = place;
  const command = new sdk.PutObjectCommand({
    ...where,
    ...conditions(options),
    Body: body,
    ContentLength: body.length,
    Metadata: { [MARK]: mark },
  });
  const info = (etag: string | undefined): ObjectInfo => ({
    size: body.length,
    version: etag ?? String(body.length),
  });
  try {
    const { ETag } = await turns.run(() => client.send(command, call(options)));
    return info(ETag);
  } catch (error) {
    return info(await resolveConflict(place, error, mark, options));
  }
}

async function putParts(
  place: PutPlace,
  parts: AsyncIterable<Uint8Array>,
  mark: string,
  options: PutOptions,
): Promise<ObjectInfo> {
  const { sdk, client, where, turns } = place;
  const { UploadId } = await turns.run(() =>
    client.send(
      new sdk.CreateMultipartUploadCommand({ ...where, Metadata: { [MARK]: mark } }),
      call(options),
    ),
  );
  const upload = { ...where, UploadId };
  let size = 0;
  try {
    const done: { PartNumber: number; ETag: string | undefined }[] = [];
    const running = new Set<Promise<void>>();
    let failure: { error: unknown } | undefined;
    let PartNumber = 0;
    for await (const Body of parts) {
      PartNumber++;
      size += Body.length;
      const part = { ...upload, PartNumber, Body, ContentLength: Body.length };
      const number = PartNumber;
      const sending: Promise<void> = turns
        .run(() => client.send(new sdk.UploadPartCommand(part), call(options)))
        .then(({ ETag }) => void done.push({ PartNumber: number, ETag }))
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => running.delete(sending));
      running.add(sending);
      if (running.size >= PARTS_AT_ONCE) await Promise.race(running);
      if (failure !== undefined) break;
    }
    await Promise.all(running);
    if (failure !== undefined) throw failure.error;
    const Parts = done.sort((a, b) => a.PartNumber - b.PartNumber);
    const command = new sdk.CompleteMultipartUploadCommand({
      ...upload,
      ...conditions(options),
      MultipartUpload: { Parts },
    });
    const { ETag } = await turns.run(() => client.send(command, call(options)));
    return { size, version: ETag ?? String(size) };
  } catch (error) {
    const etag = await resolveConflict(place, error, mark, options).catch(async (failed: unknown) => {
      // The server would keep, and charge for, parts of an upload that is never completed.
      await turns.run(() => client.send(new sdk.AbortMultipartUploadCommand(upload))).catch(() => undefined);
      throw failed;
    });
    return { size, version: etag ?? String(size) };
  }
}

/**
 * Finds out why a condition failed: another writer was faster, or our own put succeeded, but its answer was lost and it was
 * repeated. An object of our own put has our mark.
 */
async function resolveConflict(
  { sdk, client, where, path, turns }: PutPlace,
  error: unknown,
  mark: string,
  options: PutOptions,
): Promise<string | undefined> {
  const { name, status } = describeS3Failure(error);
  const isConditional = options.ifAbsent === true || options.ifVersion !== undefined;
  const isRefused =
    status === 412 ||
    status === 409 ||
    name === "PreconditionFailed" ||
    (options.ifVersion !== undefined && status === 404);
  if (!isConditional || !isRefused) throw error;
  const there = await turns
    .run(() => client.send(new sdk.HeadObjectCommand(where), call(options)))
    .catch(() => undefined);
  if (there?.Metadata?.[MARK] === mark) return there.ETag;
  throw new SuperchunkError(
    "CONFLICT",
    options.ifAbsent === true
      ? "the object exists already; another writer was faster"
      : "the object is another one by now; another writer was faster",
    { path, expected: options.ifVersion ?? "nothing", found: there?.ETag ?? "nothing" },
  );
}

function conditions({ ifAbsent, ifVersion }: PutOptions): { IfNoneMatch?: string; IfMatch?: string } {
  if (ifVersion !== undefined) return { IfMatch: ifVersion };
  return ifAbsent === true ? { IfNoneMatch: "*" } : {};
}

function call({ signal }: PutOptions): { abortSignal?: AbortSignal } {
  return signal === undefined ? {} : { abortSignal: signal };
}

/** Cuts the source into parts in new memory, which do not change while they are uploaded. */
async function* cutParts(source: PutSource, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  if (source instanceof Uint8Array && source.length <= PART_SIZE) {
    yield source;
    return;
  }
  let size = PART_SIZE;
  let part = new Uint8Array(size);
  let filled = 0;
  let count = 0;
  for await (const piece of readPieces(source, signal)) {
    for (let from = 0; from < piece.length; ) {
      const length = Math.min(piece.length - from, size - filled);
      part.set(piece.subarray(from, from + length), filled);
      from += length;
      filled += length;
      if (filled < size) continue;
      yield part;
      if (++count % PARTS_OF_A_SIZE === 0) size *= 2;
      part = new Uint8Array(size);
      filled = 0;
    }
  }
  if (filled > 0) yield part.slice(0, filled);
}
