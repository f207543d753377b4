/** Writes Thrift's compact protocol, as far as Parquet's headers and footer need it. Must not know Parquet. */
import { joinBytes } from "../bytes/arrays.ts";
import { varint } from "./join-streams.ts";

/** Type numbers of the compact protocol. */
const TYPE = { true: 1, false: 2, i8: 3, i16: 4, i32: 5, i64: 6, binary: 8, list: 9, struct: 12 } as const;

const TEXT = new TextEncoder();

/** An integer of at most 53 bits: 0, -1, 1, -2, … are 0, 1, 2, 3, … */
function integer(value: number): Uint8Array {
  return Uint8Array.from(varint(value < 0 ? -2 * value - 1 : 2 * value));
}

function binary(value: Uint8Array | string): Uint8Array {
  const bytes = typeof value === "string" ? TEXT.encode(value) : value;
  return joinBytes([Uint8Array.from(varint(bytes.length)), bytes]);
}

/** A struct. Fields are added in ascending order of their numbers; undefined ones are skipped. */
export class ThriftStruct {
  readonly #pieces: Uint8Array[] = [];
  #last = 0;

  bool(field: number, value: boolean): this {
    return this.#add(field, value ? TYPE.true : TYPE.false, new Uint8Array(0));
  }

  i8(field: number, value: number): this {
    return this.#add(field, TYPE.i8, Uint8Array.of(value));
  }

  i16(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i16, value);
  }

  i32(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i32, value);
  }

  i64(field: number, value: number | undefined): this {
    return this.#integer(field, TYPE.i64, value);
  }

  binary(field: number, value: Uint8Array | string | undefined): this {
    return this.#add(field, TYPE.binary, value === undefined ? undefined : binary(value));
  }

  struct(field: number, value: ThriftStruct | undefined): this {
    return this.#add(field, TYPE.struct, value?.encode());
  }

  structs(field: number, values: readonly (ThriftStruct | Uint8Array)[] | undefined): this {
    const encoded = values?.map((value) => (value instanceof Uint8Array ? value : value.encode()));
    return encoded === undefined ? this : this.#list(field, TYPE.struct, encoded);
  }

  i32s(field: number, values: readonly number[]): this {
    return this.#list(field, TYPE.i32, values.map(integer));
  }

  i64s(field: number, values: readonly number[]): this {
    return this.#list(field, TYPE.i64, values.map(integer));
  }

  bools(field: number, values: readonly boolean[]): this {
    const bytes = values.map((value) => Uint8Array.of(value ? TYPE.true : TYPE.false));
    return this.#list(field, TYPE.true, bytes);
  }

  binaries(field: number, values: readonly (Uint8Array | string)[]): this {
    return this.#list(field, TYPE.binary, values.map(binary));
  }

  /** The bytes of the struct, including its end mark. */
  encode(): Uint8Array {
    return joinBytes([...this.#pieces, Uint8Array.of(0)]);
  }

  #integer(field: number, type: number, value: number | undefined): this {
    return this.#add(field, type, value === undefined ? undefined : integer(value));
  }

  #list(field: number, type: number, items: readonly Uint8Array[]): this {
    const { length } = items;
    const head = length < 15 ? [(length << 4) | type] : [0xf0 | type, ...varint(length)];
    return this.#add(field, TYPE.list, joinBytes([Uint8Array.from(head), ...items]));
  }

  /** The numbers of Parquet's fields are below 16, so that their distance and the type take one byte. */
  #add(field: number, type: number, value: Uint8Array | undefined): this {
    if (value === undefined) return this;
    this.#pieces.push(Uint8Array.of(((field - this.#last) << 4) | type), value);
    this.#last = field;
    return this;
  }
}
