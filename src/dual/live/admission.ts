/** Says which settings a mirrored array can get while there are Zarr readers. Writes nothing. @see FORMAT.md [FY-09] */

import { SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { layOutColumns } from "../../write/layout/columns.ts";
import type { ArraySettings } from "../../write/layout/settings.ts";
import { MirrorDocuments } from "./documents.ts";
import { isOthers } from "./former.ts";
import { findMistaken, joinForms, type ShardForm } from "./forms.ts";
import { assertFree } from "./free-place.ts";

/** Superchunk lengths that are tried. */
const MAX_TRIES = 1000;

/** What is shown, and was. */
export interface KnownForms {
  readonly shown: readonly ShardForm[];
  readonly former: readonly ShardForm[];
  /** The superchunk length may be another one. */
  readonly isFree: boolean;
}

/**
 * The settings that an array can be shown with, and every form that its shards then may have.
 *
 * @throws UNSUPPORTED for what Zarr cannot hold as it is stored, and for shards that readers of former ones would take for these;
 * CONFLICT where something is in the way
 */
export async function admitForms(
  place: { readonly store: WritableStore; readonly path: string },
  settings: ArraySettings,
  { shown, former: past, isFree }: KnownForms,
): Promise<{ readonly settings: ArraySettings; readonly forms: readonly ShardForm[] }> {
  const known = joinForms(past, shown);
  const { store, path } = place;
  for (let tries = 0; ; tries++) {
    const chosen = { ...settings, superchunklen: settings.superchunklen + tries };
    const { forms } = new MirrorDocuments(place, chosen, layOutColumns(path, chosen));
    const clash = forms
      .map((form) => ({ form, former: findMistaken(form, known) }))
      .find(({ former }) => former !== undefined);
    if (clash?.former === undefined) {
      for (const { node } of forms) {
        if (shown.some((each) => each.node === node)) continue;
        const isFormer = known.some((each) => each.node === node);
        if (!isFormer || (await isOthers(store, path, node, known)))
          await assertFree(store, joinKey(path, node));
      }
      return { settings: chosen, forms: joinForms(known, forms) };
    }
    if (!isFree || tries >= MAX_TRIES)
      throw mistakenShards(store.describe(joinKey(path, clash.form.node)), clash.form, clash.former);
  }
}

function mistakenShards(path: string, form: ShardForm, former: ShardForm): SuperchunkError {
  const { node, capacity, item } = form;
  const way =
    node === ""
      ? `Choose another superchunklen than ${capacity}`
      : "Choose another superchunklen, or another name for the column";
  return new SuperchunkError(
    "UNSUPPORTED",
    `Zarr readers may still hold a zarr.json that says ${former.capacity} chunks of another kind for each of these shards, and would take the new ones for them. ${way}; or, when nobody reads, "superchunk unlink", change it, and "superchunk link --live"`,
    { path, field: node === "" ? "superchunklen" : "columns", expected: former.item, found: item },
  );
}
