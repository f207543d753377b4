/** Elements of lists that are known to be there. */

/** The element at `index`. Throws a `RangeError` where there is none: an error of the program, never of its input. */
export function at<T>(list: ArrayLike<T>, index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`no element ${index} in a list of ${list.length}`);
  return found;
}
