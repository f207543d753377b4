/**
 * Calls between the page and its worker as messages: results, errors, progress and aborts.
 *
 * Knows messages; must not know what is called.
 */

/** A call, or its abort. */
type Request =
  | { readonly id: number; readonly method: string; readonly argument: unknown }
  | { readonly id: number; readonly abort: true };

/** An answer: progress, the result, or an error. */
type Answer =
  | { readonly id: number; readonly progress: unknown }
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: Pick<Error, "message" | "name"> };

interface Watched {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: unknown) => void) | undefined;
}

type Method = (argument: unknown, watch: Watched) => Promise<unknown>;

/** The message port: a worker, or the worker's own scope. */
interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

export function answerCalls(port: Port, methods: object): void {
  const running = new Map<number, AbortController>();
  port.addEventListener("message", ({ data }: MessageEvent<Request>) => {
    const { id } = data;
    if ("abort" in data) {
      running.get(id)?.abort();
      return;
    }
    const controller = new AbortController();
    running.set(id, controller);
    const onProgress = (progress: unknown): void => port.postMessage({ id, progress } satisfies Answer);
    const method = (methods as Record<string, Method>)[data.method];
    const called = Promise.resolve().then(() =>
      method?.call(methods, data.argument, { signal: controller.signal, onProgress }),
    );
    called
      .then(
        (value) => port.postMessage({ id, value } satisfies Answer),
        (error: unknown) => {
          const { message, name } = error instanceof Error ? error : new Error(String(error));
          port.postMessage({ id, error: { message, name } } satisfies Answer);
        },
      )
      .finally(() => running.delete(id));
  });
}

/** An object whose methods are called at the other end of the port. */
export function callerOf<T extends object>(port: Port): T {
  let last = 0;
  const waiting = new Map<
    number,
    { resolve(value: unknown): void; reject(error: unknown): void; readonly watch: Watched }
  >();
  port.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
    const call = waiting.get(data.id);
    if (call === undefined) return;
    if ("progress" in data) {
      call.watch.onProgress?.(data.progress);
      return;
    }
    waiting.delete(data.id);
    if ("error" in data) call.reject(Object.assign(new Error(), data.error));
    else call.resolve(data.value);
  });
  const call = async (method: string, argument: unknown, watch: Watched = {}): Promise<unknown> => {
    const { signal } = watch;
    signal?.throwIfAborted();
    const id = ++last;
    let abort = (): void => {};
    return new Promise((resolve, reject) => {
      abort = () => {
        if (!waiting.delete(id)) return;
        port.postMessage({ id, abort: true } satisfies Request);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort);
      waiting.set(id, { watch, resolve, reject });
      port.postMessage({ id, method, argument } satisfies Request);
    }).finally(() => signal?.removeEventListener("abort", abort));
  };
  return new Proxy({} as T, {
    get: (_, method) => call.bind(undefined, String(method)),
  });
}
