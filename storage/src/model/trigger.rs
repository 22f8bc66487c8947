//! Triggers: what may stand in a rule, and when it holds for a memory. What firing changes
//! is decided elsewhere; nothing here reads or writes the state.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::{MemoryId, Timestamp, TriggerId};
use crate::model::memory::{Memory, MemoryType};
use crate::model::pattern::{Folded, Pattern};
use crate::model::score::rounded;
use crate::model::tenant::KeyId;

/// Most triggers of a tenant.
pub const TRIGGERS_MAX: usize = 10_000;
/// Longest name in bytes.
pub const TRIGGER_NAME_BYTES_MAX: usize = 256;
/// Longest description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Longest label pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Longest template of a message in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 4_096;
/// Longest tag in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// Longest address of a webhook in bytes.
pub const URL_BYTES_MAX: usize = 2_048;
/// What `boost` adds when nobody says.
pub const STRENGTH_DEFAULT: f64 = 0.3;

/// On what a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TriggerEvent {
    /// A memory was created.
    Store,
    /// A search returned it.
    Recall,
    /// Its heat fell below a bound between two ticks.
    Decay,
    /// Somebody raised its heat.
    Boost,
    /// An edge was made of which it is the source.
    Relate,
    /// Its heat crossed a bound, up or down, between two ticks.
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

/// A secret that only nodes with the cluster's key can open: nonce and ciphertext.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret(pub Vec<u8>);

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("sealed")
    }
}

/// What a trigger does when it fires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TriggerAction {
    /// Says something, see [`crate::model::template`].
    Notify {
        /// The message, with placeholders; `None` is one that says what happened.
        template: Option<String>,
    },
    /// Raises the heat, to 1 at most.
    Boost {
        /// By so much, above 0 to 1.
        strength: f64,
    },
    /// Pins the memory.
    Pin,
    /// Appends a tag to the label, once.
    Tag {
        /// The tag; `None` is one made of the label.
        tag: Option<String>,
    },
    /// Halves the heat, and has the memory cool faster.
    Deprecate,
    /// Owes a request to an address.
    Webhook {
        /// Where to.
        url: String,
        /// What the request is signed with.
        secret: Option<SealedSecret>,
        /// The secret before, which signs as well until then.
        retiring: Option<(SealedSecret, Timestamp)>,
    },
}

impl TriggerAction {
    /// Names of all actions.
    pub const NAMES: [&str; 6] = ["notify", "boost", "pin", "tag", "deprecate", "webhook"];

    /// The name used in JSON, metrics and docs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Notify { .. } => "notify",
            Self::Boost { .. } => "boost",
            Self::Pin => "pin",
            Self::Tag { .. } => "tag",
            Self::Deprecate => "deprecate",
            Self::Webhook { .. } => "webhook",
        }
    }
}

/// A rule. Its firings are counted in a row of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Triggers of a tenant are asked in this order: that of their creation.
    pub number: u64,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// On what it fires.
    pub event: TriggerEvent,
    /// What it does.
    pub action: TriggerAction,
    /// Its own namespace: it fires for no memory of another.
    pub namespace: Option<String>,
    /// Which memories it fires for.
    pub filter: TriggerFilter,
    /// Fires so often at most.
    pub max_fires: Option<u64>,
    /// Seconds between two firings at least.
    pub cooldown_seconds: u32,
    /// Fires at all.
    pub enabled: bool,
    /// Whose it is: it fires for memories only that this key may know of.
    pub owner: Option<KeyId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

impl Record for Trigger {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "trigger";
}

/// Which memories a trigger fires for: all that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerFilter {
    /// Of this type.
    pub memory_type: Option<MemoryType>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// Whose label holds this, in whatever case.
    pub label_pattern: Option<String>,
    /// Whose heat is below this.
    pub heat_below: Option<f64>,
    /// Whose heat is above this.
    pub heat_above: Option<f64>,
}

/// What a trigger has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firings {
    /// Firings that count against `max_fires`.
    pub count: u64,
    /// All firings: names the next one.
    pub total: u64,
    /// The last one.
    pub last_at: Option<Timestamp>,
}

impl Record for Firings {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "firings";
}

/// What a trigger said when it fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Which trigger.
    pub trigger: TriggerId,
    /// Its name.
    pub trigger_name: String,
    /// On what.
    pub event: TriggerEvent,
    /// For which memory.
    pub memory: MemoryId,
    /// The message.
    pub message: String,
}

/// How a heat went from one tick to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatTransition {
    /// As of the tick before.
    pub before: f64,
    /// Where its cooling began: as anchored since, else as before.
    pub start: f64,
    /// As of this tick.
    pub now: f64,
    /// Whether that before was below `cold_threshold` as it was then, and this is below it as
    /// it is now: what triggers that name no bound ask.
    pub cold: (bool, bool),
    /// `cold_threshold` as of this tick.
    pub cold_threshold: f64,
}

/// Why a trigger does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It is disabled.
    Disabled,
    /// It waits for another event.
    Event,
    /// The memory is not in its namespace.
    Namespace,
    /// Nor in the one that it filters by.
    FilterNamespace,
    /// The memory is of another type.
    MemoryType,
    /// The label does not hold the pattern.
    LabelPattern,
    /// The heat is not below the bound.
    HeatBelow,
    /// The heat is not above the bound.
    HeatAbove,
    /// The heat did not cross its bound.
    NotCrossed,
    /// Its owner may not know of the memory.
    Access,
    /// It has fired as often as it may.
    MaxFires,
    /// It fired too short a time ago.
    Cooldown,
    /// What fires before it leaves no room in one command.
    NoRoom,
}

