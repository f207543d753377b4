/** Checks that were made, and failures. */
export class Outcome {
  checks = 0;
  readonly failures: string[] = [];

  expect(name: string, found: unknown, expected: unknown): void {
    this.checks++;
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    if (a !== b) this.failures.push(`${name}: expected ${b}, found ${a}`);
  }

  async attempt(name: string, check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      this.checks++;
      this.failures.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
