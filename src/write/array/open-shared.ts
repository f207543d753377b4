/** Opens an array for one of several writers. @see FORMAT.md [FG-16] */
import { readAttributes } from "../../archive/kinds/array-folder.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import { isWritable, type ReadableStore, type WritableStore } from "../../store/types.ts";
import type { ArraySettings } from "../layout/settings.ts";
import { commitSettings } from "./changes.ts";
import { openWritable, readWritable } from "./create.ts";
import { openOwnPlaces } from "./root.ts";
import { SharedArray, type SharedContext } from "./shared-array.ts";
import { CLOCK, MAX_PAUSE, readBase } from "./shared-commits.ts";

/** Seconds: ten years. */
const MAX_LEASE = 315_360_000;
/** Attempts to declare an array shared while others do the same. */
const DECLARE_TRIES = 100;

/**
 * Opens an array for one of several writers that append to it concurrently. The first of them declares it shared; no other
 * writer may have it open then.
 * @throws UNSUPPORTED for an array that keeps itself a Zarr array, and for rows without bytes; CONFLICT, and errors of opening
 */
export async function openShared(
  store: ReadableStore,
  path: string,
  context: SharedContext = {},
): Promise<SharedArray> {
  if (!isWritable(store))
    throw new SuperchunkError("READ_ONLY", "the store cannot write", { path: store.describe(path) });
  const { signal, lock, lease = 1, clock = CLOCK, openPlace } = context;
  if (!(lease >= 1 && lease <= MAX_LEASE)) throw badArgument("lease", lease, `1 to ${MAX_LEASE} seconds`);
  for (let tries = 0; ; tries++) {
    const { settings, isForeign } = await readWritable(store, path, { signal });
    refuseSharing(store, path, settings);
    if (settings.shared && !isForeign) {
      const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), { signal })) ?? {};
      const base = await readBase(store, joinKey(path, "meta/sizes"), undefined);
      if (base !== undefined && base.layout.revision === settings.revision) {
        const { layout } = base;
        const placed = await openOwnPlaces(store, { path, layout }, settings.placing, { openPlace });
        return new SharedArray({ store: placed, path }, { settings, base, attrs }, context);
      }
    } else {
      try {
        await declareShared(store, path, { signal, lock, openPlace });
      } catch (error) {
        // Another writer may be done soon, but a place of another array stays one.
        const isRace = isSuperchunkError(error, "CONFLICT") && error.details.field !== "place";
        if (!isRace || tries >= DECLARE_TRIES) throw error;
      }
    }
    await clock.pause(clock.random() * MAX_PAUSE);
  }
}

/** Declares in one commit that several writers append. */
async function declareShared(
  store: WritableStore,
  path: string,
  options: Pick<SharedContext, "signal" | "lock" | "openPlace">,
): Promise<void> {
  const array = await openWritable(store, path, options);
  try {
    await array.fill((writer) => commitSettings(writer, { ...writer.settings, shared: true }));
  } finally {
    await array.abandon();
  }
}

function refuseSharing(store: WritableStore, path: string, { zarr, rowShape, dtype }: ArraySettings): void {
  const reason = zarr
    ? "the folder is a Zarr array as well, which only one writer at a time can keep up to date; unlink it first"
    : "its rows have no bytes; open it without sharing";
  if (zarr || elementsOf(rowShape) * dtype.itemSize === 0)
    throw new SuperchunkError("UNSUPPORTED", `writers cannot share this array: ${reason}`, {
      path: store.describe(path),
      field: "shared",
    });
}
