/** A service worker that decodes what it is sent. Bundled for the page of the pool's test. */
import { decode } from "superchunk/blosc";

addEventListener("message", (event) => {
  const { data, ports } = event as MessageEvent<Uint8Array>;
  void decode(data).then((bytes) => ports[0]?.postMessage(bytes));
});
