// Requests to the node that served the page. What can be repeated without doing it twice is repeated
// while the node does not respond, has no leader, or has no room.

import { RequestError } from "./errors";
import { Events } from "./events";

/** `rejected`: the key is no longer valid. */
export type Connection = "ok" | "no_leader" | "lost" | "rejected";

/** Milliseconds for which a request is repeated, and the pauses before. */
const PATIENCE = 30_000;
const PAUSE = 500;
const PAUSE_MAX = 5_000;
/** Milliseconds between two looks at a node that does not respond. */
const PROBE_PAUSE = 2_000;
/** Milliseconds that a node may take: for reads, for writes, and for operations on the cluster. */
const READ_TIMEOUT = 15_000;
const WRITE_TIMEOUT = 35_000;
export const OPERATION_TIMEOUT = 65_000;

/** A path whose values cannot lead to another one: some come from the address of the page. */
export function at(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  const encoded = values.map((value) => {
    // Browsers resolve these, encoded or not.
    if (/^\.{1,2}$/.test(String(value))) throw new Error(`there is nothing of the name ${value}`);
    return encodeURIComponent(value);
  });
  return String.raw({ raw: parts }, ...encoded);
}

type Listener = (connection: Connection) => void;
type Query = Record<string, string | number | boolean | null | undefined>;

interface Call {
  method: string;
  path: string;
  body?: unknown;
  /** Whether it reads: then it reflects the last write. */
  isRead?: boolean;
  /** Whether it may be sent again although the node may have done it. */
  isRepeatable?: boolean;
  /** Whether it takes an idempotency key: then it is done once, however often it is sent. */
  isOnce?: boolean;
  timeout?: number;
  signal?: AbortSignal;
}

/** A key and the state of the connection. */
export class Client {
  connection: Connection = "ok";
  readonly events = new Events(this);
  private listeners = new Set<Listener>();
  private ended = new AbortController();
  /** Log index of the last write: reads reflect it. */
  private minIndex = 0;

  constructor(readonly key: string) {}

  get isOperator(): boolean {
    return this.key.startsWith("op-");
  }

  /** Ends all requests and the stream. */
  close(): void {
    this.listeners.clear();
    this.ended.abort();
  }

