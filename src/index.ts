/**
 * superchunk: reads Bloscpack, BLZ, bcolz and superchunk archives from any store.
 *
 * @module
 */

export type {
  AbsentChunk,
  Archive,
  ArrayArchive,
  BytesArchive,
  ChunkedArchive,
  ChunkInfo,
  ChunkSummary,
  ChunksOptions,
  DamageReport,
  EncodedChunk,
  Finding,
  Hole,
  HolePolicy,
  LongOptions,
  OpenOptions,
  Progress,
  ReadableArray,
  ReadableChunk,
  ReadableSummary,
  ReadableTable,
  ReadOptions,
  TableArchive,
  VerifyReport,
} from "./archive/kinds/types.ts";
export type { UnfinishedConversion } from "./archive/open/discover.ts";
export { openArchive } from "./archive/open/open.ts";
export type { ChunkPlace } from "./archive/places/sequence.ts";
export type { ChunkDecoder, DecodedChunk, DecodeRun } from "./archive/read/chunk-fetch.ts";
export {
  compressBytes,
  create,
  edit,
  findReadables,
  findUnfinished,
  packBytes,
  repairArray,
  writeIndex,
} from "./begin.ts";
export type { CompressorName, Shuffle } from "./codec/types.ts";
export type { RepairOptions, RepairReport } from "./convert/run/repair.ts";
export type { CreateOptions, EditOptions } from "./edit/options.ts";
export type { ShardTools, ZarrEdit } from "./edit/zarr-array.ts";
export { type ErrorCode, type ErrorDetails, isSuperchunkError, SuperchunkError } from "./errors.ts";
export { formatDType, parseDType } from "./format/dtype.ts";
export { type JsonReading, parseJson, stringifyJson } from "./format/json.ts";
export { JsonFloat } from "./format/json-float.ts";
export { encodeNpyHeader, type NpyHeader } from "./format/npy.ts";
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
  ZarrDialect,
} from "./format/types.ts";
export type { FindReadablesOptions, FoundReadable } from "./open/find-readables.ts";
export type { FollowOptions } from "./open/follow.ts";
export {
  type FollowableArray,
  type OpenArrayOptions,
  open,
  openArray,
  openTable,
  type Readable,
} from "./open/open.ts";
export type { OpenAnyOptions } from "./open/open-node.ts";
export type { PlaceRule, StoredPlace } from "./places/declared.ts";
export type { OpenPlace } from "./places/placed-store.ts";
export type { ArrowOptions } from "./scan/arrow-batches.ts";
export type { FilterCondition, FilterValue, ScanFilter } from "./scan/filter.ts";
export type { Indices, OuterEntry, PickOptions } from "./scan/pick.ts";
export type {
  ScanBatch,
  ScanColumns,
  ScannedValues,
  ScanPlan,
  ScanRowsOptions,
} from "./scan/scan.ts";
export type { IndexReport, WriteIndexOptions } from "./scan/write-index.ts";
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
export type { ArraySlice, Selected, ValuesOf, ValueTypes } from "./values/selection.ts";
export { type Extent, resolveSelection, type Selection, type Slice, slice } from "./values/selection.ts";
export type {
  BoolArray,
  ByteStringArray,
  ComplexArray,
  RawArray,
  Scalar,
  StructArray,
  StructValue,
  TypedValues,
  UnicodeStringArray,
  ValueContainer,
} from "./values/values.ts";
export { type PlainJson, toJsonValue } from "./values/values.ts";
export type {
  BloscpackAppendOptions,
  BloscpackAppendResult,
} from "./write/bloscpack/bloscpack-append.ts";
export type { BloscpackFile } from "./write/bloscpack/bloscpack-file.ts";
export type {
  BloscpackCompression,
  BloscpackMetadataOptions,
  BloscpackOptions,
  CountOrFactor,
} from "./write/bloscpack/bloscpack-options.ts";
export type { BloscpackResult } from "./write/bloscpack/bloscpack-write.ts";
export type {
  AppendOptions,
  AttributeChanges,
  CompactPlan,
  DeletePlan,
  Editable,
  EditFormat,
  MoveChoice,
  Moved,
  NewColumn,
  PlaceChanges,
  PlaceInfo,
  PublishPolicy,
  ResizePlan,
  SetPlan,
  WriterLock,
} from "./write/editable.ts";
export type { ChunkSettings, CompressionOptions, Reserve, ReserveOptions } from "./write/layout/settings.ts";
export type { RowSource } from "./write/rows/rows.ts";
