/**
 * superchunk: reads Bloscpack, BLZ, bcolz and superchunk archives from any store.
 *
 * @module
 */

export {
  type ChunkDecoder,
  callingThread,
  type DecodedChunk,
  type DecodeRun,
} from "./array/chunk-decoder.ts";
export { type FoundArchive, findArchives } from "./array/discover.ts";
export { type AttributeChanges, changeAttributes } from "./array/foreign/attributes.ts";
export { appendToBloscpack, forecastAppend } from "./array/foreign/bloscpack-append.ts";
export type {
  BloscpackAppendOptions,
  BloscpackAppendResult,
} from "./array/foreign/bloscpack-append-plan.ts";
export type {
  BloscpackCompression,
  BloscpackMetadataOptions,
  BloscpackOptions,
  CountOrFactor,
} from "./array/foreign/bloscpack-options.ts";
export {
  type BloscpackArray,
  type BloscpackResult,
  compressArray,
  compressBytes,
} from "./array/foreign/bloscpack-write.ts";
export type { CarrayCompression } from "./array/foreign/carray-settings.ts";
export type { CarrayWriteOptions } from "./array/foreign/carray-steps.ts";
export {
  appendToCarray,
  type CarrayOptions,
  type CarrayResult,
  type CarraySource,
  createCarray,
  resizeCarray,
  trimCarray,
} from "./array/foreign/carray-write.ts";
export {
  type AddColumnOptions,
  addColumn,
  deleteColumn,
  renameColumn,
} from "./array/foreign/table-columns.ts";
export {
  appendToTable,
  createTable,
  type NewTableColumn,
  resizeTable,
  type TableResult,
  trimTable,
} from "./array/foreign/table-write.ts";
export { type PlainJson, toJsonValue, toJsonValues, toNestedJson } from "./array/json-values.ts";
export { open } from "./array/open.ts";
export type {
  Archive,
  ArrayArchive,
  ArraySlice,
  BytesArchive,
  ChunkedArchive,
  ChunkInfo,
  ChunkPlace,
  ChunkSummary,
  ChunksOptions,
  EncodedChunk,
  Finding,
  LongOptions,
  OpenOptions,
  Progress,
  Selection,
  Slice,
  TableArchive,
  VerifyReport,
} from "./array/types.ts";
export {
  BoolArray,
  ByteStringArray,
  ComplexArray,
  RawArray,
  StructArray,
  type StructValue,
  type TypedValues,
  UnicodeStringArray,
  type ValueContainer,
} from "./array/values.ts";
export {
  type CreateOptions,
  createArray,
  openWritable,
  type WriteOptions,
  type WriterLock,
} from "./array/write/create.ts";
export type { Deletion } from "./array/write/deletion.ts";
export type { NpySource } from "./array/write/npy-rows.ts";
export { type RepairOptions, type RepairReport, repairArray } from "./array/write/repair.ts";
export type { Reserve } from "./array/write/reserve.ts";
export type { RowSource } from "./array/write/rows.ts";
export type { NewColumn } from "./array/write/schema.ts";
export { compactFile, type SetChunkOptions, type SetChunkResult, setChunk } from "./array/write/set-chunk.ts";
export type { SettingPlan } from "./array/write/setting-plan.ts";
export type { CompressionOptions, CutOptions, ReserveOptions } from "./array/write/settings.ts";
export type { WritableArray } from "./array/write/writable-array.ts";
export { type ErrorCode, type ErrorDetails, isSuperchunkError, SuperchunkError } from "./errors.ts";
export { formatDType, parseDType } from "./format/dtype.ts";
export { parseJson, parseJsonInput, stringifyJson } from "./format/json.ts";
export { JsonFloat } from "./format/json-float.ts";
export type {
  ByteOrder,
  ChecksumName,
  Dialect,
  DType,
  Field,
  JsonInput,
  JsonObject,
  JsonObjectInput,
  JsonValue,
  TimeUnit,
} from "./format/types.ts";
export { BlobStore } from "./store/blob.ts";
export { type ForeignStore, fromZarrita } from "./store/foreign.ts";
export { HttpStore, type HttpStoreOptions } from "./store/http.ts";
export { MemoryStore } from "./store/memory.ts";
export type {
  ByteRange,
  ListEntry,
  ObjectInfo,
  PutOptions,
  PutSource,
  ReadableStore,
  StoreOptions,
  WritableStore,
} from "./store/types.ts";
