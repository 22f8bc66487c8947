//! The tick: what a tenant's state remembers of it, and how it judges a memory. When it
//! comes and what it writes is `decide`'s business.
//!
//! Tick n looks at heats as of the clock of tick n − 1 and as of its own, each by the
//! configuration in force then, and reports what lies on another side of a bound. An
//! anchor written in between carries the heat of the earlier instant with it
//! ([`Anchor::tick_heat`]), so that what happened between two ticks is told by its outcome.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::heat::{Anchor, Cooling, heat};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::Memory;
use crate::model::thermo::Thermo;
use crate::model::trigger::HeatTransition;

/// A tenant's last tick, done or under way: whoever leads next goes on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Its number, from 1; 0 before the first.
    pub number: u64,
    /// Clock of the tick before.
    pub from: Timestamp,
    /// Configuration in force then.
    pub thermo_from: Box<Thermo>,
    /// Its own clock.
    pub until: Timestamp,
    /// Configuration in force as of its own clock.
    pub thermo: Box<Thermo>,
    /// How far it has come.
    pub stage: Stage,
}

/// How far a tick has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Memories up to this one, in order of their ids, are judged.
    Judging(Option<MemoryId>),
    /// All are judged; cold ones up to this one are archived.
    Archiving(Option<MemoryId>),
    /// It is done.
    Done,
}

impl Record for Tick {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "tick";
}

/// To which side of a bound a heat has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// It was below and is not any more.
    Warmed,
    /// It was not below and is now.
    Cooled,
}

impl Tick {
    /// The state before a tenant's first tick.
    pub fn none(created_at: Timestamp, thermo: &Thermo) -> Self {
        let thermo = Box::new(thermo.clone());
        let (from, until) = (created_at, created_at);
        Self { number: 0, from, thermo_from: thermo.clone(), until, thermo, stage: Stage::Done }
    }

    /// The tick after this one, as of `until`.
    #[must_use]
    pub fn next(self, until: Timestamp, thermo: &Thermo) -> Self {
        Self {
            number: self.number + 1,
            from: self.until,
            thermo_from: self.thermo,
            until,
            thermo: Box::new(thermo.clone()),
            stage: Stage::Judging(None),
        }
    }

    /// Whether there is something to do at `now`: this tick is under way, or the next is due.
    pub fn is_due(&self, now: Timestamp, interval_seconds: u32) -> bool {
        let interval = i64::from(interval_seconds) * Timestamp::SECOND_MICROS;
        self.stage != Stage::Done || now.since(self.until) >= interval
    }

    /// Whether this tick is under way and has not come to a memory yet.
    pub fn is_before(&self, id: MemoryId) -> bool {
        matches!(self.stage, Stage::Judging(reached) if reached.is_none_or(|reached| reached < id))
    }

    /// Heats as of the tick before and as of this one; `None` for an anchor written since:
    /// it was judged when it was written.
    pub fn heats(&self, memory: &Memory, anchor: &Anchor) -> Option<(f64, f64)> {
        if anchor.at > self.until {
            return None;
        }
        let before = match anchor.at > self.from {
            true => f64::from(anchor.tick_heat),
            false => heat(anchor, Cooling::of(memory, &self.thermo_from), self.from),
        };
        Some((before, heat(anchor, Cooling::of(memory, &self.thermo), self.until)))
    }

    /// Whether a memory crossed `cold_threshold`, and to which side. A threshold that was
    /// moved past a heat was crossed as well.
    pub fn crossing(&self, memory: &Memory, anchor: &Anchor) -> Option<Crossing> {
        let (before, now) = self.heats(memory, anchor)?;
        let was_cold = self.thermo_from.is_cold(before);
        let is_cold = self.thermo.is_cold(now);
        match (was_cold, is_cold) {
            (false, true) => Some(Crossing::Cooled),
            (true, false) => Some(Crossing::Warmed),
            _ => None,
        }
    }

    /// How a memory's heat went since the tick before; `None` as for [`Tick::heats`].
    pub fn transition(&self, memory: &Memory, anchor: &Anchor) -> Option<HeatTransition> {
        let (before, now) = self.heats(memory, anchor)?;
        let start = if anchor.at > self.from { anchor.heat.into() } else { before };
        let cold = (self.thermo_from.is_cold(before), self.thermo.is_cold(now));
        let cold_threshold = self.thermo.consolidation.cold_threshold;
        Some(HeatTransition { before, start, now, cold, cold_threshold })
    }

    /// What an anchor that replaces this one carries as its [`Anchor::tick_heat`].
    pub fn tick_heat(&self, memory: &Memory, anchor: &Anchor) -> f32 {
        self.heats(memory, anchor).map_or(anchor.tick_heat, |(_, now)| now as f32)
    }
}
