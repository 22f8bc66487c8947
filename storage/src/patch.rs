//! Patches: the changes of some fields of a memory, a trigger or a tenant, as commands carry them.

use model::bounded::bounded;
use model::details::DetailsPatch;
use model::edge::Suggestion;
use model::guard::GuardMark;
use model::memory::{DecayClass, MemoryType};
use model::tenant::{OwnLimits, TenantState};
use model::times::TimesPatch;
use model::trigger::TriggerAction;
use model::vector::Vector;
use serde::{Deserialize, Serialize};

use crate::etag::Etag;
use crate::reply::BULK_MAX;

/// Changes to a memory; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPatch {
    /// The new text with its vector.
    pub label: Option<(String, Vector)>,
    /// Memories with a text similar to the new one.
    pub similar: Vec<Suggestion>,
    /// Kind of knowledge.
    pub memory_type: Option<MemoryType>,
    /// Where it belongs.
    pub namespace: Option<String>,
    /// Class of its half-life.
    pub decay_class: Option<DecayClass>,
    /// Does not cool.
    pub is_pinned: Option<bool>,
    /// Cannot be deleted.
    pub is_locked: Option<bool>,
    /// Flagged for review.
    pub is_flagged: Option<bool>,
    /// Its own floor, 0 to 1.
    pub min_heat: Option<f32>,
    /// Heat from now on, 0 to 1.
    pub current_heat: Option<f32>,
    /// Tags and metadata.
    pub details: DetailsPatch,
    /// Its times.
    pub times: TimesPatch,
    /// What the guard has found in the new texts.
    pub guard: GuardMark,
    /// The namespaces by whose rules its texts were examined; none if that is the same everywhere.
    #[serde(deserialize_with = "bounded::<BULK_MAX, _, _>")]
    pub examined_in: Vec<String>,
    /// The tag of the memory whose texts were examined, since it moves to another rule. Its past texts go: they
    /// were not examined.
    pub moved: Option<Etag>,
    /// An admin has reviewed it: it leaves the quarantine, and is flagged no more.
    pub is_reviewed: bool,
}

impl MemoryPatch {
    /// Whether its texts were examined by the rules of this namespace.
    pub fn is_for(&self, namespace: &str) -> bool {
        self.examined_in.is_empty() || self.examined_in.iter().any(|of| of == namespace)
    }
}

/// Changes to a trigger; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerPatch {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its action; the kind cannot change.
    pub action: Option<TriggerAction>,
    /// Removes the webhook secret. Otherwise an action without a secret keeps the previous one.
    pub drop_secret: bool,
    /// Keeps the webhook address, whatever address `action` has.
    pub keep_url: bool,
    /// Its own namespace; `Some(None)` is none, as for all below.
    pub namespace: Option<Option<String>>,
    /// Filter of type.
    pub memory_type: Option<Option<MemoryType>>,
    /// Filter of namespace.
    pub filter_namespace: Option<Option<String>>,
    /// Filter of label.
    pub label_pattern: Option<Option<String>>,
    /// Filter of heat.
    pub heat_below: Option<Option<f64>>,
    /// Filter of heat.
    pub heat_above: Option<Option<f64>>,
    /// Most firings.
    pub max_fires: Option<Option<u64>>,
    /// Least seconds between two firings.
    pub cooldown_seconds: Option<u32>,
    /// Whether it fires at all.
    pub enabled: Option<bool>,
    /// Resets the count of firings to 0.
    pub reset_count: bool,
}

/// Changes of a tenant by its own admin; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTenantPatch {
    /// Its name.
    pub name: Option<String>,
    /// Hosts to which agents may direct webhooks through the Model Context Protocol.
    pub webhook_hosts: Option<Vec<String>>,
    /// Whether only the key that has locked a memory, or an admin, rewrites or unlocks it.
    pub guards_locked: Option<bool>,
}

/// Changes of a tenant; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPatch {
    /// Its name.
    pub name: Option<String>,
    /// Whether it can be used.
    pub state: Option<TenantState>,
    /// Name of its tier.
    pub tier: Option<String>,
    /// All limits of its own.
    pub limits: Option<OwnLimits>,
}
