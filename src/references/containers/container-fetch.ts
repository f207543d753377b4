/**
 * `fetch` for a container with secrets: they are sent to the container's own server, and nowhere it points to.
 *
 * Must not know containers' stores or references.
 */
import { SuperchunkError } from "../../errors.ts";

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MOST_REDIRECTS = 5;

/**
 * A `fetch` that follows redirects on one server only. Rejects with `UNSAFE_PATH` where another is pointed to, and
 * `UNSUPPORTED` in a browser, which does not tell where.
 */
export function fetchWithin(origin: string, container: string): typeof globalThis.fetch {
  return async (input, init) => {
    let url = new URL(input instanceof Request ? input.url : input);
    for (let followed = 0; ; followed++) {
      const response = await globalThis.fetch(url, { ...init, redirect: "manual" });
      const path = `${url.origin}${url.pathname}`;
      if (response.type === "opaqueredirect") {
        throw new SuperchunkError(
          "UNSUPPORTED",
          `the server redirects, and the browser does not tell where: the credentials of container "${container}" are not sent on`,
          { path, field: "location" },
        );
      }
      const location = response.headers.get("location");
      if (!REDIRECTS.has(response.status) || location === null) return response;
      await response.body?.cancel();
      const next = new URL(location, url);
      // What a server does for a folder: there is no object of this name.
      if (next.origin === url.origin && next.pathname === `${url.pathname}/`)
        return new Response(null, { status: 404 });
      if (next.origin !== origin || followed >= MOST_REDIRECTS) {
        const where = next.origin === origin ? "on and on" : `to ${next.origin}`;
        throw new SuperchunkError(
          "UNSAFE_PATH",
          `the server redirects ${where}, and the credentials of container "${container}" are for ${origin} alone; make a container for where the objects lie`,
          { path, field: "location", expected: origin, found: next.origin },
        );
      }
      url = next;
    }
  };
}
