/**
 * Builds the page that shows archives, for development: into `build/page`, which `serve` and `view` use if no package was
 * made. `--single FILE` makes a single file instead, which a browser can also open from a disk.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const source = join(root, "src", "page");

/** The markup, including its styles. */
export async function pageHtml() {
  const { code } = await transform(readFileSync(join(source, "style.css"), "utf8"), {
    loader: "css",
    minify: true,
    target: "es2022",
  });
  const html = readFileSync(join(source, "page.html"), "utf8");
  return html.replace("/*style*/", () => code.trim());
}

async function buildFolder() {
  const out = join(root, "build", "page");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  await build({
    entryPoints: { page: join(source, "main.ts"), "page-worker": join(source, "worker.ts") },
    outdir: out,
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    logLevel: "warning",
  });
  writeFileSync(join(out, "page.html"), await pageHtml());
}

/** Everything in one file, because browsers do not load modules from a disk. */
async function buildSingle(file) {
  const bundle = async (name) => {
    const { outputFiles } = await build({
      entryPoints: [join(source, `${name}.ts`)],
      bundle: true,
      minify: true,
      format: "iife",
      platform: "browser",
      target: "es2022",
      write: false,
      logLevel: "error",
      define: { "import.meta.url": '""' },
    });
    // Escapes text that would end the element early.
    return outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  };
  const [main, worker] = [await bundle("main"), await bundle("worker")];
  const scripts = `<script type="text/plain" id="worker-script">${worker}</script>\n<script>${main}</script>`;
  const html = await pageHtml();
  writeFileSync(
    file,
    html.replace(/<script type="module"[^>]*><\/script>/, () => scripts),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [option, file] = process.argv.slice(2);
  if (option === "--single") await buildSingle(file ?? "superchunk.html");
  else await buildFolder();
}
