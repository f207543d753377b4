/** The line of Python that opens the Zarr that a command made. */

/** What xarray finds at a place: a single array, a group of arrays, a hierarchy of groups, or a group that it may refuse. */
export type ZarrShape = "array" | "dataset" | "tree" | "group";

/** The shape of a hierarchy, from the paths of its nodes. */
export function zarrShapeOf(nodes: readonly string[]): ZarrShape {
  if (nodes.every((node) => node === "")) return "array";
  return nodes.some((node) => node.includes("/")) ? "tree" : "dataset";
}

/** The line of Python that opens Zarr: a table as a dataset, a folder as a tree. xarray cannot open an array without a group. */
export function openingZarr(place: string, shape: ZarrShape, isRectilinear = false): string {
  // zarr-python takes these characters in a text for parts of an address.
  const isOdd = /[#?]|::/.test(place) && !/^\w+:\/\//.test(place);
  const at = isOdd ? `zarr.storage.LocalStore(${JSON.stringify(place)})` : JSON.stringify(place);
  const settings = isRectilinear ? 'zarr.config.set({"array.rectilinear_chunks": True}); ' : "";
  const first = isOdd || isRectilinear ? `import zarr; ${settings}` : "";
  if (shape === "array" || shape === "group")
    return `${first || "import zarr; "}data = zarr.open_${shape}(${at}, mode="r")`;
  const call = shape === "dataset" ? `open_zarr(${at})` : `open_datatree(${at}, engine="zarr")`;
  return `${first}import xarray; data = xarray.${call}`;
}
