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
  return new Promise((resolve) => runSoon(resolve));
}

/** Milliseconds after which {@link giveWay} gives way again. */
const BETWEEN = 1;

let gaveWay = 0;
const { setImmediate: runSoon = runAfterMessage } = globalThis as {
  setImmediate?: (action: () => void) => unknown;
};

/**
 * Lets what is under way beside a long calculation go on: the event loop runs once, where that is long enough ago. For
 * much shorter times than {@link breathe}.
 */
export function giveWay(): Promise<void> | undefined {
  if (performance.now() - gaveWay < BETWEEN) return undefined;
  return new Promise((resolve) => {
    runSoon(() => {
      gaveWay = performance.now();
      resolve();
    });
  });
}

/** For browsers. Always with ports of its own: a port may deliver several messages before anything else has its turn. */
function runAfterMessage(action: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    action();
  };
  port2.postMessage(undefined);
}
