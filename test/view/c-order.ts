/** What zarrita reads, as bytes in C order. For Node and for pages. */

/** A strided array of zarrita. */
export interface Strided {
  readonly data: ArrayBufferView & { readonly length: number };
  readonly shape: readonly number[];
  readonly stride: readonly number[];
}

/** The items in C order; byte-swapped if the other byte order is requested. */
export function toCOrder({ data, shape, stride }: Strided, reversed: boolean): Uint8Array<ArrayBuffer> {
  const size = data.byteLength / data.length || 1;
  const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const count = shape.reduce((product, n) => product * n, 1);
  const out = new Uint8Array(count * size);
  for (let i = 0; i < count; i++) {
    let rest = i;
    let at = 0;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const n = shape[axis] ?? 1;
      at += (rest % n) * (stride[axis] ?? 0);
      rest = Math.floor(rest / n);
    }
    const item = source.slice(at * size, (at + 1) * size);
    out.set(reversed ? item.reverse() : item, i * size);
  }
  return out;
}