  watch(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private set(connection: Connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    for (const listener of this.listeners) listener(connection);
    if (connection === "lost") void this.awaitNode();
  }

  /** Waits until the node responds again. What failed meanwhile is then loaded again. */
  private async awaitNode(): Promise<void> {
    while (this.connection === "lost" && !this.ended.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, PROBE_PAUSE));
      const signal = AbortSignal.any([this.ended.signal, AbortSignal.timeout(READ_TIMEOUT)]);
      const isReady = await fetch("/readyz", { signal, credentials: "omit" }).then((response) => response.ok, () => false);
      if (isReady && this.connection === "lost") this.set("ok");
    }
  }

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.call<T>({ method: "GET", path: withQuery(path, query), isRead: true, isRepeatable: true, ...(signal && { signal }) });
  }

  /** A POST that changes nothing. */
  ask<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    return this.call<T>({ method: "POST", path, body, isRead: true, isRepeatable: true, signal });
  }

  /** A search: each one warms what it returns, so it is not sent again. */
  search<T>(body: unknown, signal: AbortSignal): Promise<T> {
    return this.call<T>({ method: "POST", path: "/api/v1/agent/search", body, isRead: true, signal });
  }

  /** A write that takes an idempotency key: of one memory, of a batch, or a new trigger. */
  write<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
    return this.call<T>({ method, path, body, isOnce: true });
  }

  /** Another write. If its response is lost, it may be done. */
  act<T>(method: string, path: string, body?: unknown, timeout = WRITE_TIMEOUT): Promise<T> {
    return this.call<T>({ method, path, body, timeout });
  }

  private async call<T>(call: Call): Promise<T> {
    const headers = this.headers();
    if (call.body !== undefined) headers["Content-Type"] = "application/json";
    if (call.isRead && this.minIndex > 0) headers["X-Hearth-Min-Index"] = String(this.minIndex);
    if (call.isOnce) headers["Idempotency-Key"] = randomId();
    const until = Date.now() + PATIENCE;
    for (;;) {
      try {
        return await this.send<T>(call, headers);
      } catch (error) {
        if (!(error instanceof RequestError) || Date.now() > until) throw error;
        // A response 503 or 429 means that nothing happened. Without a response, it may have.
        const isWaiting = error.status === 503 || (error.status === 429 && error.retryAfter !== null);
        const isUnknown = error.status === 0 || error.status === 504;
        if (!isWaiting && !(isUnknown && (call.isRepeatable || call.isOnce))) {
          throw isUnknown && !call.isRead ? new RequestError(error.status, error.code, `${error.message} It may be done: look before you repeat it.`) : error;
        }
        const pause = Math.min(PAUSE_MAX, error.retryAfter === null ? PAUSE : 1000 * error.retryAfter);
        await new Promise((resolve) => setTimeout(resolve, pause));
        if (call.signal?.aborted || this.ended.signal.aborted) throw error;
      }
    }
  }

  /** Why the node should get no requests; nothing if it should. */
  async unready(signal: AbortSignal): Promise<string[]> {
    const response = await fetch("/readyz", { signal, credentials: "omit" });
    const lines = response.ok ? [] : (await response.text()).split("\n");
    return lines.flatMap((line) => (line.startsWith("[-] ") ? [line.slice(4)] : []));
  }

  /** The days of "yesterday" and of filters are those of the person. */
  private headers(): Record<string, string> {
    return { Authorization: `Bearer ${this.key}`, "X-Timezone": Intl.DateTimeFormat().resolvedOptions().timeZone };
  }

  private async send<T>(call: Call, headers: Record<string, string>): Promise<T> {
    const wanted = AbortSignal.any([this.ended.signal, ...(call.signal ? [call.signal] : [])]);
    const timeout = AbortSignal.timeout(call.timeout ?? (call.isRead ? READ_TIMEOUT : WRITE_TIMEOUT));
    const request: RequestInit = { method: call.method, headers, credentials: "omit", signal: AbortSignal.any([wanted, timeout]) };
    if (call.body !== undefined) request.body = JSON.stringify(call.body);
    let response: Response;
    let text: string;
    try {
      response = await fetch(call.path, request);
      text = await response.text();
    } catch (error) {
      if (wanted.aborted) throw error;
      this.set("lost");
      throw new RequestError(0, "no_response", "The node does not respond.");
    }
    const value = json(text);
    if (response.ok) {
      this.set("ok");
      if (!call.isRead) {
        this.minIndex = Math.max(this.minIndex, Number(response.headers.get("X-Hearth-Index") ?? 0));
      }
      return value as T;
    }
    const error = errorOf(response, value);
    this.set(error.status === 401 ? "rejected" : error.code === "no_leader" ? "no_leader" : "ok");
    throw error;
  }

  /** Opens the stream of events. Its reader ends it through `signal`. */
  async stream(path: string, lastId: string | null, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const headers = { ...this.headers(), ...(lastId && { "Last-Event-ID": lastId }) };
    const response = await fetch(path, { headers, signal: AbortSignal.any([signal, this.ended.signal]), credentials: "omit" });
    if (response.ok && response.body) {
      this.set("ok");
      return response.body;
    }
    if (response.status === 401) this.set("rejected");
    throw errorOf(response, json(await response.text()));
  }
}

function errorOf(response: Response, value: unknown): RequestError {
  const error = (value ?? {}) as { error?: string; message?: string; field?: string | null };
  const after = response.headers.get("Retry-After");
  return new RequestError(
    response.status,
    error.error ?? "unknown",
    error.message ?? `HTTP status ${response.status}`,
    error.field ?? null,
    after === null ? null : Number(after),
  );
}

/** 128 random bits. `crypto.randomUUID` exists on secure pages only, and operators use plain HTTP. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function withQuery(path: string, query: Query): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parts.set(name, String(value));
  }
  const text = parts.toString();
  return text === "" ? path : `${path}?${text}`;
}

function json(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
