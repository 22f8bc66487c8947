//! The decay tick: a periodic pass over a tenant's memories that reports threshold
//! crossings and archives cold memories. This file holds its replicated state and its
//! rules per memory. `decide` schedules it and writes its changes.
//!
//! Tick n compares two heats per memory: at the clock of tick n − 1 and at its own clock.
//! Each uses the configuration in force at that time. The tick reports memories whose two
//! heats lie on different sides of a threshold. An anchor written between the two ticks
//! stores the heat at tick n − 1 ([`Anchor::tick_heat`]), so only the net change counts.

use serde::{Deserialize, Serialize};

use crate::decay::{Decay, heat};
use crate::heat::Anchor;
use crate::id::{MemoryId, Timestamp};
use crate::memory::Memory;
use crate::retention::RetentionRule;
use crate::thermo::Thermo;
use crate::trigger_match::HeatTransition;

/// A tenant's last tick, complete or in progress. A new leader continues it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Number of the tick, from 1. 0 before the first tick.
    pub number: u64,
    /// Clock of the previous tick.
    pub from: Timestamp,
    /// Configuration in force at `from`.
    pub thermo_from: Box<Thermo>,
    /// Clock of this tick.
    pub until: Timestamp,
    /// Configuration in force at `until`.
    pub thermo: Box<Thermo>,
    /// Progress.
    pub stage: Stage,
}

/// What a step of a tick works on. The leader finds it beside the decisions, since it reads all
/// memories of the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TickStep {
    /// The tick before the step: the last one, or the one that begins.
    pub tick: Tick,
    /// The heats at which triggers may begin or cease to hold, in order.
    pub thresholds: Vec<f64>,
    /// The rules of retention.
    pub rules: Vec<RetentionRule>,
    /// Candidates after the memory that `tick` has reached, in the order of their ids.
    pub candidates: Vec<MemoryId>,
    /// Whether more candidates follow.
    pub has_more: bool,
    /// Memories that the tick archives: the hot tier has as many above its maximum.
    pub archivable: u64,
}

/// Progress of a tick. Both passes visit memories in order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Crossings are evaluated up to and including this memory.
    Evaluating(Option<MemoryId>),
    /// All crossings are evaluated. Cold memories are archived up to and including this one.
    Archiving(Option<MemoryId>),
    /// Cold memories are archived. Rules of retention are applied up to and including this one.
    Retaining(Option<MemoryId>),
    /// The tick is complete.
    Done,
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
            stage: Stage::Evaluating(None),
        }
    }

    /// When the next step is due: that of this tick if it is in progress, or the first of the next.
    pub fn due_at(&self, interval_seconds: u32) -> Timestamp {
        let interval = i64::from(interval_seconds) * Timestamp::SECOND_MICROS;
        match self.stage {
            Stage::Done => Timestamp(self.until.0.saturating_add(interval)),
            _ => self.until,
        }
    }

    /// Whether this tick still has to evaluate memory `id`.
    pub fn has_not_reached(&self, id: MemoryId) -> bool {
        let Stage::Evaluating(reached) = self.stage else { return false };
        reached.is_none_or(|reached| reached < id)
    }

    /// Heats at the previous tick and at this one. `None` for an anchor written after this
    /// tick's clock: the memory was evaluated when that anchor was written.
    pub fn heats(&self, memory: &Memory, anchor: &Anchor) -> Option<(f64, f64)> {
        if anchor.at > self.until {
            return None;
        }
        let before = match anchor.at > self.from {
            true => f64::from(anchor.tick_heat),
            false => heat(anchor, Decay::of(memory, &self.thermo_from), self.from),
        };
        Some((before, heat(anchor, Decay::of(memory, &self.thermo), self.until)))
    }

    /// Change of a memory's heat since the previous tick. `None` as for [`Tick::heats`].
    pub fn transition(&self, memory: &Memory, anchor: &Anchor) -> Option<HeatTransition> {
        let (before, now) = self.heats(memory, anchor)?;
        let start = if anchor.at > self.from { anchor.heat.into() } else { before };
        let was_cold = self.thermo_from.is_cold(before);
        let is_cold = self.thermo.is_cold(now);
        let cold_threshold = self.thermo.consolidation.cold_threshold;
        Some(HeatTransition { before, start, now, was_cold, is_cold, cold_threshold })
    }

    /// The [`Anchor::tick_heat`] of an anchor that replaces `anchor`.
    pub fn tick_heat(&self, memory: &Memory, anchor: &Anchor) -> f32 {
        self.heats(memory, anchor).map_or(anchor.tick_heat, |(_, now)| now as f32)
    }
}

impl TickStep {
    /// The candidates that are left for `tick`, if it is the one of these candidates, a later step of it.
    pub fn after(mut self, tick: &Tick, thresholds: &[f64]) -> Option<Self> {
        let (Stage::Evaluating(_), Stage::Evaluating(reached)) = (self.tick.stage, tick.stage)
        else {
            return None;
        };
        self.tick.stage = tick.stage;
        if self.tick != *tick || self.thresholds != thresholds {
            return None;
        }
        let is_done = |id: &MemoryId| reached.is_some_and(|reached| *id <= reached);
        self.candidates.drain(..self.candidates.partition_point(is_done));
        // Without candidates, only another scan tells whether there are more.
        (!self.candidates.is_empty() || !self.has_more).then_some(self)
    }

    /// A step with the first candidates.
    pub fn first(&self, limit: usize) -> Self {
        let mut first = self.clone();
        first.candidates.truncate(limit);
        first.has_more |= first.candidates.len() < self.candidates.len();
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(reached: Option<u8>, candidates: &[u8]) -> TickStep {
        let tick = Tick::none(Timestamp(0), &Thermo::default());
        let mut tick = tick.next(Timestamp(9), &Thermo::default());
        tick.stage = Stage::Evaluating(reached.map(|byte| MemoryId([byte; 16])));
        TickStep {
            tick,
            thresholds: vec![0.5],
            rules: Vec::new(),
            candidates: candidates.iter().map(|byte| MemoryId([*byte; 16])).collect(),
            has_more: false,
            archivable: 0,
        }
    }

    #[test]
    fn candidates_serve_later_steps_of_their_tick() {
        let found = step(None, &[2, 4, 6]);
        let later = step(Some(4), &[6]);
        assert_eq!(found.clone().after(&later.tick, &[0.5]), Some(later.clone()));
        assert_eq!(found.clone().after(&later.tick, &[0.7]), None, "other thresholds");
        let other = Tick { number: 2, ..later.tick.clone() };
        assert_eq!(found.clone().after(&other, &[0.5]), None, "another tick");
        let done = Tick { stage: Stage::Done, ..later.tick };
        assert_eq!(found.after(&done, &[0.5]), None);
    }

    #[test]
    fn first_candidates_leave_more() {
        let found = step(None, &[2, 4]);
        assert_eq!(found.first(1), TickStep { has_more: true, ..step(None, &[2]) });
        assert_eq!(found.first(2), found);
        assert!(TickStep { has_more: true, ..found }.first(2).has_more);
    }
}
