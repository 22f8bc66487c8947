//! The rows of triggers: rules that run an action when an event happens to a memory.
//! `model::trigger_match` evaluates the conditions. `decide::fire` runs the actions.

use serde::{Deserialize, Serialize};

use crate::id::{KeyId, MemoryId, Timestamp, TriggerId};
use crate::memory::MemoryType;

/// Maximum number of triggers per tenant.
pub const TRIGGERS_MAX: usize = 10_000;
/// Most of them of one API key.
pub const KEY_TRIGGERS_MAX: usize = TRIGGERS_MAX / 2;
/// Maximum number of triggers of one API key on `on_recall`: every search fires them.
pub const KEY_RECALL_TRIGGERS_MAX: usize = 20;
/// Longest name in bytes.
pub const TRIGGER_NAME_BYTES_MAX: usize = 256;
/// Longest description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Longest label pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Longest message template in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 4_096;
/// Longest tag in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// Longest webhook URL in bytes.
pub const URL_BYTES_MAX: usize = 2_048;
/// Default strength of a `boost` action.
pub const STRENGTH_DEFAULT: f64 = 0.3;

named_enum! {
    /// The event on which a trigger fires.
    #[derive(PartialOrd, Ord)]
    pub enum TriggerEvent {
        /// A memory was created.
        Store = "on_store",
        /// A search returned the memory.
        Recall = "on_recall",
        /// Its heat fell below a threshold between two ticks.
        Decay = "on_decay",
        /// A client raised its heat.
        Boost = "on_boost",
        /// An edge from the memory was created.
        Relate = "on_relate",
        /// Its heat crossed a threshold between two ticks, in either direction.
        Threshold = "on_threshold",
    }
}

impl TriggerEvent {
    /// Whether a tick causes it.
    pub fn is_of_ticks(self) -> bool {
        match self {
            Self::Decay | Self::Threshold => true,
            Self::Store | Self::Recall | Self::Boost | Self::Relate => false,
        }
    }
}

/// A secret encrypted with the cluster's key: nonce and ciphertext.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret(pub Vec<u8>);

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("sealed")
    }
}

/// The action of a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TriggerAction {
    /// Emits a message from this template, see [`crate::template`]. `None` is the default
    /// template.
    Notify(Option<String>),
    /// Adds this to the heat, above 0 and at most 1. The heat rises up to 1.
    Boost(f64),
    /// Pins the memory.
    Pin,
    /// Appends this tag to the label, once. `None` derives one from the label.
    Tag(Option<String>),
    /// Halves the heat and sets the decay class `volatile`.
    Deprecate,
    /// Enqueues a delivery: an HTTP request to a URL.
    Webhook {
        /// Target URL.
        url: String,
        /// Secret that signs the request.
        secret: Option<SealedSecret>,
        /// The previous secret, and the time until which it also signs.
        retiring: Option<(SealedSecret, Timestamp)>,
    },
}

impl TriggerAction {
    /// Its kind, without the settings.
    pub fn kind(&self) -> TriggerActionKind {
        match self {
            Self::Notify(_) => TriggerActionKind::Notify,
            Self::Boost(_) => TriggerActionKind::Boost,
            Self::Pin => TriggerActionKind::Pin,
            Self::Tag(_) => TriggerActionKind::Tag,
            Self::Deprecate => TriggerActionKind::Deprecate,
            Self::Webhook { .. } => TriggerActionKind::Webhook,
        }
    }
}

named_enum! {
    /// The kinds of actions.
    pub enum TriggerActionKind {
        /// See [`TriggerAction::Notify`], and so on.
        Notify = "notify",
        /// Raises the heat.
        Boost = "boost",
        /// Pins the memory.
        Pin = "pin",
        /// Appends a tag.
        Tag = "tag",
        /// Halves the heat.
        Deprecate = "deprecate",
        /// Enqueues a webhook delivery.
        Webhook = "webhook",
    }
}

/// A trigger. Its firings are counted in a separate row, [`Firings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Order of evaluation within the tenant: the order of creation.
    pub number: u64,
    /// Display name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Event on which it fires.
    pub event: TriggerEvent,
    /// Action that it runs.
    pub action: TriggerAction,
    /// Namespace of the trigger. It fires only for memories in this namespace.
    pub namespace: Option<String>,
    /// Conditions on the memory.
    pub filter: TriggerFilter,
    /// Maximum number of firings. `None` is unlimited.
    pub max_fires: Option<u64>,
    /// Minimum number of seconds between two firings.
    pub cooldown_seconds: u32,
    /// Disabled triggers never fire.
    pub enabled: bool,
    /// Key that created it. It fires only for memories that this key may read.
    pub owner: Option<KeyId>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Conditions on the memory. All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerFilter {
    /// Memory type.
    pub memory_type: Option<MemoryType>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Text that the label contains, ignoring case.
    pub label_pattern: Option<String>,
    /// The heat is below this.
    pub heat_below: Option<f64>,
    /// The heat is above this.
    pub heat_above: Option<f64>,
}

/// Firing counts of a trigger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firings {
    /// Firings that count against `max_fires`.
    pub count: u64,
    /// All firings. Numbers the deliveries.
    pub total: u64,
    /// Time of the last firing.
    pub last_at: Option<Timestamp>,
    /// Pending deliveries.
    pub pending: u64,
}

/// The message of a trigger that fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Id of the trigger.
    pub trigger: TriggerId,
    /// Name of the trigger.
    pub trigger_name: String,
    /// Name of the key that owns it.
    pub owner: Option<String>,
    /// Event on which it fired.
    pub event: TriggerEvent,
    /// Memory for which it fired.
    pub memory: MemoryId,
    /// The message.
    pub message: String,
}
