/** The worker's side of the page: reads archives, and gives what is shown. */
import type { ColumnSummary, Engine, Entry, NodeFacts, Source, Target, Watch } from "./protocol.ts";
import { factsOf, type Opened, Sources } from "./sources.ts";

/** Makes the worker's side. */
export function makeEngine(): Pick<Engine, "list" | "open" | "summary"> {
  return new PageEngine();
}

class PageEngine {
  readonly #sources = new Sources();
  readonly #stored = new WeakMap<Opened, Promise<number | undefined>>();

  list(source: Source, watch?: Watch<readonly Entry[]>): Promise<readonly Entry[]> {
    return this.#sources.list(source, watch);
  }

  async open(archive: string): Promise<NodeFacts> {
    return factsOf(archive, await this.#sources.open(archive));
  }

  async summary(target: Target): Promise<ColumnSummary> {
    const array = await this.#sources.openColumn(target);
    const { cname, clevel, shuffle, checksum, codecs } = (await array.summary()) as Awaited<
      ReturnType<typeof array.summary>
    > & { readonly codecs?: readonly string[] };
    const words = [cname, clevel === undefined ? undefined : `level ${clevel}`, shuffle];
    const codec = words.filter((word) => word !== undefined).join(", ");
    const node = await this.#sources.open(target.archive);
    let stored = this.#stored.get(node);
    if (stored === undefined) {
      // A store that cannot tell sizes cheaply leaves this out.
      stored = node.storedBytes().catch(() => undefined);
      this.#stored.set(node, stored);
    }
    return {
      codec: codec === "" ? (codecs?.join(", ") ?? "") : codec,
      checksum: checksum === "None" ? undefined : checksum,
      stored: await stored,
    };
  }
}
