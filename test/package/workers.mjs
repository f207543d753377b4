/**
 * What a program of Cloudflare's Workers does with the package: decodes chunks of every compressor, and encodes with
 * all but zstd.
 */
import { decode, encode } from "superchunk/blosc";

const hash = async (bytes) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** Compiles the smallest possible module, which the host refuses. */
const compiles = () => WebAssembly.compile(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)).then(() => true);

export default {
  async fetch(request) {
    const form = await request.formData();
    const data = new Uint8Array(await form.get("data").arrayBuffer());
    const chunks = {};
    for (const cname of ["blosclz", "lz4", "lz4hc", "snappy", "zlib"]) {
      const chunk = await encode(data, { cname, typesize: 4 });
      if ((await hash(await decode(chunk))) !== (await hash(data))) throw new Error(`${cname} differs`);
      chunks[cname] = await hash(chunk);
    }
    const given = await decode(new Uint8Array(await form.get("zstd").arrayBuffer()));
    const refused = await encode(data, { cname: "zstd" }).catch(({ code, details }) => [code, details.field]);
    return Response.json({
      compiles: await compiles().catch(() => false),
      chunks,
      zstd: (await hash(given)) === (await hash(data)),
      refused,
    });
  },
};
