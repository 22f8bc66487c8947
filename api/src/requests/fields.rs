//! The fields of requests and of responses, each with its bounds. They are aliases because
//! utoipa's derive takes no generic arguments.

use storage::model::access::AGENT_BYTES_MAX;
use storage::model::api_key::{KEY_LIFETIME_SECONDS, KEY_NAME_BYTES_MAX, OVERLAP_SECONDS_MAX};
use storage::model::audit::{AuditAction, AuditChain};
use storage::model::duplicate::OnDuplicate;
use storage::model::edge::RELATION_BYTES_MAX;
use storage::model::guard::{
    Detection, GUARD_NAME_BYTES_MAX, GUARD_PATTERN_BYTES_MAX, GuardAction, Trust,
};
use storage::model::id::{KeyId, MemoryId, TriggerId};
use storage::model::memory::{
    DecayClass, KEY_POINT_BYTES_MAX, KEY_POINTS_MAX, LABEL_BYTES_MAX, MemoryType,
    NAMESPACE_BYTES_MAX, Signal, Tier,
};
use storage::model::memory::{Defect, FoldReason};
use storage::model::memory::{EXTERNAL_ID_BYTES_MAX, ORIGIN_BYTES_MAX};
use storage::model::retention::{RETENTION_DAYS_MAX, RetentionAction};
use storage::model::score::Evidence;
use storage::model::tenant::{HOST_BYTES_MAX, Role};
use storage::model::times::TTL_SECONDS_MAX;
use storage::model::trigger::DeliveryId;
use storage::model::trigger::{
    DESCRIPTION_BYTES_MAX, PATTERN_BYTES_MAX, TAG_BYTES_MAX, TEMPLATE_BYTES_MAX,
    TRIGGER_NAME_BYTES_MAX, TriggerActionKind, TriggerEvent, URL_BYTES_MAX,
};
use storage::{BULK_MAX, TierFilter};

use crate::limits::{
    ACTIVITY_BYTES_MAX, ACTIVITY_DEFAULT, CANDIDATES_DEFAULT, CONTEXT_TOKENS_DEFAULT,
    CONTEXT_TOKENS_MAX, COOLDOWN_SECONDS_MAX, EVENT_KINDS_BYTES_MAX, EXAMPLES_DEFAULT,
    EXAMPLES_MAX, GRAPH_DEFAULT, GRAPH_MAX, HISTORY_DEFAULT, HISTORY_MAX, HOOK_TEXT_BYTES_MAX,
    HOOK_TOKENS_DEFAULT, HOT_CONTEXT_DEFAULT, HOT_NODES_DEFAULT, IDEMPOTENCY_KEY_BYTES_MAX,
    KEYS_PAGE_MAX, LIST_WORDS_BYTES_MAX, NEIGHBOUR_DEPTH_MAX, NEIGHBOURS_DEFAULT, PAGE_MAX,
    QUERY_BYTES_MAX, SEARCH_DEFAULT, SECRET_BYTES_MAX, TOOL_PAGE_DEFAULT, TOOL_RESULTS_DEFAULT,
    TRIGGERS_PAGE,
};
use crate::requests::numbers::{Clamped, Count, Whole};
use crate::requests::times::{TimeSpan, Zone};
use crate::requests::values::{
    EventId, Id, MemoryCursor, MemoryIds, NonBlank, OneOf, OneOfOrEmpty, PageCursor, SecretText,
    Text, TextOrEmpty, Texts,
};

pub(crate) use crate::requests::values::AnyWord;
use crate::words::{Consistency, DeliveryStatus, HistoryKind, RulePolicy};

