/** The files of hash-wasm with one digest each, for which its own types have no names. */
declare module "hash-wasm/dist/*.umd.min.js" {
  const library: typeof import("hash-wasm");
  export default library;
}
