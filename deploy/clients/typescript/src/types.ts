// The types of the operations that the client offers. generate.mjs writes them from docs/openapi.json.

/** Version of the interface. */
export const VERSION = "0.9.0";

/** The query of `get_memory`. */
export interface GetQuery {
  /** Adds the anchor: the heat from which it cools, and since when. */
  anchor?: boolean;
  /** The text that it had at this time. The other fields are those of now. */
  as_of?: string;
}

/** The query of `list_memories`. */
export interface ListQuery {
  /** Clamped to 1 to 100. */
  page_size?: number;
  memory_type?: MemoryType;
  /** `*` is all. */
  namespace?: string;
  pinned?: boolean;
  flagged?: boolean;
  /** Only memories in quarantine, which only admins see. */
  quarantined?: boolean;
  /** Only memories that are at least so hot. */
  min_heat?: number;
  /** Only memories created at this time or later. A day is one of the time zone in `X-Timezone`. */
  time_from?: string;
  /** Only memories created at this time or earlier, or on this day. */
  time_to?: string;
  /** Only memories that hold at this time. */
  as_of?: string;
  /** Only memories of this namespace and those below it: names are paths with `/`. */
  namespace_prefix?: string;
  /** Only the memory that a client has given this id, in the namespace of the request. */
  external_id?: string;
  /** Conditions combined by and, or and not, as JSON. */
  filter?: string;
  /** Default `all`. */
  tier?: TierFilter;
  /** Name of the key that created the memory. */
  agent?: string;
  key_id?: string;
  /** Program that created it, with or without its version. */
  client?: string;
  tool?: string;
  /** Tags that a memory must have, with commas between them. */
  tags?: string;
  /** A tag that a memory must have, with its commas. May be repeated. */
  tag?: string[];
  /** Entries that the metadata must have: `name=value`, with commas between them. */
  metadata?: string;
  /** Words that must all occur. */
  search?: string;
  /** `heat`, `updated_at`, `created_at` or `memory_type`; anything else is heat. */
  sort?: string;
  /** `asc` or `desc`; anything else is `desc`. */
  order?: string;
}

/** The heat from which a memory cools, and since when. */
export interface AnchorView { at: string; heat: number }

/** A memory, with its anchor if the request names it. */
export type AnchoredMemory = Memory & { anchor?: AnchorView | null };

/** A memory of a batch. */
export type BatchItem = MemoryOrDeleted & {
  /** `created`; `duplicate`, if it was there, with the same text or the same `external_id`; or `deleted` since. */
  status: string;
};

/** What to add to the heat of a memory. */
export interface Boost { strength?: number | null }

/** A context to load. */
export interface ContextRequest {
  /** Only memories of this namespace; `*` is all. */
  namespace?: string;
  /** What the conversation is about. Without it, the context has the hottest memories only. */
  query?: string | null;
  /** Tokens of the context at most, counted by a bound that holds for all scripts. */
  token_budget?: number | null;
}

/** The memory that was created next to the result and gave it its `neighbours`. */
export interface ContextSource {
  id: string;
  share: number;
  /** The score of that memory with heat 0 and without context. */
  source_score: number;
}

export type DecayClass = "volatile" | "normal" | "persistent" | "permanent";

/** A memory or a trigger that was deleted. */
export interface Deleted {
  /** Always true. */
  deleted: boolean;
  id: string;
}

export type Detection = "secret" | "number" | "email" | "instructions" | "pattern";

/** A key that changed a memory. */
export interface Editor {
  /** The name that the key had. */
  agent: string;
  key_id: string;
}

/** The body of an error response. */
export interface ErrorBody {
  /** The memory with the same text, for `duplicate`. */
  duplicate_of?: string | null;
  /** A stable code. */
  error: string;
  /** The field at fault, for `invalid_field`. */
  field?: string | null;
  /** A text for people. */
  message: string;
  /** The id after which an event stream may resume, for `events_gone`. */
  oldest?: string | null;
  request_id: string;
}

export type Evidence = "none" | "weak" | "strong";

/** The composition of a score. Results of graph traversal have no factors. */
export type Explanation = Factors & SearchSummary & {
  context: ContextSource | null;
  /** The score. */
  fused_score: number;
  graph: TraversalPath | null;
  /** What the reranker said, by which the first results are ordered. Null without one. */
  relevance: number | null;
  temporal_window: TemporalWindow | null;
};

