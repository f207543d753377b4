/** Writes Thrift's compact protocol, as far as Parquet's headers and footer need it. Must not know Parquet. */

/** Type numbers of the compact protocol. */
const TYPE = { true: 1, false: 2, i8: 3, i16: 4, i32: 5, i64: 6, binary: 8, list: 9, struct: 12 } as const;

const TEXT = new TextEncoder();

/** A growing buffer. */
class ThriftWriter {
  #bytes = new Uint8Array(64);
  #length = 0;

  byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#grow(1);
    this.#bytes[this.#length++] = value;
  }

  put(bytes: Uint8Array): void {
    if (this.#length + bytes.length > this.#bytes.length) this.#grow(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** A number below 2^53, seven bits at a time, the lowest first. */
  varint(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.byte((rest % 128) + 128);
      rest = Math.floor(rest / 128);
    }
    this.byte(rest);
  }

  take(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  #grow(more: number): void {
    const next = new Uint8Array(Math.max(2 * this.#bytes.length, this.#length + more));
    next.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = next;
  }
}

/** Maps 0, -1, 1, -2, … to 0, 1, 2, 3, … */
function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

/** A struct. Fields are added in ascending order of their numbers; undefined ones are skipped. */
export class ThriftStruct {
  readonly #out = new ThriftWriter();
  #last = 0;

  bool(field: number, value: boolean | undefined): this {
    if (value !== undefined) this.#head(field, value ? TYPE.true : TYPE.false);
    return this;
  }

  i8(field: number, value: number): this {
    this.#head(field, TYPE.i8);
    this.#out.byte(value & 255);
    return this;
  }

  i16(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i16, value);
  }

  i32(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i32, value);
  }

  /** A number of at most 53 bits. */
  i64(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i64, value);
  }

  binary(field: number, value: Uint8Array | string | undefined): this {
    if (value === undefined) return this;
    this.#head(field, TYPE.binary);
    putBinary(this.#out, value);
    return this;
  }

  struct(field: number, value: ThriftStruct | undefined): this {
    if (value === undefined) return this;
    this.#head(field, TYPE.struct);
    this.#out.put(value.encode());
    return this;
  }

  structs(field: number, values: readonly (ThriftStruct | Uint8Array)[] | undefined): this {
    if (values === undefined) return this;
    this.#list(field, TYPE.struct, values.length);
    for (const value of values) this.#out.put(value instanceof Uint8Array ? value : value.encode());
    return this;
  }

  i32s(field: number, values: readonly number[]): this {
    this.#list(field, TYPE.i32, values.length);
    for (const value of values) this.#out.varint(zigzag(value));
    return this;
  }

  i64s(field: number, values: readonly number[] | undefined): this {
    if (values === undefined) return this;
    this.#list(field, TYPE.i64, values.length);
    for (const value of values) this.#out.varint(zigzag(value));
    return this;
  }

  bools(field: number, values: readonly boolean[]): this {
    this.#list(field, TYPE.true, values.length);
    for (const value of values) this.#out.byte(value ? TYPE.true : TYPE.false);
    return this;
  }

  binaries(field: number, values: readonly (Uint8Array | string)[]): this {
    this.#list(field, TYPE.binary, values.length);
    for (const value of values) putBinary(this.#out, value);
    return this;
  }

  /** The bytes of the struct, including its end mark. */
  encode(): Uint8Array {
    const bytes = this.#out.take();
    const out = new Uint8Array(bytes.length + 1);
    out.set(bytes);
    return out;
  }

  #integer(field: number, type: number, value: number | undefined): this {
    if (value === undefined) return this;
    this.#head(field, type);
    this.#out.varint(zigzag(value));
    return this;
  }

  #list(field: number, type: number, length: number): void {
    this.#head(field, TYPE.list);
    if (length < 15) this.#out.byte((length << 4) | type);
    else {
      this.#out.byte(0xf0 | type);
      this.#out.varint(length);
    }
  }

  #head(field: number, type: number): void {
    const step = field - this.#last;
    this.#last = field;
    if (step < 16) this.#out.byte((step << 4) | type);
    else {
      this.#out.byte(type);
      this.#out.varint(zigzag(field));
    }
  }
}

function putBinary(out: ThriftWriter, value: Uint8Array | string): void {
  const bytes = typeof value === "string" ? TEXT.encode(value) : value;
  out.varint(bytes.length);
  out.put(bytes);
}
