/**
 * The chunks of an archive as a block of shades: the compressed share of each, and which are missing or damaged.
 *
 * Knows characters; must not know archives.
 */

/** Most characters of a map; with more chunks, several share one. */
const MOST_CELLS = 2400;
/** The shade of a chunk whose compressed share is at least this. */
const SHADES: readonly (readonly [share: number, shade: string])[] = [
  [0.75, "█"],
  [0.5, "▓"],
  [0.25, "▒"],
  [0, "░"],
];
const MISSING = "·";
const DAMAGED = "×";

export interface MapCell {
  readonly index: number;
  /** Uncompressed and stored bytes; absent for a chunk that cannot be read. */
  readonly nbytes?: number;
  readonly cbytes?: number;
}

/** A map that is filled in the order of chunks. */
export class ShadeMap {
  readonly #width: number;
  readonly #per: number;
  readonly #cells: number;
  readonly #nbytes: Float64Array;
  readonly #cbytes: Float64Array;
  readonly #damaged: Uint8Array;

  /** `nchunks`: of the whole archive; `columns`: of the terminal. */
  constructor(nchunks: number, columns: number | undefined) {
    this.#width = Math.max(8, Math.min(96, columns ?? 64));
    this.#per = Math.max(1, Math.ceil(nchunks / MOST_CELLS));
    this.#cells = Math.ceil(nchunks / this.#per);
    this.#nbytes = new Float64Array(this.#cells);
    this.#cbytes = new Float64Array(this.#cells);
    this.#damaged = new Uint8Array(this.#cells);
  }

  add({ index, nbytes, cbytes }: MapCell): void {
    const cell = Math.floor(index / this.#per);
    if (cell >= this.#cells) return;
    if (nbytes === undefined || cbytes === undefined) this.#damaged[cell] = 1;
    else {
      this.#nbytes[cell] = (this.#nbytes[cell] ?? Number.NaN) + nbytes;
      this.#cbytes[cell] = (this.#cbytes[cell] ?? Number.NaN) + cbytes;
    }
  }

  /** The map, and a legend of the characters in it. */
  lines(): string[] {
    const shades = Array.from({ length: this.#cells }, (_, cell) => this.#shadeOf(cell));
    const rows: string[] = [];
    for (let at = 0; at < shades.length; at += this.#width)
      rows.push(shades.slice(at, at + this.#width).join(""));
    const seen = new Set(shades);
    const meanings: readonly (readonly [string, string])[] = [
      ["█", "75 % or more"],
      ["▓", "50 % to 75 %"],
      ["▒", "25 % to 50 %"],
      ["░", "under 25 %"],
      [MISSING, "not stored"],
      [DAMAGED, "damaged"],
    ];
    const legend = meanings.filter(([shade]) => seen.has(shade)).map(([shade, text]) => `${shade} ${text}`);
    if (this.#per > 1) legend.push(`${this.#per} chunks to a character`);
    return [...rows, `stored size: ${legend.join("   ")}`];
  }

  #shadeOf(cell: number): string {
    if (this.#damaged[cell] === 1) return DAMAGED;
    const nbytes = this.#nbytes[cell] ?? Number.NaN;
    if (!(nbytes > 0)) return MISSING;
    const share = (this.#cbytes[cell] ?? Number.NaN) / nbytes;
    return SHADES.find(([least]) => share >= least)?.[1] ?? MISSING;
  }
}