/**
 * Factors of a score: `base_score`, times `keyword_factor`, `temporal_factor` and `namespace_factor`. If another
 * memory replaces this one, the score is multiplied by `superseded_factor` too.
 */
export interface Factors {
  base_score?: number;
  cosine_distance?: number;
  heat?: number;
  heat_weight?: number;
  keyword_factor?: number;
  /** `own` plus `neighbours`. */
  keyword_overlap?: number;
  keyword_weight?: number;
  namespace_boost?: number;
  namespace_factor?: number;
  /**
   * What memories stored next to this one give: `words_before`, and the `source_score` of `context` times its
   * `share`, as an overlap that adds this product to the score.
   */
  neighbours?: number;
  /** What the words of the memory give. */
  own?: number;
  similarity?: number;
  similarity_weight?: number;
  /** Less than 1 if another memory replaces this one. */
  superseded_factor?: number;
  temporal_boost?: number;
  temporal_factor?: number;
  /** What the words of the three memories before give. */
  words_before?: number;
}

/** Feedback on a memory that the path names. */
export interface FeedbackSignal { signal: Signal }

/**
 * Conditions on fields, all of which must hold: `tags`, `metadata.NAME`, `memory_type`, `namespace` (with all below
 * it), `is_pinned`, `trust`, `heat`, `occurred_at`, `created_at`, `updated_at`. A condition is a value, or `{"in":
 * […]}`, or `{"gt", "gte", "lt", "lte"}` with a number or a time. `and` and `or` have lists of filters, `not` has
 * one.
 */
export type Filter = Record<string, unknown>;

/** A hot context. */
export interface HotContext {
  /** Characters of labels; the first memory is returned in any case. */
  budget_chars?: number | null;
  limit?: number | null;
  memory_type?: MemoryType | null;
  /** Only memories of this namespace; `*` is all. */
  namespace?: string;
}

/** A context for an agent's turn. */
export interface LoadedContext {
  /** Archived memories, up to 100, that may answer the query and would be among those that match. */
  cold_matches: number;
  /** A sentence, then headings in Markdown, each with memories: one line of JSON for each. */
  context: string;
  /** A bound of its tokens. */
  estimated_tokens: number;
  /** Whether the memories that match may answer the query. Null without a query. */
  evidence: Evidence | null;
  /** Their ids, in the order of the context. */
  memory_ids: string[];
}

/** A memory. Heat and text have two names each, since published clients read either. */
export interface Memory {
  archived_at: string | null;
  base_utility: number;
  /** Who changed its text, its lock or its namespace last; null if none did. */
  changed_by: Editor | null;
  created_at: string;
  /** The heat as of the response. */
  current_heat: number;
  decay_class: DecayClass;
  /** What the guard has found in it, or removed from it. */
  detections: Detection[];
  /** Its id, again, if a create found it instead of creating a memory with the same text. */
  duplicate_of?: string;
  /** The memory that it repeats, which had been recalled a moment before. */
  echo_of: string | null;
  /** When it is deleted. */
  expires_at: string | null;
  /** The id that its client has given it. */
  external_id: string | null;
  flagged_for_review: boolean;
  /** The memories that it replaces, which are in the cold tier. */
  folded_from: string[];
  /** The heat, again. */
  heat: number;
  id: string;
  is_locked: boolean;
  is_pinned: boolean;
  key_points: string[];
  /** The text. */
  label: string;
  last_recalled_at: string | null;
  memory_type: MemoryType;
  metadata: Record<string, unknown>;
  /** Heat floor. */
  min_heat: number;
  modality: string;
  namespace: string;
  /** When it happened, if that is known to be another time than `created_at`. */
  occurred_at: string | null;
  origin: Origin;
  /** The text, again. */
  pointer_summary: string;
  /** Whether only admins see it, until one has reviewed it. */
  quarantined: boolean;
  recall_count: number;
  /** Factor of the half-life. */
  stability: number;
  /** The memory that replaces this one. */
  superseded_by: string | null;
  tags: string[];
  tier: Tier;
  /** `suspect` while it is flagged for review or in quarantine, `reviewed` once an admin has reviewed it. */
  trust: Trust;
  updated_at: string;
  /** From when on it holds, if that was said. */
  valid_from: string | null;
  /** Until when it holds: what was said, or when another one replaced it. */
  valid_until: string | null;
}