impl SkipReason {
    /// The name used in JSON and docs: that of the field that keeps it from firing.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "enabled",
            Self::Event => "event",
            Self::Namespace => "namespace",
            Self::FilterNamespace => "filter_namespace",
            Self::MemoryType => "filter_memory_type",
            Self::LabelPattern => "filter_label_pattern",
            Self::HeatBelow => "filter_heat_below",
            Self::HeatAbove => "filter_heat_above",
            Self::NotCrossed => "not_crossed",
            Self::Access => "access",
            Self::MaxFires => "max_fires",
            Self::Cooldown => "cooldown_seconds",
            Self::NoRoom => "no_room",
        }
    }
}

/// What a trigger is asked about.
pub struct Subject<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// Its label, made ready to be looked into.
    pub label: &'a Folded,
    /// Its heat now.
    pub heat: f64,
    /// How its heat went, for what ticks find.
    pub transition: Option<HeatTransition>,
}

impl Trigger {
    /// Whether it fires on `event` for `subject`, as far as its own row tells; its pattern
    /// was compiled to `pattern`.
    ///
    /// # Errors
    /// The first reason why it does not.
    pub fn holds(
        &self,
        event: TriggerEvent,
        subject: &Subject<'_>,
        pattern: Option<&Pattern>,
    ) -> Result<(), SkipReason> {
        let filter = &self.filter;
        let memory = subject.memory;
        let is_in = |namespace: &Option<String>| {
            namespace.as_ref().is_none_or(|wanted| *wanted == memory.namespace)
        };
        let of_type = filter.memory_type.is_none_or(|wanted| wanted == memory.memory_type);
        for (holds, why) in [
            (self.enabled, SkipReason::Disabled),
            (self.event == event, SkipReason::Event),
            (is_in(&self.namespace), SkipReason::Namespace),
            (is_in(&filter.namespace), SkipReason::FilterNamespace),
            (of_type, SkipReason::MemoryType),
        ] {
            if !holds {
                return Err(why);
            }
        }
        self.heat_holds(subject)?;
        if pattern.is_some_and(|pattern| !pattern.is_in(subject.label)) {
            return Err(SkipReason::LabelPattern);
        }
        Ok(())
    }

    fn heat_holds(&self, subject: &Subject<'_>) -> Result<(), SkipReason> {
        let TriggerFilter { heat_below, heat_above, .. } = self.filter;
        let (is_below, is_above) = (
            |heat: f64| heat_below.is_none_or(|bound| rounded(heat) < bound),
            |heat: f64| heat_above.is_none_or(|bound| rounded(heat) > bound),
        );
        match (self.event, subject.transition) {
            (
                TriggerEvent::Decay,
                Some(HeatTransition { before, start, now, cold_threshold, .. }),
            ) => {
                let bound = heat_below.unwrap_or(cold_threshold);
                let fell = [before, start].iter().all(|heat| rounded(*heat) >= bound);
                if !fell || rounded(now) >= bound {
                    return Err(SkipReason::NotCrossed);
                }
                if is_above(now) { Ok(()) } else { Err(SkipReason::HeatAbove) }
            }
            (TriggerEvent::Threshold, Some(HeatTransition { before, now, cold, .. })) => {
                let crossed = match (heat_below, heat_above) {
                    (None, None) => cold.0 != cold.1,
                    _ => is_below(now) && is_above(now) && !(is_below(before) && is_above(before)),
                };
                if crossed { Ok(()) } else { Err(SkipReason::NotCrossed) }
            }
            (TriggerEvent::Decay | TriggerEvent::Threshold, None) => Err(SkipReason::NotCrossed),
            _ if !is_below(subject.heat) => Err(SkipReason::HeatBelow),
            _ if !is_above(subject.heat) => Err(SkipReason::HeatAbove),
            _ => Ok(()),
        }
    }

    /// Whether it may fire again at `now`.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_fire(&self, firings: &Firings, now: Timestamp) -> Result<(), SkipReason> {
        if self.max_fires.is_some_and(|max| firings.count >= max) {
            return Err(SkipReason::MaxFires);
        }
        let cooldown = i64::from(self.cooldown_seconds) * Timestamp::SECOND_MICROS;
        match firings.last_at {
            Some(last) if now.since(last) < cooldown => Err(SkipReason::Cooldown),
            _ => Ok(()),
        }
    }

    /// Roughly the bytes that it takes.
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

    /// Heats at which it may begin or cease to hold when a tick looks: whether a heat lies
    /// below one of them is all that it asks. In steps of 1e-6, as heats are compared.
    pub fn thresholds(&self) -> impl Iterator<Item = f64> {
        let tells = match self.event {
            _ if !self.enabled => (None, None),
            TriggerEvent::Decay => (self.filter.heat_below, None),
            // Above a bound is not below the step after it.
            TriggerEvent::Threshold => {
                let above = self.filter.heat_above;
                (self.filter.heat_below, above.map(|bound| rounded(bound + 1e-6)))
            }
            _ => (None, None),
        };
        [tells.0, tells.1].into_iter().flatten()
    }
}
