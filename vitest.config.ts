import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/interop/**", "test/browser/**"],
    expect: { requireAssertions: true },
    // No test is timed: these only end what hangs, also on two busy processors.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
