//! Triggers: rules that run an action when an event happens to a memory, and the outbox of webhook requests,
//! which are in it until they are delivered or dead-lettered. `model::trigger_match` evaluates the
//! conditions. `decide::fire` runs the actions.
//!
//! Message templates of `notify` have placeholders: `{node_id}`, `{label}`, `{heat}`, `{namespace}`,
//! `{memory_type}` and `{event}`. `{heat:.2f}` is the heat with two decimals; 0 to 6 are allowed. Unknown
//! placeholders stay as they are. Inserted values are not expanded again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{KeyId, MemoryId, Timestamp, TriggerId};
use crate::memory::{Memory, MemoryType};
use crate::score::rounded;

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
    /// Emits a message from this template, see [`crate::trigger`]. `None` is the default
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

/// Longest message in bytes. Longer messages are truncated.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest name of a placeholder, in bytes.
const NAME_BYTES_MAX: usize = 16;
/// Template of triggers without one.
const DEFAULT_TEMPLATE: &str = "{event}: {label}";

/// The values of the placeholders.
#[derive(Clone, Copy)]
pub struct TemplateContext<'a> {
    /// The event.
    pub event: TriggerEvent,
    /// Id of the memory.
    pub id: MemoryId,
    /// Its text row.
    pub memory: &'a Memory,
    /// Its heat.
    pub heat: f64,
}

impl TemplateContext<'_> {
    /// Renders `template`, or the default template.
    pub fn render(&self, template: Option<&str>) -> String {
        let mut rest = template.unwrap_or(DEFAULT_TEMPLATE);
        let mut message = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            message.push_str(before);
            let name = &after[..after.floor_char_boundary(NAME_BYTES_MAX)];
            let name = name.split_once('}').map(|(name, _)| name);
            let known = name.and_then(|name| Some((self.value(name)?, &after[name.len() + 1..])));
            let value;
            (value, rest) = known.unwrap_or_else(|| ("{".to_owned(), after));
            message.push_str(&value);
            if message.len() > MESSAGE_BYTES_MAX {
                break;
            }
        }
        message.push_str(rest);
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "node_id" => self.id.to_string(),
            "label" => {
                let label = &self.memory.label;
                label[..label.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
            }
            "heat" => rounded(self.heat).to_string(),
            "namespace" => self.memory.namespace.clone(),
            "memory_type" => self.memory.memory_type.name().to_owned(),
            "event" => self.event.name().to_owned(),
            _ => {
                let digits = name.strip_prefix("heat:.")?.strip_suffix('f')?;
                let digits: usize = digits.parse().ok().filter(|digits| *digits <= 6)?;
                format!("{:.digits$}", self.heat)
            }
        })
    }
}

/// Most pending deliveries per tenant. See [`Outbox::has_room`].
pub const PENDING_MAX: u64 = 10_000;
/// Most dead letters per tenant. Beyond it, the oldest are removed.
pub const DEAD_LETTERS_MAX: u64 = 10_000;
/// Most bytes of a label that a delivery carries.
pub const DELIVERED_LABEL_BYTES_MAX: usize = 16 << 10;
/// Longest reason of a failed attempt, in bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// Identifies a delivery over all attempts, leaders and restorations of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeliveryId {
    /// The trigger that fired.
    pub trigger: TriggerId,
    /// Ascends with the firings of the trigger. See
    /// [`Cluster::delivery_number`](crate::cluster::Cluster::delivery_number).
    pub number: u64,
}

impl fmt::Display for DeliveryId {
    /// Receivers recognise duplicates by it: `msg_`, the trigger in hex, `_`, the number.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trigger = uuid::Uuid::from_bytes(self.trigger.0);
        write!(out, "msg_{}_{}", trigger.simple(), self.number)
    }
}

impl FromStr for DeliveryId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts = text.strip_prefix("msg_").and_then(|rest| rest.split_once('_'));
        let (trigger, number) = parts.ok_or(())?;
        let trigger = trigger.parse().map_err(drop)?;
        Ok(Self { trigger, number: number.parse().map_err(drop)? })
    }
}

