/** The package koffi, which calls libraries of the system, where the user has installed it. */
import { loadThroughGate } from "./loading-gate.ts";

export type Koffi = typeof import("koffi")["default"];

/** Loads it. Throws what the engine throws where it is not there. */
export async function importKoffi(): Promise<Koffi> {
  return loadThroughGate(async () => (await import("koffi")).default);
}
