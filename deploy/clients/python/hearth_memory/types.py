"""Types of requests and responses. `generate.py` writes this file: do not edit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


VERSION = "0.9.0"


class Deleted(TypedDict):
    """A memory or a trigger that was deleted."""
    deleted: bool
    id: str


class ContextRequest(TypedDict):
    """A context to load."""
    namespace: NotRequired[str]
    query: NotRequired[str | None]
    token_budget: NotRequired[int | None]


Evidence = Literal["none", "weak", "strong"]


class LoadedContext(TypedDict):
    """A context for an agent's turn."""
    cold_matches: int
    context: str
    estimated_tokens: int
    evidence: Evidence | None
    memory_ids: list[str]


MemoryType = Literal["episodic", "semantic", "preference", "procedural", "fact", "moment"]


class HotContext(TypedDict):
    """A hot context."""
    budget_chars: NotRequired[int | None]
    limit: NotRequired[int | None]
    memory_type: NotRequired[MemoryType | None]
    namespace: NotRequired[str]


class Editor(TypedDict):
    """A key that changed a memory."""
    agent: str
    key_id: str


DecayClass = Literal["volatile", "normal", "persistent", "permanent"]


Detection = Literal["secret", "number", "email", "instructions", "pattern"]


class Origin(TypedDict):
    """Where a memory comes from: stamped from the request that created it."""
    agent: str | None
    client: str | None
    key_id: str | None
    tool: str | None


Tier = Literal["hot", "cold"]


Trust = Literal["suspect", "normal", "reviewed"]


class Memory(TypedDict):
    """A memory. Heat and text have two names each, since published clients read either."""
    archived_at: str | None
    base_utility: float
    changed_by: Editor | None
    created_at: str
    current_heat: float
    decay_class: DecayClass
    detections: list[Detection]
    duplicate_of: NotRequired[str]
    echo_of: str | None
    expires_at: str | None
    external_id: str | None
    flagged_for_review: bool
    folded_from: list[str]
    heat: float
    id: str
    is_locked: bool
    is_pinned: bool
    key_points: list[str]
    label: str
    last_recalled_at: str | None
    memory_type: MemoryType
    metadata: dict[str, Any]
    min_heat: float
    modality: str
    namespace: str
    occurred_at: str | None
    origin: Origin
    pointer_summary: str
    quarantined: bool
    recall_count: int
    stability: float
    superseded_by: str | None
    tags: list[str]
    tier: Tier
    trust: Trust
    updated_at: str
    valid_from: str | None
    valid_until: str | None


class Scored(Memory):
    """A memory with its score."""
    score: float


TierFilter = Literal["hot", "cold", "all"]


class ListFilters(TypedDict):
    """Filters of a list."""
    page_size: NotRequired[int]
    memory_type: NotRequired[MemoryType]
    namespace: NotRequired[str]
    pinned: NotRequired[bool]
    flagged: NotRequired[bool]
    quarantined: NotRequired[bool]
    min_heat: NotRequired[float]
    time_from: NotRequired[str]
    time_to: NotRequired[str]
    as_of: NotRequired[str]
    namespace_prefix: NotRequired[str]
    external_id: NotRequired[str]
    filter: NotRequired[dict[str, Any]]
    tier: NotRequired[TierFilter]
    agent: NotRequired[str]
    key_id: NotRequired[str]
    client: NotRequired[str]
    tool: NotRequired[str]
    search: NotRequired[str]
    sort: NotRequired[str]
    order: NotRequired[str]
    consistency: NotRequired[Literal["local", "linearizable"]]


class MemoryPage(TypedDict):
    """A page of a list."""
    items: list[Memory]
    next_cursor: str | None
    page: int
    page_size: int
    total: int


OnDuplicate = Literal["allow", "merge", "reject"]