/** Changes to a memory; absent fields stay. */
export interface MemoryChanges {
  /** Tags that it gets beside those. */
  add_tags?: string[] | null;
  /** Sets the heat as of now. */
  current_heat?: number | null;
  decay_class?: DecayClass | null;
  /** When it is deleted: by the next tick after that. */
  expires_at?: string | null;
  /** Feedback `wrong` and the guard set it; a reviewer clears it. */
  flagged_for_review?: boolean | null;
  /** A locked memory can be changed, but not deleted. */
  is_locked?: boolean | null;
  is_pinned?: boolean | null;
  label?: string | null;
  memory_type?: MemoryType | null;
  /** All metadata from now on. */
  metadata?: Record<string, unknown> | null;
  min_heat?: number | null;
  /** The namespace. */
  namespace?: string;
  /** When it happened, any time, or a day. An empty text removes it, as for all times. */
  occurred_at?: string | null;
  /** Whether each recall begins `ttl_seconds` anew. */
  refresh_on_read?: boolean | null;
  /** Tags that it loses. */
  remove_tags?: string[] | null;
  /** `true`: an admin has reviewed it. It leaves the quarantine, and is flagged no more. */
  reviewed?: boolean | null;
  /** All tags from now on. */
  tags?: string[] | null;
  /** Seconds from now on after which it is deleted; before `expires_at`. */
  ttl_seconds?: number | null;
  /** From when on it holds; by default since it happened. */
  valid_from?: string | null;
  /** Until when it holds, a day included; by default without end, or until another one replaces it. */
  valid_until?: string | null;
}

/**
 * A memory that a write touched. If the write is a repetition, the memory may be deleted since, or too long for the
 * response.
 */
export type MemoryOrDeleted = Memory | Deleted | TooLong;

/** A page of a list. */
export interface MemoryPage {
  items: Memory[];
  /** The next page begins with it as `cursor`. Null at the end. */
  next_cursor: string | null;
  page: number;
  page_size: number;
  /** Memories on all pages. */
  total: number;
}

export type MemoryType = "episodic" | "semantic" | "preference" | "procedural" | "fact" | "moment";

/** New memories, all or none. */
export interface NewMemories { nodes: NewMemory[] }

/** A new memory. */
export interface NewMemory {
  decay_class?: DecayClass | null;
  /** When it is deleted: by the next tick after that. */
  expires_at?: string | null;
  /**
   * An id of the client's own, unique in the namespace. A memory that has it is replaced: its text, type, key
   * points, tags, metadata and times. Its heat stays.
   */
  external_id?: string | null;
  initial_heat?: number | null;
  is_pinned?: boolean | null;
  /** At most 256 bytes each; memories that share one get an edge. */
  key_points?: string[] | null;
  /** Its text, at most 64 KiB. */
  label: string;
  memory_type?: MemoryType | null;
  /** Any JSON object of at most 16 KiB and 64 entries. Filters find the memory by its short values. */
  metadata?: Record<string, unknown> | null;
  /** Heat that it never cools below. */
  min_heat?: number | null;
  /** The namespace. */
  namespace?: string;
  /** When it happened, if that is not now: any time, or a day. Searches for a time find it by this. */
  occurred_at?: string | null;
  /** What happens if the namespace has a memory of this type with the same text; the tenant's setting by default. */
  on_duplicate?: OnDuplicate | null;
  /** Whether each recall begins `ttl_seconds` anew. */
  refresh_on_read?: boolean | null;
  /** The memory that it replaces, of the same namespace. */
  supersedes?: string | null;
  /** Filters find the memory by them. */
  tags?: string[] | null;
  /** Seconds after which it is deleted; before `expires_at`. */
  ttl_seconds?: number | null;
  /** From when on it holds; by default since it happened. */
  valid_from?: string | null;
  /** Until when it holds, a day included; by default without end, or until another one replaces it. */
  valid_until?: string | null;
}

/** The notification of a trigger. */
export interface NotificationView {
  event: TriggerEvent;
  message: string;
  node_id: string;
  /** Name of the key that owns the trigger, and so wrote the message. */
  owner: string | null;
  trigger_id: string;
  trigger_name: string;
}

export type OnDuplicate = "allow" | "merge" | "reject";

/** Where a memory comes from: stamped from the request that created it. */
export interface Origin {
  /** The name that the key had. */
  agent: string | null;
  /** Name and version of the program. */
  client: string | null;
  key_id: string | null;
  /** Tool by which the agent stored it. */
  tool: string | null;
}