// Of memories.
pub(crate) type Label = Text<LABEL_BYTES_MAX, true>;
pub(crate) type FullLabel = NonBlank<LABEL_BYTES_MAX, true>;
/// A namespace; empty is absent.
pub(crate) type Namespace = Text<NAMESPACE_BYTES_MAX>;
pub(crate) type KeyPoints = Texts<KEY_POINTS_MAX, KEY_POINT_BYTES_MAX>;
pub(crate) type MemoryTypeWord = OneOf<MemoryType>;
pub(crate) type MemoryTypeOrEmpty = OneOfOrEmpty<MemoryType>;
pub(crate) type MemoryTier = OneOf<Tier>;
pub(crate) type DecayClassWord = OneOf<DecayClass>;
pub(crate) type OnDuplicateWord = OneOf<OnDuplicate>;
pub(crate) type MemoryIdText = Id<MemoryId>;
pub(crate) type BulkMemoryIds = MemoryIds<BULK_MAX>;
pub(crate) type SignalWord = OneOf<Signal>;
/// The name of a client or a tool.
pub(crate) type OriginName = NonBlank<ORIGIN_BYTES_MAX>;
pub(crate) type KeyIdText = Id<KeyId>;
pub(crate) type RelationName = NonBlank<RELATION_BYTES_MAX>;

// Of reads.
pub(crate) type Limit = Clamped<1, { PAGE_MAX as u64 }>;
pub(crate) type SearchLimit = Count<{ PAGE_MAX as u64 }, { SEARCH_DEFAULT as u64 }>;
pub(crate) type HotContextLimit = Count<{ PAGE_MAX as u64 }, { HOT_CONTEXT_DEFAULT as u64 }>;
pub(crate) type HotNodesLimit = Count<{ PAGE_MAX as u64 }, { HOT_NODES_DEFAULT as u64 }>;
pub(crate) type ToolLimit = Count<{ PAGE_MAX as u64 }, { TOOL_RESULTS_DEFAULT as u64 }>;
pub(crate) type ToolPageSize = Count<{ PAGE_MAX as u64 }, { TOOL_PAGE_DEFAULT as u64 }>;
/// Tokens of a context; some four characters are one.
pub(crate) type TokenBudget =
    Count<{ CONTEXT_TOKENS_MAX as u64 }, { CONTEXT_TOKENS_DEFAULT as u64 }>;
pub(crate) type ActivityLimit = Count<{ PAGE_MAX as u64 }, { ACTIVITY_DEFAULT as u64 }>;
pub(crate) type KeyLimit = Count<{ KEYS_PAGE_MAX as u64 }, { KEYS_PAGE_MAX as u64 }>;
pub(crate) type NeighboursLimit = Count<{ PAGE_MAX as u64 }, { NEIGHBOURS_DEFAULT as u64 }>;
pub(crate) type CandidatesLimit = Count<{ PAGE_MAX as u64 }, { CANDIDATES_DEFAULT as u64 }>;
pub(crate) type ExamplesLimit = Count<{ EXAMPLES_MAX as u64 }, { EXAMPLES_DEFAULT as u64 }>;
pub(crate) type GuardPatternName = NonBlank<GUARD_NAME_BYTES_MAX>;
pub(crate) type GuardPatternText = NonBlank<GUARD_PATTERN_BYTES_MAX>;
pub(crate) type GuardWord = OneOf<GuardAction>;
pub(crate) type DetectionWord = OneOf<Detection>;
pub(crate) type TrustWord = OneOf<Trust>;
pub(crate) type RetentionWord = OneOf<RetentionAction>;
pub(crate) type RetentionDays = Whole<1, { RETENTION_DAYS_MAX as u64 }>;
pub(crate) type DefectWord = OneOf<Defect>;
pub(crate) type FoldReasonWord = OneOf<FoldReason>;
pub(crate) type Depth = Count<{ NEIGHBOUR_DEPTH_MAX as u64 }, 1>;
pub(crate) type GraphLimit = Count<{ GRAPH_MAX as u64 }, { GRAPH_DEFAULT as u64 }>;
pub(crate) type HistoryLimit = Count<{ HISTORY_MAX as u64 }, { HISTORY_DEFAULT as u64 }>;
pub(crate) type TriggersLimit = Count<{ TRIGGERS_PAGE as u64 }, { TRIGGERS_PAGE as u64 }>;
pub(crate) type Positive = Clamped<1, { u64::MAX }>;
pub(crate) type Offset = Clamped<0, { u64::MAX }>;
pub(crate) type WholeNumber = Whole<0, { u64::MAX }>;
pub(crate) type Query = Text<QUERY_BYTES_MAX, true>;
pub(crate) type TimeText = Id<TimeSpan>;
pub(crate) type HookText = Text<HOOK_TEXT_BYTES_MAX, true>;
pub(crate) type HookTokens = Count<{ CONTEXT_TOKENS_MAX as u64 }, { HOOK_TOKENS_DEFAULT as u64 }>;
pub(crate) type TtlSeconds = Whole<1, TTL_SECONDS_MAX>;
pub(crate) type ExternalId = NonBlank<EXTERNAL_ID_BYTES_MAX>;
pub(crate) type ZoneName = Id<Zone>;
pub(crate) type ListWords = Text<LIST_WORDS_BYTES_MAX>;
pub(crate) type TierWord = OneOf<TierFilter>;
pub(crate) type EvidenceWord = OneOf<Evidence>;
pub(crate) type ConsistencyWord = OneOf<Consistency>;
pub(crate) type IdempotencyKey = NonBlank<IDEMPOTENCY_KEY_BYTES_MAX, true>;

