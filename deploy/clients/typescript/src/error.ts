// The error of all calls.

import type { ErrorBody } from "./types.js";

interface Details {
  requestId?: string;
  retryAfter?: number;
  cause?: unknown;
}

/** A response that is an error, or no response. */
export class HearthError extends Error {
  override readonly name = "HearthError";
  /** The status over HTTP. 0 if no node responded. */
  readonly status: number;
  /** A stable code, such as `not_found`; `no_response` without a response, `bad_response` if it is not of a node. */
  readonly code: string;
  readonly requestId: string | undefined;
  /** Seconds after which a repetition may succeed. */
  readonly retryAfter: number | undefined;
  /** The body of the response. `field` names the field at fault, `duplicate_of` the memory with the same text. */
  readonly body: Partial<ErrorBody>;
  /** Whether the write may have been done: the deadline ended its repetitions. Read before you repeat it. */
  mayBeDone = false;

  constructor(status: number, body: Partial<ErrorBody>, details: Details = {}) {
    const field = body.field ? `${body.field} ` : "";
    super(`${field}${body.message ?? "the response is not of a node"}`, { cause: details.cause });
    this.status = status;
    this.code = body.error ?? "bad_response";
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.body = body;
  }

  /** The error of a response. A proxy may have sent it, so its body may be no JSON. */
  static of({ status, headers }: Response, text: string): HearthError {
    const seconds = Number(headers.get("Retry-After") ?? NaN);
    const retryAfter = Number.isFinite(seconds) ? seconds : undefined;
    return new HearthError(status, parse(text), { retryAfter, requestId: headers.get("X-Request-Id") ?? undefined });
  }
}

function parse(text: string): Partial<ErrorBody> {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}
