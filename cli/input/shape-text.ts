/** A shape as it is typed. */
import { InvalidArgumentError } from "commander";

/** `1000,256` or `1000x256`. */
export function parseShape(text: string): readonly number[] {
  const shape = text.split(/[,x]/).map((part) => part.trim());
  if (!shape.every((part) => /^\d+$/.test(part) && Number.isSafeInteger(Number(part)))) {
    throw new InvalidArgumentError('Expected whole numbers with commas between, for example "1000,256".');
  }
  return shape.map(Number);
}
