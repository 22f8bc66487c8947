// Sends requests to the nodes of a cluster. A request that a node does not serve is repeated on the next one.

import { HearthError } from "./error.js";
import { VERSION } from "./types.js";

const TIMEOUT_MS = 30_000;
/** A node gets at least this time, if the deadline is later. */
const ATTEMPT_MS = 1_000;
const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 2_000;
/** The write may have been done. Its idempotency key makes it safe to repeat. */
const UNKNOWN = [502, 504];
/** Causes of failures before a request was sent. */
const UNSENT = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
/** The authority is missing or wrong, or the certificate expired. A repetition cannot change that. */
const CERTIFICATE = /CERT|UNABLE_TO_/;

/** The part of the global `fetch` that the client uses. */
export type Fetch = (url: string, init: FetchInit) => Promise<Response>;

export interface FetchInit {
  method: string;
  headers: Headers;
  body?: string;
  signal: AbortSignal;
}

export interface ClientOptions {
  /** Addresses of the nodes. By default those of the variable HEARTH_URL, with commas between them. */
  urls?: string | string[];
  /** By default the variable HEARTH_API_KEY. */
  apiKey?: string;
  /** PEM file of the certificate authority, for Node.js. By default HEARTH_CA, or the authorities of the system. */
  ca?: string;
  /** Sends the requests in place of the global `fetch`. `ca` is not used then. */
  fetch?: Fetch;
  /** The namespace of new memories, if they have none. Searches boost its memories. By default that of the key. */
  namespace?: string;
  /** Headers of all requests, such as `X-Timezone`. */
  headers?: Record<string, string>;
  /** Time for a call with all its repetitions. By default 30,000. */
  timeoutMs?: number;
}

export interface CallOptions {
  /** Ends the call at once, with the reason of the signal. */
  signal?: AbortSignal;
  timeoutMs?: number;
  headers?: Record<string, string>;
}

/** What a request consists of, besides its method and path. */
export interface Parts {
  /** Lists are repeated parameters. Objects are JSON. */
  query?: object;
  body?: unknown;
  /** Whether a `POST` changes nothing. A `GET` is always a read. */
  isRead?: boolean;
  /** By default a random key: each write is done once. */
  idempotencyKey?: string;
  /** The write is done only while the memory has this `ETag`. */
  etag?: string;
  isNew?: boolean;
}

export interface Reply<T> {
  body: T;
  etag?: string;
}

export class Nodes {
  readonly #urls: string[];
  readonly #options: ClientOptions;
  readonly #ca: string | undefined;
  readonly #apiKey: string;
  #fetch: Fetch | undefined;
  /** The node that served last. */
  #current = 0;
  /** The highest log index of all responses. Reads return the state at this index, or a later one. */
  #index = 0;

