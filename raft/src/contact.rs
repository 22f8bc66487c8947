//! What a node knows from its contact with others: how their wall_clock clocks stand,
//! for the cluster clock, and how fresh its own state is, for local reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use storage::model::id::Timestamp;

use crate::types::NodeId;

/// How long a sample of another node's wall_clock clock counts.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(2);
/// Commit indexes that wait to be applied; one in `PENDING_SPACING` is kept.
const PENDING_MAX: usize = 64;
const PENDING_SPACING: Duration = Duration::from_millis(50);
/// Over how long the shortest delay of messages is remembered, once to twice.
const DELAY_WINDOW: Duration = Duration::from_secs(60);

/// A node's clocks, sent with every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clocks {
    /// Wall clock.
    pub(crate) wall_clock: Timestamp,
    /// Random name of this incarnation of its process.
    pub(crate) boot: u64,
    /// Microseconds since that incarnation began.
    pub(crate) since_boot_micros: u64,
}

/// Shared by the network and those who ask.
pub(crate) struct Contact {
    began: Instant,
    boot: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    peers: BTreeMap<NodeId, PeerClock>,
    freshness: Freshness,
}

/// Another node's clocks as last heard.
struct PeerClock {
    /// Its wall_clock clock minus ours.
    offset_micros: i64,
    heard: Instant,
    delay: Delay,
}

