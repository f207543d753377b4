/** How S3 is reached. Types only, apart from those of the SDK, which need not be installed. */

/** How a bucket is reached. What is not given is found as the AWS tools find it: environment, profiles, roles. */
export interface S3ClientOptions {
  /** Address of an S3-compatible server; default AWS, or `AWS_ENDPOINT_URL_S3`. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  /** Requests are not signed: for public buckets. */
  readonly anonymous?: boolean | undefined;
  /** In place of those that are found. Never shown in any message. */
  readonly credentials?:
    | { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string }
    | undefined;
  /** Tries of one request; default 5. */
  readonly maxAttempts?: number | undefined;
}
