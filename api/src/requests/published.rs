//! Requests of published clients that are other forms of requests of this interface.

use serde::Deserialize;
use storage::model::memory::{DecayClass, MemoryRecord};
use storage::{BULK_MAX, MemoryPatch};
use utoipa::ToSchema;

use crate::requests::fields::*;
use crate::requests::numbers::{Heat, Strength};
use crate::requests::values::Items;
use crate::service::bulk::BulkTargets;

/// What a `boost` adds to the heat without a strength.
const BOOST_DEFAULT: f64 = 0.3;

// The derive below needs a literal.
const _: () = assert!(BULK_MAX == 500);

/// Heats that several memories get.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct BoostBatch {
    #[schema(value_type = Vec<Boosted>, min_items = 1, max_items = 500)]
    pub(crate) boosts: Items<Boosted, 1, BULK_MAX>,
}

/// The heat that a memory gets.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct Boosted {
    pub(crate) id: MemoryIdText,
    pub(crate) heat: Heat,
}

/// What to add to the heat of a memory.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Boost {
    #[schema(default = 0.3)]
    strength: Option<Strength>,
}

impl BoostBatch {
    /// The memories that get the same heat, with that heat.
    pub(crate) fn by_heat(self) -> Vec<(BulkTargets, MemoryPatch)> {
        let mut groups: Vec<(f32, BulkTargets)> = Vec::new();
        for Boosted { id, heat } in self.boosts.0 {
            let heat = heat.0 as f32;
            match groups.iter_mut().find(|(of, _)| *of == heat) {
                Some((_, targets)) => targets.ids.push_back(id.0),
                None => {
                    groups.push((heat, BulkTargets { ids: [id.0].into(), unknown: Vec::new() }))
                }
            }
        }
        let patch = |heat| MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() };
        groups.into_iter().map(|(heat, targets)| (targets, patch(heat))).collect()
    }
}

impl Boost {
    /// The change of a memory. Two boosts at once may count as one.
    pub(crate) fn patch(&self, present: &MemoryRecord) -> MemoryPatch {
        let strength = self.strength.map_or(BOOST_DEFAULT, |it| it.0);
        let heat = (present.heat + strength).min(1.0) as f32;
        MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() }
    }
}

/// Why a memory loses heat.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Deprecation {
    /// Not stored.
    #[expect(dead_code, reason = "validated only")]
    reason: Option<Description>,
}

impl Deprecation {
    /// The change of a memory: as by the action `deprecate` of a trigger.
    pub(crate) fn patch(present: &MemoryRecord) -> MemoryPatch {
        MemoryPatch {
            current_heat: Some((present.heat / 2.0) as f32),
            decay_class: Some(DecayClass::Volatile),
            ..MemoryPatch::default()
        }
    }
}

/// A text to embed.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EmbedText {
    pub(crate) text: FullLabel,
}