// Of the audit log.
pub(crate) type AuditChainWord = OneOf<AuditChain>;
pub(crate) type AuditActionWord = OneOf<AuditAction>;
pub(crate) type AuditOrder = OneOf<storage::Order>;
pub(crate) type AuditNumber = Whole<0, { i64::MAX as u64 }>;

// Of keys, access rules and the tenant.
pub(crate) type KeyName = Text<KEY_NAME_BYTES_MAX>;
pub(crate) type KeyLifetime = Whole<{ KEY_LIFETIME_SECONDS.0 }, { KEY_LIFETIME_SECONDS.1 }>;
pub(crate) type KeyOverlap = Whole<0, OVERLAP_SECONDS_MAX>;
pub(crate) type HostName = NonBlank<HOST_BYTES_MAX>;
pub(crate) type OrgName = TextOrEmpty<KEY_NAME_BYTES_MAX>;
pub(crate) type RoleWord = OneOf<Role>;
pub(crate) type AgentName = NonBlank<AGENT_BYTES_MAX>;
pub(crate) type RuleNamespace = NonBlank<NAMESPACE_BYTES_MAX>;
pub(crate) type PolicyWord = OneOf<RulePolicy>;

// Of activity and events.
pub(crate) type ActivityName = NonBlank<ACTIVITY_BYTES_MAX>;
pub(crate) type ActivityTarget = Text<ACTIVITY_BYTES_MAX>;
pub(crate) type PageCursorText = Id<PageCursor>;
pub(crate) type MemoryCursorText = Id<MemoryCursor>;
pub(crate) type EventIdText = Id<EventId>;
pub(crate) type EventKinds = Text<EVENT_KINDS_BYTES_MAX>;

// Of triggers.
pub(crate) type DeliveryIdText = Id<DeliveryId>;
pub(crate) type TriggerIdText = Id<TriggerId>;
pub(crate) type TriggerName = Text<TRIGGER_NAME_BYTES_MAX>;
pub(crate) type FullTriggerName = NonBlank<TRIGGER_NAME_BYTES_MAX>;
pub(crate) type Description = Text<DESCRIPTION_BYTES_MAX, true>;
pub(crate) type LabelPattern = Text<PATTERN_BYTES_MAX>;
pub(crate) type EventWord = OneOf<TriggerEvent>;
pub(crate) type ActionWord = OneOf<TriggerActionKind>;
/// Firings after which a trigger stops.
pub(crate) type MaxFires = Whole<1, { u32::MAX as u64 }>;
/// Seconds between two firings.
pub(crate) type Cooldown = Whole<0, COOLDOWN_SECONDS_MAX>;
pub(crate) type Template = TextOrEmpty<TEMPLATE_BYTES_MAX, true>;
pub(crate) type Tag = TextOrEmpty<TAG_BYTES_MAX>;
pub(crate) type UrlText = NonBlank<URL_BYTES_MAX, true>;
pub(crate) type Secret = SecretText<SECRET_BYTES_MAX>;
pub(crate) type HistoryWord = OneOf<HistoryKind>;
pub(crate) type DeliveryWord = OneOf<DeliveryStatus>;
