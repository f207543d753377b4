/** The part of s3rver 3.7 that the tests use; it has no types of its own. */
declare module "s3rver" {
  interface NewObject {
    readonly bucket: string;
    readonly key: string;
    readonly content: Buffer | import("node:stream").Readable;
    readonly metadata: unknown;
  }
  export default class S3rver {
    constructor(options: Record<string, unknown>);
    run(): Promise<{ readonly port: number }>;
    /** Only while it runs. */
    readonly httpServer?: import("node:http").Server;
    readonly store: {
      getResourcePath(bucket: string, key: string, resource: string): string;
      putMetadata(bucket: string, key: string, metadata: unknown, md5: string): Promise<void>;
      putObject(object: NewObject): Promise<{ readonly size: number; readonly md5: string }>;
    };
    close(): Promise<void>;
  }
}
