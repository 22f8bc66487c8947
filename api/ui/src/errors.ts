/** An error response, or no response: then the status is 0. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field: string | null = null,
    /** Seconds after which the node may have room. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}