/// A pending or dead-lettered request: the firing as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The event of the firing.
    pub event: TriggerEvent,
    /// Name of the trigger at that time.
    pub trigger_name: String,
    /// Time of the firing.
    pub fired_at: Timestamp,
    /// The memory.
    pub memory: MemoryId,
    /// Namespace of the memory at that time, as for the fields below.
    pub namespace: String,
    /// Its label, cut to [`DELIVERED_LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// Its type.
    pub memory_type: MemoryType,
    /// Its heat.
    pub heat: f64,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts before the last replay. The retry schedule starts anew there.
    pub attempts_before: u32,
    /// Reason of the last failed attempt; empty if none failed.
    pub reason: String,
    /// Its stage.
    pub stage: DeliveryStage,
}

/// Stage of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryStage {
    /// Time of the next attempt.
    Pending(Timestamp),
    /// Time of the last attempt.
    DeadLettered(Timestamp),
}

/// Numbers of deliveries of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// Pending deliveries.
    pub pending: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Firings that queued no delivery because too many were pending, in total.
    pub dropped: u64,
}

impl Outbox {
    /// Whether a trigger with `of_trigger` pending deliveries may have another one: only if it has
    /// fewer than the tenant may still add (dynamic thresholds of Choudhury and Hahne). One
    /// trigger has half of [`PENDING_MAX`] at most, and a few leave room to all others.
    #[must_use]
    pub fn has_room(self, of_trigger: u64) -> bool {
        of_trigger < PENDING_MAX.saturating_sub(self.pending)
    }

    /// The sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pending: self.pending + other.pending,
            dead_letters: self.dead_letters + other.dead_letters,
            dropped: self.dropped + other.dropped,
        }
    }
}

/// Position of a dead letter: the time of its last attempt, and its id.
pub type DeadLetterCursor = (Timestamp, DeliveryId);

/// A delivery attempt and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The delivery.
    pub id: DeliveryId,
    /// Number of the attempt, from 1. A repeated record of it counts once.
    pub number: u32,
    /// Its outcome.
    pub outcome: AttemptOutcome,
}

/// Outcome of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The receiver accepted it with this HTTP status.
    Delivered(u16),
    /// The receiver was not reached or did not accept it.
    Failed {
        /// The reason, for users.
        reason: String,
        /// Microseconds until the next attempt; `None` makes it a dead letter.
        retry_in_micros: Option<i64>,
    },
    /// The receiver responded 410 Gone: the trigger is disabled, unless it changed after this
    /// time.
    Gone(Timestamp),
    /// The trigger is disabled: nothing was sent.
    Disabled,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(template: Option<&str>) -> String {
        let memory = Memory::example("Prefers {heat} tea");
        let context = TemplateContext {
            event: TriggerEvent::Store,
            id: MemoryId([0; 16]),
            memory: &memory,
            heat: 0.5,
        };
        context.render(template)
    }

    #[test]
    fn placeholders_are_expanded_once() {
        let template = "{memory_type} {node_id} in {namespace} at {heat:.2f} ({heat}): {label}";
        let expected = "episodic 00000000-0000-0000-0000-000000000000 in default at 0.50 (0.5): Prefers {heat} tea";
        assert_eq!(message(Some(template)), expected);
        assert_eq!(message(None), "on_store: Prefers {heat} tea");
    }

    #[test]
    fn unknown_placeholders_stay() {
        for text in ["{", "}{", "{unknown}", "{heat:.9f}", "{heat:.f}", "{{heat", "{}", "a {b"] {
            assert_eq!(message(Some(text)), text);
        }
        assert_eq!(message(Some("{{heat}}")), "{0.5}");
    }

    #[test]
    fn message_is_truncated_between_characters() {
        let long = message(Some(&"é{label}".repeat(1_000)));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.len() > MESSAGE_BYTES_MAX - 4);
    }

    #[test]
    fn a_delivery_is_named_by_trigger_and_number() {
        let id = DeliveryId { trigger: TriggerId([0xab; 16]), number: 12 };
        let text = format!("msg_{}_12", "ab".repeat(16));
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        for wrong in ["", "msg_", "msg_12", "msg_zz_1", "12", "msg__1"] {
            assert_eq!(wrong.parse::<DeliveryId>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn deliveries_and_events_of_ticks() {
        let outbox = |pending, dead_letters, dropped| Outbox { pending, dead_letters, dropped };
        assert_eq!(outbox(1, 2, 3).plus(outbox(10, 20, 30)), outbox(11, 22, 33));
        let of_ticks = TriggerEvent::ALL.into_iter().filter(|it| it.is_of_ticks());
        assert!(of_ticks.eq([TriggerEvent::Decay, TriggerEvent::Threshold]));
    }
}
