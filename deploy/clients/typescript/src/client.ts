// The operations of the client. Arguments and results are the JSON of docs/api.md.

import { HearthError } from "./error.js";
import { Nodes, type CallOptions, type ClientOptions, type Parts } from "./nodes.js";
import type {
  AnchoredMemory, Boost, ContextRequest, Deleted, FeedbackSignal, Filter, GetQuery, HotContext, ListQuery,
  LoadedContext, Memory, MemoryChanges, MemoryPage, NewMemories, NewMemory, NotificationView, Scored, Search,
  SearchResult, Supersession, VersionList, VersionView, WithNotificationsBatch, WithNotificationsFeedbackEffect,
  WithNotificationsMemoryOrDeleted,
} from "./types.js";

export interface WriteOptions extends CallOptions {
  /** By default a random key: each write is done once. */
  idempotencyKey?: string;
}

export interface ConditionalOptions extends WriteOptions {
  /** The write is done only while the memory has this `ETag`. Otherwise the call fails with `condition_failed`. */
  etag?: string;
}

export interface CreateOptions extends ConditionalOptions {
  /** With an `external_id`: the call fails with `condition_failed` if there is a memory with it already. */
  isNew?: boolean;
}

export interface DeleteOptions extends ConditionalOptions {
  /** The text is wrong: captures and imports do not bring it back. */
  reject?: boolean;
}

/** The `etag` of the response, as a field of the memory that it contains. */
export interface Tagged {
  etag?: string;
}

export type WrittenMemory = Memory & Tagged & { trigger_notifications?: NotificationView[] };

export type ListFields = Omit<ListQuery, "filter"> & { filter?: Filter };

export class Client {
  readonly #nodes: Nodes;

  constructor(options: ClientOptions = {}) {
    this.#nodes = new Nodes(options);
  }

  /** With the `external_id` of a present memory, replaces that. */
  create(memory: NewMemory, options: CreateOptions = {}): Promise<WrittenMemory> {
    return this.#writeMemory("POST", "/agent/nodes", memory, options);
  }

  /** Creates up to 50 memories, all or none. */
  createBatch(batch: NewMemories, options: WriteOptions = {}): Promise<WithNotificationsBatch> {
    return this.#write("POST", "/agent/nodes/batch", batch, options);
  }

  get(id: string, query: GetQuery = {}, options: CallOptions = {}): Promise<AnchoredMemory & Tagged> {
    return this.request("GET", pathOf(id), { query }, options);
  }

  /** The memory with this id of the client, in the namespace or in the key's own one. */
  async getByExternalId(
    externalId: string, namespace?: string, options: CallOptions = {},
  ): Promise<Memory | undefined> {
    const query = { external_id: externalId, namespace };
    const { items } = await this.request<MemoryPage>("GET", "/agent/nodes", { query }, options);
    return items[0];
  }

  update(id: string, changes: MemoryChanges, options: ConditionalOptions = {}): Promise<WrittenMemory> {
    return this.#writeMemory("PATCH", pathOf(id), changes, options);
  }

  delete(id: string, options: DeleteOptions = {}): Promise<Deleted> {
    const { reject, ...others } = options;
    return this.#write("DELETE", reject ? `${pathOf(id)}?reject=true` : pathOf(id), undefined, others);
  }

  /** All memories that match, page by page. By default the oldest first, so that each is returned once. */
  async *list(fields: ListFields = {}, options: CallOptions = {}): AsyncGenerator<Memory, void, void> {
    let cursor: string | null = null;
    do {
      const query: object = { sort: "created_at", order: "asc", page_size: 100, ...fields, cursor };
      const page: MemoryPage = await this.request("GET", "/agent/nodes", { query }, options);
      yield* page.items;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /** The memories that match, with the best one first. */
  search(search: Search, options: CallOptions = {}): Promise<SearchResult[]> {
    return this.request("POST", "/agent/search", { body: search, isRead: true }, options);
  }

  /** Pinned memories first, then by heat. */
  hotContext(fields: HotContext = {}, options: CallOptions = {}): Promise<Scored[]> {
    return this.request("POST", "/agent/hot-context", { body: fields, isRead: true }, options);
  }

  /** A text for the prompt of an agent's turn, within a budget of tokens. */
  context(fields: ContextRequest = {}, options: CallOptions = {}): Promise<LoadedContext> {
    return this.request("POST", "/agent/context", { body: fields, isRead: true }, options);
  }

  feedback(
    id: string, feedback: FeedbackSignal, options: WriteOptions = {},
  ): Promise<WithNotificationsFeedbackEffect> {
    return this.#write("POST", `${pathOf(id)}/feedback`, feedback, options);
  }

  boost(id: string, boost: Boost = {}, options: WriteOptions = {}): Promise<WrittenMemory> {
    return this.#writeMemory("POST", `${pathOf(id)}/boost`, boost, options);
  }

  /** States that another memory replaces this one. */
  supersede(id: string, supersession: Supersession, options: WriteOptions = {}): Promise<WrittenMemory> {
    return this.#writeMemory("POST", `${pathOf(id)}/supersede`, supersession, options);
  }

  /** The texts that the memory had, with the newest first. */
  async versions(id: string, options: CallOptions = {}): Promise<VersionView[]> {
    const { versions } = await this.request<VersionList>("GET", `${pathOf(id)}/versions`, {}, options);
    return versions;
  }

  /** Sends another request of docs/api.md. The path follows `/api/v1`. */
  async request<T>(method: string, path: string, parts: Parts = {}, options: CallOptions = {}): Promise<T> {
    const { body, etag } = await this.#nodes.send<T>(method, path, parts, options);
    return etag === undefined ? body : { ...body, etag };
  }

  async #writeMemory(
    method: string, path: string, body: unknown, options: CreateOptions,
  ): Promise<WrittenMemory> {
    const memory = await this.#write<WithNotificationsMemoryOrDeleted & Tagged>(method, path, body, options);
    // The client repeated a write that was done before, and the memory was deleted in between, or is too long.
    if ("deleted" in memory) {
      const message = `the memory ${memory.id} was deleted after this write`;
      throw new HearthError(404, { error: "not_found", message });
    }
    return "too_long" in memory ? this.get(memory.id, {}, options) : memory;
  }

  #write<T>(method: string, path: string, body: unknown, options: CreateOptions): Promise<T> {
    const { idempotencyKey, etag, isNew, ...call } = options;
    return this.request(method, path, { body, idempotencyKey, etag, isNew }, call);
  }
}

function pathOf(id: string): string {
  return `/agent/nodes/${encodeURIComponent(id)}`;
}