impl Contact {
    /// `boot` is a random name of this incarnation of the process.
    pub(crate) fn new(boot: u64) -> Self {
        Self { began: Instant::now(), boot, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds what is known")
    }

    /// This node's clocks, to be sent.
    pub(crate) fn clocks(&self, wall_clock: Timestamp) -> Clocks {
        let since_boot_micros = micros(self.began.elapsed());
        Clocks { wall_clock, boot: self.boot, since_boot_micros }
    }

    /// Takes note of the clocks that came with a message of `node`, and says for
    /// how long that message was under way beyond what is usual.
    pub(crate) fn heard(&self, node: NodeId, clocks: Clocks, own_wall: Timestamp) -> Duration {
        let now = Instant::now();
        let offset_micros = clocks.wall_clock.0.saturating_sub(own_wall.0);
        let arrived_micros = i64::try_from(micros(now - self.began)).unwrap_or(i64::MAX);
        let sent_micros = i64::try_from(clocks.since_boot_micros).unwrap_or(i64::MAX);
        let mut known = self.known();
        let peer = known.peers.entry(node).or_insert_with(|| PeerClock {
            offset_micros,
            heard: now,
            delay: Delay::new(clocks.boot, now),
        });
        (peer.offset_micros, peer.heard) = (offset_micros, now);
        if peer.delay.boot != clocks.boot {
            peer.delay = Delay::new(clocks.boot, now);
        }
        peer.delay.of(arrived_micros.saturating_sub(sent_micros), now)
    }

    /// Median of the voters' wall_clock clocks, own one included, or `None` without fresh
    /// samples of a quorum of them. Of two in the middle it is the lower one.
    pub(crate) fn median(
        &self,
        local: NodeId,
        voters: &[NodeId],
        own: Timestamp,
    ) -> Option<Timestamp> {
        let known = self.known();
        let fresh = |peer: &&PeerClock| peer.heard.elapsed() <= SAMPLE_AGE_MAX;
        let offset = |voter: &NodeId| match *voter == local {
            true => Some(0),
            false => known.peers.get(voter).filter(fresh).map(|peer| peer.offset_micros),
        };
        let mut offsets: Vec<i64> = voters.iter().filter_map(offset).collect();
        if offsets.len() <= voters.len() / 2 {
            return None;
        }
        offsets.sort_unstable();
        Some(Timestamp(own.0.saturating_add(offsets[(offsets.len() - 1) / 2])))
    }

    /// A leader that a quorum had acknowledged at `as_of` knew `commit` to be committed;
    /// this node has applied up to `applied`.
    pub(crate) fn confirmed(&self, commit: u64, as_of: Instant, applied: u64) {
        let mut known = self.known();
        known.freshness.as_of(applied);
        known.freshness.confirmed(commit, as_of);
    }

    /// Time since this state, applied up to `applied`, was known to be the newest.
    pub(crate) fn staleness(&self, applied: u64) -> Option<Duration> {
        self.known().freshness.as_of(applied).map(|as_of| as_of.elapsed())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// How much longer than usual messages of one peer process take. Two clocks that
/// run at one speed differ by a constant; what exceeds the least difference seen
/// of late is delay: in a network, or in a process that was held.
struct Delay {
    boot: u64,
    since: Instant,
    least: i64,
    least_before: i64,
}

impl Delay {
    fn new(boot: u64, now: Instant) -> Self {
        Self { boot, since: now, least: i64::MAX, least_before: i64::MAX }
    }

    fn of(&mut self, difference_micros: i64, now: Instant) -> Duration {
        if now.duration_since(self.since) > DELAY_WINDOW {
            (self.since, self.least_before, self.least) = (now, self.least, i64::MAX);
        }
        self.least = self.least.min(difference_micros);
        let least = self.least.min(self.least_before);
        Duration::from_micros(u64::try_from(difference_micros.saturating_sub(least)).unwrap_or(0))
    }
}

/// As of when a state is known to be the newest.
#[derive(Default)]
struct Freshness {
    as_of: Option<Instant>,
    /// Commit indexes not applied yet, each with the time at which nothing above it
    /// was acknowledged; both rise.
    pending: VecDeque<(u64, Instant)>,
}

impl Freshness {
    fn confirmed(&mut self, commit: u64, as_of: Instant) {
        let last = self.pending.back();
        let spaced =
            last.is_none_or(|(_, at)| as_of.saturating_duration_since(*at) >= PENDING_SPACING);
        let higher = last.is_none_or(|(index, _)| commit >= *index);
        // At the limit the oldest are what the state will reach first: those stay.
        if spaced && higher && self.pending.len() < PENDING_MAX {
            self.pending.push_back((commit, as_of));
        }
    }

    fn as_of(&mut self, applied: u64) -> Option<Instant> {
        while let Some((commit, as_of)) = self.pending.front() {
            if *commit > applied {
                break;
            }
            self.as_of = self.as_of.max(Some(*as_of));
            self.pending.pop_front();
        }
        self.as_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = Timestamp::SECOND_MICROS;

    fn clocks(wall_clock: i64) -> Clocks {
        Clocks { wall_clock: Timestamp(wall_clock), boot: 1, since_boot_micros: 0 }
    }

    #[test]
    fn the_median_needs_fresh_samples_of_a_quorum_of_voters() {
        let contact = Contact::new(7);
        let own = Timestamp(100 * SECOND);
        assert_eq!(contact.median(1, &[1], own), Some(own));
        assert_eq!(contact.median(1, &[1, 2, 3], own), None);
        contact.heard(2, clocks(90 * SECOND), own);
        assert_eq!(contact.median(1, &[1, 2, 3], own), Some(Timestamp(90 * SECOND)));
        contact.heard(3, clocks(500 * SECOND), own);
        assert_eq!(contact.median(1, &[1, 2, 3], own), Some(own), "one bad clock moves nothing");
        assert_eq!(contact.median(1, &[1, 4, 5], own), None, "others do not count");
    }

    #[test]
    fn a_state_is_fresh_as_of_what_it_has_applied() {
        let contact = Contact::new(7);
        assert_eq!(contact.staleness(9), None);
        let now = Instant::now();
        let (early, late) =
            (now.checked_sub(Duration::from_secs(9)), now.checked_sub(Duration::from_secs(3)));
        contact.confirmed(5, early.unwrap(), 0);
        contact.confirmed(8, late.unwrap(), 0);
        assert_eq!(contact.staleness(4), None, "nothing that was confirmed is applied yet");
        assert!(contact.staleness(5).unwrap() >= Duration::from_secs(9));
        let staleness = contact.staleness(8).unwrap();
        assert!(staleness >= Duration::from_secs(3) && staleness < Duration::from_secs(4));
    }

    #[test]
    fn a_node_that_nobody_reads_stays_fresh_all_the_same() {
        let contact = Contact::new(7);
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        for beat in 0..=400_u32 {
            contact.confirmed(9, long_ago + Duration::from_millis(150) * beat, 9);
        }
        assert!(contact.staleness(9).unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn a_message_that_lay_about_is_told_from_one_that_came_at_once() {
        let now = Instant::now();
        let mut delay = Delay::new(1, now);
        assert_eq!(delay.of(-5_000_000, now), Duration::ZERO);
        assert_eq!(delay.of(-4_999_000, now), Duration::from_millis(1));
        assert_eq!(delay.of(0, now), Duration::from_secs(5));
        let later = now + DELAY_WINDOW + Duration::from_secs(1);
        assert_eq!(delay.of(-4_000_000, later), Duration::from_secs(1));
        let much_later = later + DELAY_WINDOW + Duration::from_secs(1);
        assert_eq!(
            delay.of(-4_000_000, much_later),
            Duration::ZERO,
            "what was long ago is forgotten"
        );
    }
}
