/** How Icechunk repositories are reached, and how Icechunk spells locations. Must not know the package. */
import type { Container, ContainerCredentials } from "../../references/index.ts";

/** How a repository is reached. */
export interface RepositoryOptions {
  /** Containers that may be read, and that a new repository is made with. */
  readonly containers: Iterable<Container>;
  /** By the names that containers call them. Given to Icechunk, never written into a repository. */
  readonly credentials?: Readonly<Record<string, ContainerCredentials>> | undefined;
  /** For repositories on S3: an S3-compatible server, its region, and reading without credentials. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly anonymous?: boolean | undefined;
}

/**
 * A location as Icechunk has it. Those of local files are addresses there: it decodes what stands behind `file://`
 * (Icechunk 2.2), where fsspec does not.
 */
export function toIcechunkLocation(location: string): string {
  if (!location.startsWith("file://")) return location;
  return `file://${location.slice("file://".length).split("/").map(encodeURIComponent).join("/")}`;
}

/** The same as references have it elsewhere. */
export function fromIcechunkLocation(location: string): string {
  if (!location.startsWith("file://")) return location;
  return `file://${location.slice("file://".length).split("/").map(decodeURIComponent).join("/")}`;
}

/** Icechunk 2.2 finds no container whose prefix has encoded characters: then it is that of a folder above. */
export function toIcechunkPrefix({ prefix }: Pick<Container, "prefix">): string {
  let plain = prefix;
  while (toIcechunkLocation(plain) !== plain && plain !== "file:///")
    plain = plain.slice(0, plain.lastIndexOf("/", plain.length - 2) + 1);
  return plain;
}
