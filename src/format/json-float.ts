/** A float that is written as one. Must not know how JSON is read. @see FORMAT.md [FJ-08] */

/**
 * A number that JSON text has as a float also where it is whole, as `1.0`: Python reads that as a float, and `1` as an
 * integer, which a JavaScript number does not tell apart.
 */
export class JsonFloat {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  valueOf(): number {
    return this.value;
  }
}