/** A memory with its score. */
export type Scored = Memory & { score: number };

/** A search. */
export interface Search {
  /** Name of the key that created the memory. */
  agent?: string | null;
  /** Only memories that hold at this time; others count as replaced by default. */
  as_of?: string | null;
  /** Program that created it, with or without its version. */
  client?: string | null;
  /** Adds every factor of each score. */
  explain?: boolean | null;
  /** Conditions combined by and, or and not. */
  filter?: Filter | null;
  key_id?: string | null;
  limit?: number | null;
  memory_type?: MemoryType | null;
  /** Entries that its metadata must have. */
  metadata?: Record<string, unknown> | null;
  /** Leaves out results with a lower score. */
  min_score?: number | null;
  /** Only memories of this namespace; `*` is all. */
  namespace?: string;
  /** Only memories of this namespace and those below it: names are paths with `/`. */
  namespace_prefix?: string | null;
  /** At most 64 KiB. Without words the results are ordered by heat. */
  query: string;
  /** Tags that a memory must have. */
  tags?: string[] | null;
  tier?: TierFilter | null;
  /** Only memories created at this time or later. A day is one of the time zone in `X-Timezone`. */
  time_from?: string | null;
  /** Only memories created at this time or earlier, or on this day. */
  time_to?: string | null;
  tool?: string | null;
}

/** A result of a search. */
export type SearchResult = Scored & {
  explain?: Explanation | null;
  /**
   * True if its time comes before the score: the query asks for a time and nothing else, and this memory was stored
   * then.
   */
  ranks_first?: boolean;
  /** `graph_traversal`, if it was found as the neighbour of another result. */
  source?: string | null;
};

/** What a search says beside its results. */
export interface SearchSummary {
  /** Archived memories, up to 100, that may answer the query and would be among the results of both tiers. */
  cold_matches: number;
  /** Whether one of the first results may answer the query. Null for a query without words. */
  evidence: Evidence | null;
}

export type Signal = "relevant" | "irrelevant" | "outdated" | "wrong";

/** The memory that replaces another one. */
export interface Supersession { by: string }

/** The time window that a query refers to. */
export interface TemporalWindow {
  end: string;
  /** The words of the query that name it. */
  reference: string;
  start: string;
}

export type Tier = "hot" | "cold";

export type TierFilter = "hot" | "cold" | "all";

/** A memory whose text is too long for the response; read it by its id. */
export interface TooLong {
  id: string;
  /** Always true. */
  too_long: boolean;
}

/** The path of a result of graph traversal: its numbers multiply to the score. */
export interface TraversalPath { damping: number; edge_weight: number; seed_id: string; seed_score: number }

export type TriggerEvent = "on_store" | "on_recall" | "on_decay" | "on_boost" | "on_relate" | "on_threshold";

export type Trust = "suspect" | "normal" | "reviewed";

/** The texts of a memory, the newest first. */
export interface VersionList { versions: VersionView[] }

/** A text that a memory had. */
export interface VersionView {
  /** Name of the key that wrote it. */
  agent: string | null;
  /** Since when the memory had it. */
  from: string;
  label: string;
  /** Until when; null for the present text. */
  until: string | null;
}

/** A response with the notifications of the triggers that fired. */
export type WithNotificationsBatch = { results: BatchItem[] } & {
  /** The first ones, at most 500 and 64 KiB of text. Absent if no `notify` trigger fired. */
  trigger_notifications?: NotificationView[];
};

/** A response with the notifications of the triggers that fired. */
export type WithNotificationsFeedbackEffect = {
  heat_after: number;
  heat_before: number;
  node_id: string;
  /** Always true. */
  ok: boolean;
  signal: Signal;
  stability_after: number;
  stability_before: number;
  /**
   * `hot` once `relevant` has returned it from the cold tier. A memory that another one replaces stays there, and is
   * not warmed.
   */
  tier: Tier;
} & {
  /** The first ones, at most 500 and 64 KiB of text. Absent if no `notify` trigger fired. */
  trigger_notifications?: NotificationView[];
};

/** A response with the notifications of the triggers that fired. */
export type WithNotificationsMemoryOrDeleted = (Memory | Deleted | TooLong) & {
  /** The first ones, at most 500 and 64 KiB of text. Absent if no `notify` trigger fired. */
  trigger_notifications?: NotificationView[];
};
