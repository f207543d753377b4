/**
 * What the page of the pool's test does at the request of the main program. Bundled for the page; `pool-service.ts`
 * is its service worker.
 */
import { createPool, decode, encode, isSuperchunkError } from "superchunk/blosc";
import * as zarr from "zarrita";

/** The outcome of reading an array through a pool. */
export interface Reading {
  /** Decoded bytes, and whether they match the array. */
  readonly bytes: number;
  readonly same: boolean;
  /** Milliseconds from the first request to the last value. */
  readonly took: number;
  /** Milliseconds of each task of the main thread that took more than 50. */
  readonly longTasks: readonly number[];
}

/** What the main program calls. */
export interface PoolCalls {
  /** Reads `total` bytes of an array with zarrita, in slices; `workers: 0` decodes in the main thread. */
  read(workers: number, total: number, cname?: Compressor): Promise<Reading>;
  /** The same, chunk by chunk, as a viewer of tiles does: zarrita copies nothing. */
  readChunks(workers: number, total: number, cname?: Compressor): Promise<Reading>;
  /** Decodes as much through a pool alone: what the pool does while the main thread has nothing else to do. */
  decode(workers: number, total: number, cname: Compressor): Promise<Reading>;
  /** Bytes of the page and its workers while 20 arrays are open and each holds a chunk. */
  memoryOfArrays(count: number): Promise<number>;
  /** Whether a pool decodes, the code of its error, and the code of the page's `decode`. */
  tryPool(): Promise<{ readonly pool: string; readonly here: string }>;
  /** Whether the code of a damaged chunk's error, and the signal's reason, arrive. */
  failures(): Promise<readonly string[]>;
  /** Whether the page's service worker decodes. */
  tryServiceWorker(): Promise<boolean>;
}

declare global {
  interface Window {
    poolTest: PoolCalls;
  }
}

type Compressor = "lz4" | "zstd";

const ITEMS = 131_072;
const CHUNK = 8 * ITEMS;
/** Chunks of a slice: what a viewer reads at once. */
const SLICE = 16;
const settings = { cname: "lz4", typesize: 8 } as const;

/** Prices: chunk `i` of four. */
function prices(i: number): Float64Array<ArrayBuffer> {
  return Float64Array.from(
    { length: ITEMS },
    (_, j) => 100 + Math.round(1000 * Math.sin((j + 7 * i) / 50)) / 100,
  );
}

/** An array of chunks of prices, over and over, in memory. */
async function makeStore(
  nchunks: number,
  cname: Compressor,
): Promise<{ get(key: string): Uint8Array | undefined }> {
  const chunks: Uint8Array[] = [];
  for (let i = 0; i < 4; i++)
    chunks.push(await encode(new Uint8Array(prices(i).buffer), { cname, typesize: 8 }));
  const document = {
    zarr_format: 3,
    node_type: "array",
    shape: [ITEMS * nchunks],
    data_type: "float64",
    chunk_grid: { name: "regular", configuration: { chunk_shape: [ITEMS] } },
    chunk_key_encoding: { name: "default" },
    fill_value: 0,
    codecs: [
      { name: "bytes", configuration: { endian: "little" } },
      {
        name: "blosc",
        configuration: { cname, clevel: 5, shuffle: "shuffle", typesize: 8, blocksize: 0 },
      },
    ],
  };
  return {
    get(key) {
      if (key.endsWith("zarr.json")) return new TextEncoder().encode(JSON.stringify(document));
      return chunks[Number(/\/c\/(\d+)$/.exec(key)?.[1]) % 4];
    },
  };
}

async function openArray(nchunks: number, cname: Compressor = "lz4"): Promise<zarr.Array<"float64">> {
  const store = await makeStore(nchunks, cname);
  const array = await zarr.open.v3(zarr.root({ get: async (key: string) => store.get(key) }), {
    kind: "array",
  });
  return array as zarr.Array<"float64">;
}

const codeOf = (error: unknown): string => (isSuperchunkError(error) ? error.code : String(error));

/** Turns of the event loop after which the record of a task is known. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setTimeout(resolve));
}

/** Reads an array with zarrita through a pool: `readSlice` resolves with the values of the chunks from `first` on. */
async function readThrough(
  workers: number,
  total: number,
  cname: Compressor | undefined,
  readSlice: (array: zarr.Array<"float64">, first: number) => Promise<readonly Float64Array[]>,
): Promise<Reading> {
  await using pool = createPool({ workers });
  zarr.registry.set("blosc", async () => pool.Blosc);
  const nchunks = total / CHUNK;
  const array = await openArray(nchunks, cname);
  const expected = [0, 1, 2, 3].map(prices);
  // The workers have started, and the kernels are compiled.
  await Promise.all([0, 1, 2, 3].map((i) => array.getChunk([i])));
  const longTasks: number[] = [];
  const take = (entries: readonly PerformanceEntry[]): void => {
    for (const { duration } of entries) longTasks.push(duration);
  };
  const observer = new PerformanceObserver((list) => take(list.getEntries()));
  await settle();
  performance.mark("pool begins");
  observer.observe({ type: "longtask" });
  let [bytes, same, took] = [0, true, 0];
  for (let first = 0; first < nchunks; first += SLICE) {
    const start = performance.now();
    const chunks = await readSlice(array, first);
    took += performance.now() - start;
    for (const [i, data] of chunks.entries()) {
      bytes += data.byteLength;
      same &&= data[9] === expected[i % 4]?.[9];
    }
  }
  performance.mark("pool ends");
  await settle();
  take(observer.takeRecords());
  observer.disconnect();
  return { bytes, same, took, longTasks };
}

