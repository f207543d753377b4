/** What a suite is. */
import type { Checks } from "./checks.ts";
import type { PeerName, ReadyPeer } from "./peers.ts";

/** What a suite works with. */
export interface SuiteContext {
  readonly checks: Checks;
  /** The peer, or undefined where it is absent (which the run has reported). */
  peer(name: PeerName): ReadyPeer | undefined;
  /** An empty folder that is removed when the run ends. */
  readonly folder: string;
}

/** Checks that need other programs. To add one: a separate file, and its entry in `main.ts`. */
export interface Suite {
  /** One word, by which it can be chosen on the command line. */
  readonly name: string;
  readonly peers: readonly PeerName[];
  run(context: SuiteContext): Promise<void>;
}
