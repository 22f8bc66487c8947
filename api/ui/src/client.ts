// Requests to the node that served the page. A request that can be repeated is repeated while the
// node does not respond or has no leader.

/** An error response, or no response. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

/** `rejected`: the key is no longer valid. */
export type Connection = "ok" | "no_leader" | "lost" | "rejected";

/** Milliseconds for which a request is repeated. */
const PATIENCE = 30_000;
const PAUSE = 500;
const REQUEST_TIMEOUT = 15_000;

type Listener = (connection: Connection) => void;
type Query = Record<string, string | number | boolean | null | undefined>;

/** A key, and what is known of the connection to the node. */
export class Client {
  connection: Connection = "ok";
  private listeners = new Set<Listener>();
  /** Log index of the last write: reads reflect it. */
  private minIndex = 0;

  constructor(readonly key: string) {}

  get isOperator(): boolean {
    return this.key.startsWith("op-");
  }

  watch(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  private set(connection: Connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    for (const listener of this.listeners) listener(connection);
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    return this.repeat<T>("GET", withQuery(path, query));
  }

  post<T>(path: string, body: unknown = {}): Promise<T> {
    return this.repeat<T>("POST", path, body);
  }

  patch<T>(path: string, body: unknown): Promise<T> {
    return this.repeat<T>("PATCH", path, body);
  }

  put<T>(path: string, body: unknown): Promise<T> {
    return this.repeat<T>("PUT", path, body);
  }

  delete<T>(path: string, body?: unknown): Promise<T> {
    return this.repeat<T>("DELETE", path, body);
  }

  /** Sends a request that failed without effect again. A write has one idempotency key throughout. */
  private async repeat<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method === "GET" && this.minIndex > 0) headers["X-Hearth-Min-Index"] = String(this.minIndex);
    if (method !== "GET") headers["Idempotency-Key"] = crypto.randomUUID();
    const request: RequestInit = { method, headers };
    if (body !== undefined) request.body = JSON.stringify(body);
    const until = Date.now() + PATIENCE;
    for (;;) {
      const result = await this.send<T>(path, request).catch((error: unknown) => error);
      if (!(result instanceof RequestError)) {
        if (result instanceof Error) throw result;
        return result as T;
      }
      // A lost write without a response may be done: only a refusal is certain.
      const canRepeat = result.status === 503 || (result.status === 0 && method === "GET");
      if (!canRepeat || Date.now() > until) throw result;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  private async send<T>(path: string, request: RequestInit): Promise<T> {
    let response: Response;
    try {
      const signal = AbortSignal.timeout(REQUEST_TIMEOUT);
      response = await fetch(path, { ...request, signal, credentials: "omit" });
    } catch {
      this.set("lost");
      throw new RequestError(0, "no_response", "The node does not respond.");
    }
    const text = await response.text();
    const value: unknown = text === "" ? null : json(text);
    if (response.ok) {
      this.set("ok");
      if (request.method !== "GET") {
        this.minIndex = Math.max(this.minIndex, Number(response.headers.get("X-Hearth-Index") ?? 0));
      }
      return value as T;
    }
    const error = (value ?? {}) as { error?: string; message?: string; field?: string | null };
    const isWithoutLeader = response.status === 503 && error.error === "no_leader";
    this.set(response.status === 401 ? "rejected" : isWithoutLeader ? "no_leader" : "ok");
    const message = error.message ?? `HTTP status ${response.status}`;
    throw new RequestError(response.status, error.error ?? "unknown", message, error.field ?? null);
  }

  /** Opens a stream of events. Its reader ends it through `signal`. */
  async stream(path: string, lastId: string | null, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(path, { headers, signal, credentials: "omit" });
    if (!response.ok || !response.body) {
      const error = json(await response.text()) as { error?: string; message?: string } | null;
      throw new RequestError(response.status, error?.error ?? "unknown", error?.message ?? "no stream");
    }
    return response.body;
  }
}

export function withQuery(path: string, query: Query): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parts.set(name, String(value));
  }
  const text = parts.toString();
  return text === "" ? path : `${path}?${text}`;
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
