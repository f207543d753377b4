/** The part of s3rver 3.7 that the tests use; it has no types of its own. */
declare module "s3rver" {
  export default class S3rver {
    constructor(options: Record<string, unknown>);
    run(): Promise<{ readonly port: number }>;
    /** Since it runs. */
    readonly httpServer?: import("node:http").Server;
    close(): Promise<void>;
  }
}
