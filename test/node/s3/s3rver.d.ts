/** The part of s3rver 3.7 that the tests use; it has no types of its own. */
declare module "s3rver" {
  type Content = Buffer | import("node:stream").Readable;
  interface NewObject {
    readonly bucket: string;
    readonly key: string;
    readonly content: Content;
    readonly metadata: Readonly<Record<string, unknown>>;
  }
  /** What holds the objects. */
  interface Store {
    putObject(object: NewObject): Promise<{ readonly size: number; readonly md5: string }>;
  }
  export default class S3rver {
    constructor(options: Record<string, unknown>);
    run(): Promise<unknown>;
    /** Answers a request. */
    callback(): (
      request: import("node:http").IncomingMessage,
      response: import("node:http").ServerResponse,
    ) => Promise<unknown>;
    /** Only while it runs. */
    readonly httpServer?: import("node:http").Server;
    readonly logger: { silent: boolean };
    store: Store;
    readonly context: { store: Store };
    close(): Promise<void>;
  }
}

declare module "s3rver/lib/models/object.js" {
  export default class S3Object {
    constructor(bucket: string, key: string, content: null, metadata: Readonly<Record<string, unknown>>);
    content: (Buffer & { destroy(): void }) | null;
    /** The first and the last byte of what was asked for. */
    range?: { readonly start: number; readonly end: number };
  }
}
