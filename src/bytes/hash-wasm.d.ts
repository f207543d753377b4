/** The files of hash-wasm with one digest each, which its own types do not name. */
declare module "hash-wasm/dist/*.umd.min.js" {
  const library: typeof import("hash-wasm");
  export default library;
}
