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

/** Milliseconds after which {@link giveWay} gives way again. */
const BETWEEN = 2;

let gaveWay = 0;

/**
 * Lets what is under way beside a long calculation go on: the event loop runs once, where that is long enough ago. Sooner than
 * {@link breathe}, whose timer takes a millisecond.
 */
export function giveWay(): Promise<void> | undefined {
  const now = performance.now();
  if (now - gaveWay < BETWEEN) return undefined;
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      gaveWay = performance.now();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