class NewMemory(TypedDict):
    """A new memory."""
    decay_class: NotRequired[DecayClass | None]
    expires_at: NotRequired[str | None]
    external_id: NotRequired[str | None]
    initial_heat: NotRequired[float | None]
    is_pinned: NotRequired[bool | None]
    key_points: NotRequired[list[str] | None]
    label: str
    memory_type: NotRequired[MemoryType | None]
    metadata: NotRequired[dict[str, Any] | None]
    min_heat: NotRequired[float | None]
    namespace: NotRequired[str]
    occurred_at: NotRequired[str | None]
    on_duplicate: NotRequired[OnDuplicate | None]
    refresh_on_read: NotRequired[bool | None]
    supersedes: NotRequired[str | None]
    tags: NotRequired[list[str] | None]
    ttl_seconds: NotRequired[int | None]
    valid_from: NotRequired[str | None]
    valid_until: NotRequired[str | None]


TriggerEvent = Literal["on_store", "on_recall", "on_decay", "on_boost", "on_relate", "on_threshold"]


class NotificationView(TypedDict):
    """The notification of a trigger."""
    event: TriggerEvent
    message: str
    node_id: str
    owner: str | None
    trigger_id: str
    trigger_name: str


class WrittenMemory(Memory):
    """A response with the notifications of the triggers that fired."""
    trigger_notifications: NotRequired[list[NotificationView]]


class NewMemories(TypedDict):
    """New memories, all or none."""
    nodes: list[NewMemory]


class BatchItem(Memory):
    """A memory of a batch."""
    status: str


class Batch(TypedDict):
    """A response with the notifications of the triggers that fired."""
    results: list[BatchItem]
    trigger_notifications: NotRequired[list[NotificationView]]


class BulkDeletion(TypedDict):
    """Which memories to delete. With ids and filters, the intersection is deleted. Without both, the request
    is rejected."""
    ids: NotRequired[list[str] | None]
    memory_type: NotRequired[MemoryType | None]
    namespace: NotRequired[str]
    reject: NotRequired[bool]


class BulkDeleted(TypedDict):
    """Memories that were deleted."""
    deleted: int
    errors: list[str]
    rejected: int
    remaining: int


class AnchorView(TypedDict):
    """The heat from which a memory cools, and since when."""
    at: str
    heat: float


class AnchoredMemory(Memory):
    """A memory, with its anchor if the request names it."""
    anchor: NotRequired[AnchorView | None]


class MemoryChanges(TypedDict):
    """Changes to a memory; absent fields stay."""
    add_tags: NotRequired[list[str] | None]
    current_heat: NotRequired[float | None]
    decay_class: NotRequired[DecayClass | None]
    expires_at: NotRequired[str | None]
    flagged_for_review: NotRequired[bool | None]
    is_locked: NotRequired[bool | None]
    is_pinned: NotRequired[bool | None]
    label: NotRequired[str | None]
    memory_type: NotRequired[MemoryType | None]
    metadata: NotRequired[dict[str, Any] | None]
    min_heat: NotRequired[float | None]
    namespace: NotRequired[str]
    occurred_at: NotRequired[str | None]
    refresh_on_read: NotRequired[bool | None]
    remove_tags: NotRequired[list[str] | None]
    reviewed: NotRequired[bool | None]
    tags: NotRequired[list[str] | None]
    ttl_seconds: NotRequired[int | None]
    valid_from: NotRequired[str | None]
    valid_until: NotRequired[str | None]


class Boost(TypedDict):
    """What to add to the heat of a memory."""
    strength: NotRequired[float | None]


Signal = Literal["relevant", "irrelevant", "outdated", "wrong"]


class FeedbackSignal(TypedDict):
    """Feedback on a memory that the path names."""
    signal: Signal


class FeedbackEffect(TypedDict):
    """A response with the notifications of the triggers that fired."""
    heat_after: float
    heat_before: float
    node_id: str
    ok: bool
    signal: Signal
    stability_after: float
    stability_before: float
    tier: Tier
    trigger_notifications: NotRequired[list[NotificationView]]


