/** The codec in a browser extension, whose pages have a policy of their own: a real one, loaded into Chromium. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { encode } from "superchunk/blosc";
import { FLAGS } from "./chromium.ts";
import { PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";
import { buildWorker } from "./pool.ts";

/** What extensions may add to their policy, and what a page with it can do. */
const POLICIES = [
  ["script-src 'self' 'wasm-unsafe-eval'", { pool: "5000 bytes", here: "5000 bytes" }],
  ["script-src 'self'", { pool: "UNSUPPORTED", here: "UNSUPPORTED" }],
] as const;

/** Decodes in a page of an extension, in it and in a pool of workers. */
export async function checkExtension(
  executablePath: string,
  bundle: (entry: string) => Promise<Uint8Array>,
  outcome: Outcome,
): Promise<void> {
  for (const [policy, expected] of POLICIES) {
    const folder = mkdtempSync(join(tmpdir(), "superchunk-extension-"));
    const profile = mkdtempSync(join(tmpdir(), "superchunk-profile-"));
    const manifest = {
      manifest_version: 3,
      name: "superchunk",
      version: "1",
      background: { service_worker: "pool-service.js" },
      content_security_policy: { extension_pages: policy },
    };
    writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest));
    writeFileSync(join(folder, "pool.html"), '<script type="module" src="pool-page.js"></script>');
    writeFileSync(join(folder, "pool-page.js"), await bundle("pool-page.ts"));
    writeFileSync(join(folder, "pool-service.js"), await bundle("pool-service.ts"));
    writeFileSync(join(folder, "blosc-worker.js"), await buildWorker());
    writeFileSync(join(folder, "chunk.blosc"), await encode(new Uint8Array(5000), { typesize: 4 }));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath,
      args: [...FLAGS, `--load-extension=${folder}`],
      ignoreDefaultArgs: ["--disable-extensions"],
    });
    context.setDefaultTimeout(PATIENCE.timeout);
    try {
      const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
      const page = await context.newPage();
      await page.goto(new URL("pool.html", worker.url()).href);
      await page.waitForFunction(() => window.poolTest !== undefined);
      const found = await page.evaluate(() => window.poolTest.tryPool());
      outcome.expect(`an extension with the policy ${policy}`, found, expected);
    } finally {
      await context.close();
      for (const each of [folder, profile]) rmSync(each, { recursive: true, force: true });
    }
  }
}
