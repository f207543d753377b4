/** The line that opens the Zarr that a command made, in Python. */

/** What lies at a place, for xarray: a single array, a group of arrays, or a hierarchy with groups in it. */
export type ZarrShape = "array" | "dataset" | "tree";

/** What a hierarchy with these nodes is, by their paths below its root. */
export function zarrShapeOf(nodes: readonly string[]): ZarrShape {
  if (nodes.every((node) => node === "")) return "array";
  return nodes.some((node) => node.includes("/")) ? "tree" : "dataset";
}

/** The line of Python that opens Zarr: a table is a dataset, a folder a tree; xarray opens no array without a group. */
export function openingZarr(place: string, shape: ZarrShape, isRectilinear = false): string {
  const first = isRectilinear ? 'import zarr; zarr.config.set({"array.rectilinear_chunks": True}); ' : "";
  const at = JSON.stringify(place);
  if (shape === "array")
    return `${first}${first === "" ? "import zarr; " : ""}data = zarr.open_array(${at}, mode="r")`;
  const call = shape === "dataset" ? `open_zarr(${at})` : `open_datatree(${at}, engine="zarr")`;
  return `${first}import xarray; data = xarray.${call}`;
}