if (typeof window !== "undefined")
  window.poolTest = {
    read: (workers, total, cname) =>
      readThrough(workers, total, cname, async (array, first) => {
        const { data } = await zarr.get(array, [zarr.slice(first * ITEMS, (first + SLICE) * ITEMS)]);
        return Array.from({ length: SLICE }, (_, i) => data.subarray(i * ITEMS, (i + 1) * ITEMS));
      }),
    readChunks: (workers, total, cname) =>
      readThrough(workers, total, cname, async (array, first) => {
        const chunks = Array.from({ length: SLICE }, (_, i) => array.getChunk([first + i]));
        return (await Promise.all(chunks)).map(({ data }) => data);
      }),
    async decode(workers, total, cname) {
      await using pool = createPool({ workers });
      const expected = [0, 1, 2, 3].map((i) => new Uint8Array(prices(i).buffer));
      const chunks = await Promise.all(expected.map((data) => encode(data, { cname, typesize: 8 })));
      const decodeNext = async (i: number): Promise<boolean> => {
        const data = await pool.decode(chunks[i % 4] as Uint8Array);
        bytes += data.length;
        return data[CHUNK - 9] === expected[i % 4]?.[CHUNK - 9];
      };
      let bytes = 0;
      let same = (await Promise.all([0, 1, 2, 3].map(decodeNext))).every(Boolean);
      bytes = 0;
      const start = performance.now();
      performance.mark("pool begins");
      for (let first = 0; first < total / CHUNK; first += SLICE) {
        const found = await Promise.all(Array.from({ length: SLICE }, (_, i) => decodeNext(first + i)));
        same &&= found.every(Boolean);
      }
      performance.mark("pool ends");
      return { bytes, same, took: performance.now() - start, longTasks: [] };
    },
    async memoryOfArrays(count) {
      await using pool = createPool({ workers: 2 });
      zarr.registry.set("blosc", async () => pool.Blosc);
      const arrays = await Promise.all(Array.from({ length: count }, () => openArray(8)));
      const shown = await Promise.all(arrays.map((array) => array.getChunk([0])));
      const { performance: measures } = globalThis as unknown as {
        performance: { measureUserAgentSpecificMemory(): Promise<{ readonly bytes: number }> };
      };
      const { bytes } = await measures.measureUserAgentSpecificMemory();
      return shown.every(({ data }) => data.length === ITEMS) ? bytes : Number.NaN;
    },
    async tryPool() {
      // Made elsewhere: a page under a strict policy cannot encode.
      const chunk = new Uint8Array(await (await fetch("chunk.blosc")).arrayBuffer());
      await using pool = createPool({ workers: 1 });
      const say = ({ length }: Uint8Array): string => `${length} bytes`;
      return {
        pool: await pool.decode(chunk).then(say, codeOf),
        here: await decode(chunk).then(say, codeOf),
      };
    },
    async failures() {
      await using pool = createPool({ workers: 1 });
      const chunk = await pool.encode(new Uint8Array(prices(0).buffer), settings);
      const stop = new AbortController();
      const stopped = pool.decode(chunk, { signal: stop.signal });
      stop.abort(new Error("scrolled away"));
      return Promise.all([
        pool.decode(chunk.subarray(0, 100)).then(String, codeOf),
        stopped.then(String, codeOf),
        pool.encode(chunk, { clevel: 12 }).then(String, codeOf),
        pool.decode(chunk, { transfer: true }).then(({ length }) => `${length} bytes, ${chunk.length} left`),
        pool
          .encode(new Uint8Array(prices(1).buffer), { cname: "zstd", clevel: 1 })
          .then(() => "zstd", codeOf),
      ]);
    },
    async tryServiceWorker() {
      await navigator.serviceWorker.register("pool-service.js");
      const { active } = await navigator.serviceWorker.ready;
      const data = new Uint8Array(prices(0).buffer);
      const chunk = await encode(data, settings);
      const { port1, port2 } = new MessageChannel();
      const decoded = new Promise<Uint8Array>((resolve) => {
        port1.onmessage = (event: MessageEvent<Uint8Array>) => resolve(event.data);
      });
      active?.postMessage(chunk, [port2]);
      return indexedDB.cmp(await decoded, data) === 0;
    },
  };