class Supersession(TypedDict):
    """The memory that replaces another one."""
    by: str


VersionView = TypedDict("VersionView", {"agent": "str | None", "from": "str", "label": "str", "until": "str | None"})


class VersionList(TypedDict):
    """The texts of a memory, the newest first."""
    versions: list[VersionView]


class Search(TypedDict):
    """A search."""
    agent: NotRequired[str | None]
    as_of: NotRequired[str | None]
    client: NotRequired[str | None]
    explain: NotRequired[bool | None]
    filter: NotRequired[dict[str, Any] | None]
    key_id: NotRequired[str | None]
    limit: NotRequired[int | None]
    memory_type: NotRequired[MemoryType | None]
    metadata: NotRequired[dict[str, Any] | None]
    min_score: NotRequired[float | None]
    namespace: NotRequired[str]
    namespace_prefix: NotRequired[str | None]
    query: str
    tags: NotRequired[list[str] | None]
    tier: NotRequired[TierFilter | None]
    time_from: NotRequired[str | None]
    time_to: NotRequired[str | None]
    tool: NotRequired[str | None]


class Factors(TypedDict):
    """Factors of a score: `base_score`, times `keyword_factor`, `temporal_factor` and `namespace_factor`. If
    another memory replaces this one, the score is multiplied by `superseded_factor` too."""
    base_score: NotRequired[float]
    cosine_distance: NotRequired[float]
    heat: NotRequired[float]
    heat_weight: NotRequired[float]
    keyword_factor: NotRequired[float]
    keyword_overlap: NotRequired[float]
    keyword_weight: NotRequired[float]
    namespace_boost: NotRequired[float]
    namespace_factor: NotRequired[float]
    neighbours: NotRequired[float]
    own: NotRequired[float]
    similarity: NotRequired[float]
    similarity_weight: NotRequired[float]
    superseded_factor: NotRequired[float]
    temporal_boost: NotRequired[float]
    temporal_factor: NotRequired[float]
    words_before: NotRequired[float]


class SearchSummary(TypedDict):
    """What a search says beside its results."""
    cold_matches: int
    evidence: Evidence | None


class ContextSource(TypedDict):
    """The memory that was created next to the result and gave it its `neighbours`."""
    id: str
    share: float
    source_score: float


class TraversalPath(TypedDict):
    """The path of a result of graph traversal: its numbers multiply to the score."""
    damping: float
    edge_weight: float
    seed_id: str
    seed_score: float


class TemporalWindow(TypedDict):
    """The time window that a query refers to."""
    end: str
    reference: str
    start: str


class Explanation(Factors, SearchSummary):
    """The composition of a score. Results of graph traversal have no factors."""
    context: ContextSource | None
    fused_score: float
    graph: TraversalPath | None
    relevance: float | None
    temporal_window: TemporalWindow | None


class SearchResult(Scored):
    """A result of a search."""
    explain: NotRequired[Explanation | None]
    ranks_first: NotRequired[bool]
    source: NotRequired[str | None]


class StorageUse(TypedDict):
    """Storage that memories take."""
    namespace_count: int
    namespaces: dict[str, int]
    newest_node: str | None
    oldest_node: str | None
    total_nodes: int
    total_size_bytes: int


class TenantLimits(TypedDict):
    """Limits of a tenant; null is unlimited."""
    max_agents: int | None
    max_nodes: int | None
    max_sync_requests: int | None
    ops_per_month: int | None


Role = Literal["reader", "agent", "admin"]


class Identity(TypedDict):
    """The identity of a key."""
    agent_label: str
    authenticated: bool
    default_namespace: str
    expires_at: str | None
    features: list[str]
    key_id: str
    limits: TenantLimits
    namespace: str | None
    namespaces: list[str]
    plan_tier: str
    role: Role
    tenant_id: str
