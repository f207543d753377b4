/**
 * What a server says of what it cannot serve: no place on the machine, and no target of a link.
 *
 * Messages hold paths, targets of links and stored text, which no filter takes out for certain. So a client gets a
 * sentence that is made here from the code alone; the message itself is for the server's own log.
 */
import type { ErrorCode, SuperchunkError } from "../../errors.ts";
import type { ViewNode } from "../../view/view.ts";

/** A node of a view without the place of its archive. */
export type ServedNode = Omit<ViewNode, "source">;

/** What is wrong, by code. */
const SENTENCES: Readonly<Record<ErrorCode, string>> = {
  BAD_MAGIC: "a file of the archive is of another kind than its name says",
  TRUNCATED: "a file of the archive ends early",
  BAD_FIELD: "a field that the archive stores contradicts the rest of it",
  BAD_CHUNK: "a chunk of the archive cannot be decoded",
  CHECKSUM_MISMATCH: "bytes of the archive do not match their checksum",
  INCOMPLETE: "a part of the archive is missing",
  UNSAFE_PATH: "a name or a link in the archive leads out of it",
  UNSUPPORTED: "the archive stores this in a way that cannot be shown",
  NOT_FOUND: "something that the archive names is not there",
  BAD_ARGUMENT: "the request cannot be understood",
  CONFLICT: "the archive is being changed",
  STALE: "the archive was changed while it was read",
  READ_ONLY: "the server may not read the archive",
  LIMIT: "the archive goes past a limit of this server",
  NO_SPACE: "the server has no room",
  IO: "the storage of the archive failed",
};

/** Names that the formats give their files: these say where the damage is, and nothing of the machine. */
const OWN_NAME =
  /(?:^|[\\/])((?:data[\\/]|meta[\\/])?(?:__\d+(?:__)?\.(?:bin|blp)|sizes|storage|attributes|__attrs__|__rootdirs__|zarr\.json))$/;

/** An error as clients see it: the file by the format's own name, the chunk, the byte, and what is wrong. */
export function servedMessage({ code, details: { path, chunk, offset } }: SuperchunkError): string {
  const name = OWN_NAME.exec(path ?? "")?.[1];
  const where = [
    ...(name === undefined ? [] : [name.replaceAll("\\", "/")]),
    ...(chunk === undefined ? [] : [`chunk ${chunk}`]),
    ...(offset === undefined ? [] : [`byte ${offset}`]),
  ];
  return `${where.length === 0 ? "" : `${where.join(", ")}: `}${sentence(code)}`;
}

function sentence(code: ErrorCode | undefined): string {
  return `${code === undefined ? "it cannot be read" : SENTENCES[code]}; the server's messages say more`;
}

/** The nodes as clients see them. */
export function servedNodes(nodes: readonly ViewNode[]): ServedNode[] {
  return nodes.map(({ source: _, ...node }) =>
    node.error === undefined ? node : { ...node, error: sentence(node.code) },
  );
}
