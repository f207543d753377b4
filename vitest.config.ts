import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/interop/**", "test/browser/**"],
    expect: { requireAssertions: true },
    // No test is timed: these only end what hangs, also on busy processors and a disk that takes long to sync.
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
  },
});