  constructor(options: ClientOptions) {
    // Some runtimes have no `process`.
    const environment = globalThis.process?.env ?? {};
    const urls = options.urls ?? environment.HEARTH_URL ?? "";
    const list = typeof urls === "string" ? urls.split(",") : urls;
    this.#urls = list.map((url) => url.trim().replace(/\/+$/, "")).filter((url) => url !== "");
    this.#apiKey = options.apiKey ?? environment.HEARTH_API_KEY?.trim() ?? "";
    if (this.#urls.length === 0) throw new TypeError("urls are required: set HEARTH_URL");
    const wrong = this.#urls.find((url) => !/^https?:\/\//.test(url));
    if (wrong !== undefined) throw new TypeError(`${wrong} must begin with https://`);
    if (this.#apiKey === "") throw new TypeError("an API key is required: set HEARTH_API_KEY");
    this.#ca = options.ca ?? environment.HEARTH_CA;
    this.#options = options;
  }

  /** Sends a request until a node serves it, or until the deadline. */
  async send<T>(method: string, path: string, parts: Parts, call: CallOptions): Promise<Reply<T>> {
    const timeoutMs = call.timeoutMs ?? this.#options.timeoutMs ?? TIMEOUT_MS;
    const deadline = performance.now() + timeoutMs;
    const target = `/api/v1${path}${queryOf(parts.query)}`;
    const body = parts.body === undefined ? undefined : JSON.stringify(parts.body);
    const init = { method, headers: this.#headers(method, parts, call), body };
    this.#fetch ??= await this.#createFetch();
    let mayBeDone = false;
    for (let attempts = 1; ; attempts += 1) {
      call.signal?.throwIfAborted();
      const node = this.#current;
      const remaining = deadline - performance.now();
      // A node that hangs gets half of the remaining time.
      const limit = Math.min(remaining, Math.max(ATTEMPT_MS, remaining / 2));
      try {
        const response = await attempt(this.#fetch, `${this.#urls[node]}${target}`, init, limit, call.signal);
        this.#current = node;
        this.#index = Math.max(this.#index, Number(response.headers.get("X-Hearth-Index")));
        return { body: response.body as T, etag: response.headers.get("ETag") ?? undefined };
      } catch (error) {
        call.signal?.throwIfAborted();
        const failure = error instanceof HearthError ? error : noResponse(error);
        mayBeDone ||= isOutcomeUnknown(failure);
        const pause = this.#pause(attempts, failure);
        if (pause === undefined) throw failure;
        if (performance.now() + pause >= deadline) {
          failure.mayBeDone = mayBeDone && init.headers.has("Idempotency-Key");
          throw failure;
        }
        this.#current = (node + 1) % this.#urls.length;
        await sleep(pause, call.signal);
      }
    }
  }

  /** Other runtimes than Node.js do not load its modules. */
  async #createFetch(): Promise<Fetch> {
    if (this.#options.fetch) return this.#options.fetch;
    if (this.#ca) return (await import("./authority.js")).fetchWithAuthority(this.#ca);
    return (url, init) => fetch(url, init);
  }

  #headers(method: string, parts: Parts, call: CallOptions): Headers {
    const headers = new Headers({ "User-Agent": `hearth-memory/${VERSION}` });
    if (this.#options.namespace !== undefined) headers.set("X-Namespace", this.#options.namespace);
    for (const [name, value] of Object.entries({ ...this.#options.headers, ...call.headers })) headers.set(name, value);
    headers.set("Authorization", `Bearer ${this.#apiKey}`);
    if (parts.body !== undefined) headers.set("Content-Type", "application/json");
    if (parts.etag !== undefined) headers.set("If-Match", parts.etag);
    if (parts.isNew) headers.set("If-None-Match", "*");
    if (method === "GET" || parts.isRead) {
      headers.set("X-Hearth-Min-Index", String(this.#index));
    } else {
      headers.set("Idempotency-Key", parts.idempotencyKey ?? crypto.randomUUID());
    }
    return headers;
  }

  /** Milliseconds until the next attempt. Undefined if a repetition cannot succeed. */
  #pause(attempts: number, { status, retryAfter, cause }: HearthError): number | undefined {
    const hasTriedAll = attempts >= this.#urls.length;
    const isRepeatable = status === 0
      ? !(hasTriedAll && CERTIFICATE.test(codeOf(cause)))
      : status === 503 || UNKNOWN.includes(status) || (status === 429 && retryAfter !== undefined);
    if (!isRepeatable) return undefined;
    const backoff = Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** attempts);
    // A limit with status 429 may hold on all nodes. With status 503, another node may be able to serve the request.
    const isRequired = status === 429 || attempts % this.#urls.length === 0;
    return backoff + (isRequired ? (retryAfter ?? 0) * 1000 : 0);
  }
}

/** Sends a request to one node. Fails with a `HearthError` if the node responds with an error. */
async function attempt(
  fetch: Fetch, url: string, init: Omit<FetchInit, "signal">, limit: number, caller?: AbortSignal,
) {
  // `AbortSignal.any` would do the same, but some releases of Node.js never free what it adds to a signal.
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error(`nothing in ${Math.ceil(limit)} ms`)), limit);
  const abort = () => controller.abort(caller?.reason);
  caller?.addEventListener("abort", abort);
  try {
    const response = await fetch(url, { ...init, signal: controller.signal });
    const text = await response.text();
    if (!response.ok) throw HearthError.of(response, text);
    return { body: parse(response.status, text), headers: response.headers };
  } finally {
    clearTimeout(timer);
    caller?.removeEventListener("abort", abort);
  }
}

function parse(status: number, text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new HearthError(status, {}, { cause });
  }
}

function queryOf(query: object = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const item of Array.isArray(value) ? value : [value]) {
      parameters.append(name, typeof item === "object" ? JSON.stringify(item) : String(item));
    }
  }
  return parameters.size > 0 ? `?${parameters}` : "";
}

function noResponse(error: unknown): HearthError {
  // The global `fetch` hides the reason in the cause.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = `no response: ${cause instanceof Error ? cause.message : cause}`;
  return new HearthError(0, { error: "no_response", message }, { cause });
}

/** The code of an error of Node.js, such as `ECONNREFUSED`. */
function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "";
}

function isOutcomeUnknown({ status, cause }: HearthError): boolean {
  const isUnsent = UNSENT.test(codeOf(cause)) || CERTIFICATE.test(codeOf(cause));
  return UNKNOWN.includes(status) || (status === 0 && !isUnsent);
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
