/** Elements of lists that are known to exist. */

/** The element at `index`. Throws a `RangeError` if there is none, which is a bug, never a fault of the input. */
export function at<T>(list: ArrayLike<T>, index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`no element ${index} in a list of ${list.length}`);
  return found;
}
