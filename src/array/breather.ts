/**
 * Lets the event loop run now and then. Small reads are done at once, so a long operation could otherwise keep timers,
 * signals and other requests waiting until it ends.
 */

/** Milliseconds that an operation may run without a pause. */
const AT_MOST = 50;

let last = 0;

/** Pauses for one turn of the event loop, where the last pause is long enough ago. */
export function breathe(): Promise<void> | undefined {
  const now = performance.now();
  if (now - last < AT_MOST) return undefined;
  last = now;
  return new Promise((resolve) => {
    setTimeout(resolve, 0);
  });
}
