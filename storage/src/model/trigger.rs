//! Triggers: rules that run an action when an event happens to a memory. This file defines
//! the stored rows. `model::trigger_match` evaluates the conditions. `decide::fire` runs the
//! actions.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::{MemoryId, Timestamp, TriggerId};
use crate::model::memory::MemoryType;
use crate::model::tenant::KeyId;

/// Maximum number of triggers per tenant.
pub const TRIGGERS_MAX: usize = 10_000;
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

/// The event on which a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TriggerEvent {
    /// A memory was created.
    Store,
    /// A search returned the memory.
    Recall,
    /// Its heat fell below a threshold between two ticks.
    Decay,
    /// A client raised its heat.
    Boost,
    /// An edge from the memory was created.
    Relate,
    /// Its heat crossed a threshold between two ticks, in either direction.
    Threshold,
}

impl TriggerEvent {
    /// All events, in the order of their stored numbers.
    pub const ALL: [Self; 6] =
        [Self::Store, Self::Recall, Self::Decay, Self::Boost, Self::Relate, Self::Threshold];

    /// The name used in JSON, metrics and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "on_store",
            Self::Recall => "on_recall",
            Self::Decay => "on_decay",
            Self::Boost => "on_boost",
            Self::Relate => "on_relate",
            Self::Threshold => "on_threshold",
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
    /// Emits a message, see [`crate::model::template`].
    Notify {
        /// Message with placeholders. `None` is the default template.
        template: Option<String>,
    },
    /// Raises the heat, up to 1.
    Boost {
        /// Added heat, above 0 and at most 1.
        strength: f64,
    },
    /// Pins the memory.
    Pin,
    /// Appends a tag to the label, once.
    Tag {
        /// The tag. `None` derives one from the label.
        tag: Option<String>,
    },
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
            Self::Notify { .. } => TriggerActionKind::Notify,
            Self::Boost { .. } => TriggerActionKind::Boost,
            Self::Pin => TriggerActionKind::Pin,
            Self::Tag { .. } => TriggerActionKind::Tag,
            Self::Deprecate => TriggerActionKind::Deprecate,
            Self::Webhook { .. } => TriggerActionKind::Webhook,
        }
    }
}

/// The kinds of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerActionKind {
    /// See [`TriggerAction::Notify`], and so on.
    Notify,
    /// Raises the heat.
    Boost,
    /// Pins the memory.
    Pin,
    /// Appends a tag.
    Tag,
    /// Halves the heat.
    Deprecate,
    /// Enqueues a webhook delivery.
    Webhook,
}

impl TriggerActionKind {
    /// All kinds, in the order of their stored numbers.
    pub const ALL: [Self; 6] =
        [Self::Notify, Self::Boost, Self::Pin, Self::Tag, Self::Deprecate, Self::Webhook];

    /// The name used in JSON, metrics and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Boost => "boost",
            Self::Pin => "pin",
            Self::Tag => "tag",
            Self::Deprecate => "deprecate",
            Self::Webhook => "webhook",
        }
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

impl Record for Trigger {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "trigger";
}

impl Trigger {
    /// Approximate size in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        const FIXED: usize = 256;
        let action = match &self.action {
            TriggerAction::Notify { template } => template.as_ref().map_or(0, String::len),
            TriggerAction::Webhook { url, .. } => url.len() + FIXED,
            _ => 0,
        };
        let pattern = self.filter.label_pattern.as_ref().map_or(0, String::len);
        FIXED + self.name.len() + self.description.len() + action + pattern
    }
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
}

impl Record for Firings {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "firings";
}

/// The message of a trigger that fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Id of the trigger.
    pub trigger: TriggerId,
    /// Name of the trigger.
    pub trigger_name: String,
    /// Event on which it fired.
    pub event: TriggerEvent,
    /// Memory for which it fired.
    pub memory: MemoryId,
    /// The message.
    pub message: String,
}
