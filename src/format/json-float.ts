/**
 * Floats that are written as floats. Parsed values are plain numbers, which do not distinguish `1.0` from `1`. So the parser
 * notes which members of an object or list were floats, and the writer looks that up. Must not know how JSON is read.
 * @see FORMAT.md [FJ-09] [FJ-10]
 */

/**
 * A whole number that JSON text has as a float, such as `1.0`. Python reads `1.0` as a float and `1` as an integer; JavaScript numbers do
 * not distinguish them.
 */
export class JsonFloat {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  valueOf(): number {
    return this.value;
  }

  /** Returns a member of a result of `parseJson` as its text had it: a {@link JsonFloat} if it was a whole float. */
  static memberOf<T>(container: Readonly<Record<string, T>>, name: string): T | JsonFloat | null {
    const value = container[name];
    return isNotedFloat(container, name, value) ? new JsonFloat(Number(value)) : (value ?? null);
  }
}

/** Whole numbers that are floats in the text, by their object or list, and then by name or index. */
const NOTED = new WeakMap<object, Map<string, number>>();

/** Notes that a member of an object or list with a whole number is a float. */
export function noteFloat(container: object, name: string | number, value: number): void {
  const noted = NOTED.get(container);
  if (noted === undefined) NOTED.set(container, new Map([[String(name), value]]));
  else noted.set(String(name), value);
}

/** Removes a note. */
export function forgetFloat(container: object, name: string | number): void {
  NOTED.get(container)?.delete(String(name));
}

/** True if a member is noted as a float, and has not been replaced since. */
export function isNotedFloat(container: object, name: string | number, value: unknown): boolean {
  const noted = NOTED.get(container);
  return noted?.has(String(name)) === true && Object.is(noted.get(String(name)), value);
}

/** True if a parsed member is an integer from 0 to 2^53 - 1, and is written as one: `21.0` is not. */
export function isCount(container: object, name: string | number): boolean {
  const value = (container as Readonly<Record<string, unknown>>)[name];
  return Number.isSafeInteger(value) && Number(value) >= 0 && !isNotedFloat(container, name, value);
}

/** Copies the notes for members that `target` took over from `source`. Returns `target`. */
export function keepFloats<T extends object>(target: T, source: object): T {
  for (const [name, value] of NOTED.get(source) ?? [])
    if (Object.is((target as Readonly<Record<string, unknown>>)[name], value)) noteFloat(target, name, value);
  return target;
}
