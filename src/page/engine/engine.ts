/** The worker's side of the page: reads archives, and returns what is shown. */
import type { ReadableArray, VerifyReport } from "../../archive/kinds/types.ts";
import type {
  ChunkBatch,
  ChunkDetail,
  ColumnSummary,
  Engine,
  Entry,
  NodeFacts,
  Picture,
  PlotData,
  PlotRequest,
  RowCells,
  RowsRequest,
  Source,
  Statistics,
  Target,
  Watch,
} from "./protocol.ts";
import { readCells } from "./rows.ts";
import { factsOf, type Opened, Sources } from "./sources.ts";

/** Files whose times are requested at a time. */
const STATS = 8;
/** Most milliseconds for finding the stored size of an archive. */
const STORED_MS = 3000;

export class PageEngine implements Engine {
  #sources = new Sources();
  readonly #stored = new WeakMap<Opened, Promise<number | undefined>>();

  list(source: Source, watch?: Watch<readonly Entry[]>): Promise<readonly Entry[]> {
    // The list of the former source may still run.
    this.#sources = new Sources();
    return this.#sources.list(source, watch);
  }

  async open(archive: string, { signal }: Watch = {}): Promise<NodeFacts> {
    return factsOf(archive, await this.#sources.open(archive, signal));
  }

  async summary(target: Target): Promise<ColumnSummary> {
    const array = await this.#sources.openColumn(target);
    const { cname, clevel, shuffle, checksum, codecs } = (await array.summary()) as Awaited<
      ReturnType<typeof array.summary>
    > & { readonly codecs?: readonly string[] };
    // Without chunks there is neither a codec nor a level.
    const words =
      cname === undefined ? [] : [cname, clevel === undefined ? undefined : `level ${clevel}`, shuffle];
    const codec = words.filter((word) => word !== undefined).join(", ");
    const node = await this.#sources.open(target.archive);
    let stored = this.#stored.get(node);
    if (stored === undefined) {
      // Each object takes a request. If that takes too long, the size is left out.
      const signal = AbortSignal.timeout(STORED_MS);
      const isOne = node.kind !== "group" && node.dialect.startsWith("bloscpack");
      stored =
        this.#sources.isFar && !isOne
          ? Promise.resolve(undefined)
          : node.storedBytes({ signal }).catch(() => undefined);
      this.#stored.set(node, stored);
    }
    return {
      // Values that are only laid out as bytes are not compressed.
      codec: codec === "" ? (codecs?.filter((name) => name !== "bytes").join(", ") ?? "") : codec,
      checksum: checksum === "None" ? undefined : checksum,
      stored: await stored,
    };
  }

  async chunks(target: Target, watch: Watch<ChunkBatch> = {}): Promise<string | undefined> {
    return (await import("./chunk-list.ts")).listChunks(await this.#sources.openColumn(target), watch);
  }

  async written(
    { files, ...target }: Target & { readonly files: readonly string[] },
    { signal }: Watch = {},
  ): Promise<Float64Array> {
    const { store } = await this.#sources.openColumn(target);
    const times = new Float64Array(files.length).fill(Number.NaN);
    let next = 0;
    const work = async (): Promise<void> => {
      for (let at = next++; at < files.length; at = next++)
        times[at] = (await store.stat(files[at] ?? "", { signal }))?.modified ?? Number.NaN;
    };
    await Promise.all(Array.from({ length: STATS }, work));
    return times;
  }

  async chunk(
    { index, ...target }: Target & { readonly index: number },
    { signal }: Watch = {},
  ): Promise<ChunkDetail> {
    return (await import("./chunk-list.ts")).readChunk(await this.#sources.openColumn(target), index, signal);
  }

  async verify(target: Target, { signal, onProgress }: Watch = {}): Promise<VerifyReport> {
    const column = await this.#sources.openColumn(target);
    const report = await column.verify({ signal, onProgress: seldom(onProgress) });
    // Values may be of any type; text can always be posted.
    const findings = report.findings.map(({ expected, found, ...finding }) => finding);
    return { ...report, findings };
  }

  async rows(request: RowsRequest, { signal }: Watch = {}): Promise<RowCells> {
    const { archive, columns } = request;
    const opened = columns.map((column) => this.#sources.openColumn({ archive, column }));
    return readCells(await Promise.all(opened), request, signal);
  }

  async plot(
    { archive, ...request }: PlotRequest & { readonly archive: string },
    watch: Watch<PlotData> = {},
  ): Promise<PlotData> {
    const names = request.x === undefined ? request.columns : [...request.columns, request.x];
    const arrays = new Map<string, ReadableArray>();
    for (const column of names) arrays.set(column, await this.#array({ archive, column }));
    return (await import("./numbers.ts")).plotColumns(arrays, request, watch);
  }

  async picture(
    { fixed, ...target }: Target & Pick<RowsRequest, "fixed">,
    { signal }: Watch = {},
  ): Promise<Picture> {
    return (await import("./numbers.ts")).readPicture(await this.#array(target), fixed, signal);
  }

  async statistics(target: Target, watch: Watch<Statistics> = {}): Promise<Statistics> {
    return (await import("./numbers.ts")).statisticsOf(await this.#array(target), target.column, watch);
  }

  /** Only views of numbers ask for it, so it is not plain bytes. */
  async #array(target: Target): Promise<ReadableArray> {
    return (await this.#sources.openColumn(target)) as ReadableArray;
  }
}

/** Passes on one report in a tenth of a second, not one for each of a million chunks. */
function seldom<P>(report: ((progress: P) => void) | undefined): ((progress: P) => void) | undefined {
  let last = 0;
  return (
    report &&
    ((progress) => {
      const now = performance.now();
      if (now - last < 100) return;
      last = now;
      report(progress);
    })
  );
}
