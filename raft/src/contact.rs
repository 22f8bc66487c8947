//! Peer contact: the wall clocks of the other nodes, the cluster time that the leader stamps, and
//! the freshness of this node's state.
//!
//! # Wall clocks
//! Every message carries the wall clock of its sender. The receiver records it with its own boot
//! time, which no step of its own wall clock moves. [`Contact::samples`] returns fresh samples of a
//! quorum. The target of the cluster clock (`leader/clock.rs`) is near their median, so a minority
//! of bad clocks cannot move it.
//!
//! # Cluster time
//! The next leader limits the rate of the cluster clock since the last stamp. It needs the time of
//! that stamp. A follower records each stamp that the present leader made when it has applied it.
//! A stamp of an earlier term may be days old: it comes from a log that was written before a
//! downtime. It is not recorded.
//!
//! # Freshness
//! A follower serves local reads and reports their staleness. With each AppendEntries the
//! leader sends its commit index and the age of its last quorum acknowledgement. Call the time
//! of that acknowledgement `as_of`. No other leader committed anything up to `as_of`, so
//! nothing above the commit index was acknowledged to a client by then. Once the follower has
//! applied the commit index, its state was the newest at `as_of`. The staleness is the time
//! since then.
//!
//! # Delay
//! The age in a message is correct only at the time of sending. A slow network or a paused
//! process delivers a message late, and the follower would report too little staleness. The boot
//! times of two machines advance at almost the same rate, also while one of them is suspended.
//! Arrival time minus sending time is therefore a constant plus the delay. In the other direction the
//! constant has the opposite sign. So the leader sends the least difference of the follower's messages of the last
//! one to two minutes. Added to the difference of its message, the constants cancel out: the sum is the
//! delay of this message plus the least delay of the others (Cristian's bound, 1989). Without that of
//! the follower's present process, a message does not count.
//!
//! A call that arrives late has less time left. The excess over the least difference is an estimate of
//! its delay that suffices for that, the base-delay filter of LEDBAT (RFC 6817).
//!
//! Invariant: the reported staleness is never below the real one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use storage::model::id::Timestamp;
use storage::model::release::Release;

use crate::machine::ClockReading;
use crate::system_clock::AppliedStamp;
use crate::types::NodeId;

/// Age after which a wall-clock sample is ignored. The clock of a node that is down counts for
/// this time: without it, one bad clock of the two other nodes would decide. Two machines drift
/// apart by less than 200 ms in an hour.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Maximum commit indexes that are kept until they are applied.
const PENDING_MAX: usize = 64;
/// Minimum distance between two of them.
const PENDING_SPACING: Duration = Duration::from_millis(50);
/// Length of a window of the minimum delay. The minimum covers this and the previous window.
const DELAY_WINDOW: Duration = Duration::from_secs(60);

/// The clocks of a node, whether it can lead, and its release; part of every message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    pub(crate) wall_clock: Timestamp,
    /// Random id of this incarnation of the sender's process.
    pub(crate) boot: u64,
    /// The boot time of its machine, in microseconds.
    pub(crate) boottime_micros: u64,
    /// Whether its disk has less free space than its reserve.
    pub(crate) disk_full: bool,
    /// Whether another node should lead (`membership/unfit.rs`).
    pub(crate) is_unfit: bool,
    pub(crate) release: Release,
}

/// How much later a message arrived than it was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    /// Boot time of the arrival minus that of the sending, on two machines: it may be negative.
    difference_micros: i64,
    /// Its excess over the least one.
    pub(crate) excess: Duration,
}

/// The least difference of arrival and sending among the last messages of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeastDifference {
    boot: u64,
    micros: i64,
}

/// How often an earlier process sends after a later one, if there are two: late messages of a process
/// that was started again do so once.
const RETURNS_OF_TWO: u32 = 4;

/// The contact of this node with its peers.
pub(crate) struct Contact {
    boot: u64,
    disk_full: AtomicBool,
    is_unfit: AtomicBool,
    state: Mutex<ContactState>,
}

#[derive(Default)]
struct ContactState {
    peers: BTreeMap<NodeId, PeerCondition>,
    /// The last stamp that a leader made during this process.
    stamp: Option<AppliedStamp>,
    freshness: Freshness,
}

/// The last condition of one peer.
struct PeerCondition {
    wall_clock: Timestamp,
    /// Local boot time of the sample.
    sampled_at: Duration,
    delay: DelayFilter,
    disk_full: bool,
    is_unfit: bool,
    release: Release,
    /// The process before this one, and how often an earlier one sent again after a later one.
    former_boot: Option<u64>,
    returns: u32,
}

impl PeerCondition {
    /// Its wall clock at this boot time, if the sample is fresh.
    fn at(&self, boottime: Duration) -> Option<Timestamp> {
        let age = boottime.saturating_sub(self.sampled_at);
        (age <= SAMPLE_AGE_MAX).then(|| self.wall_clock.plus(age))
    }
}

impl Contact {
    /// `boot` is a random id of this incarnation of the process.
    pub(crate) fn new(boot: u64) -> Self {
        let (disk_full, is_unfit, state) = Default::default();
        Self { boot, disk_full, is_unfit, state }
    }

    /// The condition of this node, for a message that is sent now.
    pub(crate) fn condition(&self, now: ClockReading, release: Release) -> Condition {
        Condition {
            wall_clock: now.wall_clock,
            boot: self.boot,
            boottime_micros: u64::try_from(now.boottime.as_micros()).unwrap_or(u64::MAX),
            disk_full: self.disk_full.load(Ordering::Relaxed),
            is_unfit: self.is_unfit.load(Ordering::Relaxed),
            release,
        }
    }

    /// Sets whether the disk of this node is full.
    pub(crate) fn set_disk_full(&self, is_full: bool) {
        self.disk_full.store(is_full, Ordering::Relaxed);
    }

    /// Sets whether another node should lead.
    pub(crate) fn set_unfit(&self, is_unfit: bool) {
        self.is_unfit.store(is_unfit, Ordering::Relaxed);
    }

    /// Whether the last message of a peer said that another node should lead.
    pub(crate) fn is_unfit(&self, node: NodeId) -> bool {
        self.state.lock().peers.get(&node).is_some_and(|peer| peer.is_unfit)
    }

    /// The nodes whose last message said that their disk is full, and `local` if its own is.
    pub(crate) fn full_disks(&self, local: NodeId) -> Vec<NodeId> {
        let own = self.disk_full.load(Ordering::Relaxed).then_some(local);
        let state = self.state.lock();
        let peers = state.peers.iter().filter(|(_, peer)| peer.disk_full).map(|(node, _)| *node);
        own.into_iter().chain(peers).collect()
    }

    /// The release of a peer, as its last message said.
    pub(crate) fn release(&self, node: NodeId) -> Option<Release> {
        self.state.lock().peers.get(&node).map(|peer| peer.release)
    }

    /// Records the condition in a message that arrives at `boottime` from `node`: a call, or a response.
    pub(crate) fn record_condition(
        &self,
        node: NodeId,
        condition: Condition,
        boottime: Duration,
    ) -> Arrival {
        let (arrival, are_two) = self.record(node, condition, boottime);
        if are_two {
            tracing::error!(
                node,
                "two processes send as this node: one of them has a copy of its data folder; stop it"
            );
        }
        arrival
    }

    /// The least difference of the messages of `node`, for it to know how late those of this node arrive.
    pub(crate) fn least_difference(&self, node: NodeId) -> Option<LeastDifference> {
        let state = self.state.lock();
        let DelayFilter { boot, ref least, .. } = state.peers.get(&node)?.delay;
        Some(LeastDifference { boot, micros: *least.iter().min()? })
    }

    /// The longest delay that a message of a peer can have had. `least` is that of the messages of this node
    /// there. `None` if it is that of another process.
    pub(crate) fn delay_max(
        &self,
        arrival: Arrival,
        least: Option<LeastDifference>,
    ) -> Option<Duration> {
        let least = least.filter(|least| least.boot == self.boot)?;
        let delay = arrival.difference_micros.saturating_add(least.micros);
        Some(Duration::from_micros(u64::try_from(delay).unwrap_or(0)))
    }

    /// Returns also whether two processes turn out to send as `node`.
    fn record(&self, node: NodeId, condition: Condition, boottime: Duration) -> (Arrival, bool) {
        let arrived_micros = i64::try_from(boottime.as_micros()).unwrap_or(i64::MAX);
        let sent_micros = i64::try_from(condition.boottime_micros).unwrap_or(i64::MAX);
        let mut state = self.state.lock();
        let last = state.peers.remove(&node);
        let (mut former_boot, mut returns) =
            last.as_ref().map_or((None, 0), |peer| (peer.former_boot, peer.returns));
        let is_other = |peer: &PeerCondition| peer.delay.boot != condition.boot;
        if let Some(peer) = last.as_ref().filter(|peer| is_other(peer)) {
            returns = if former_boot == Some(condition.boot) { returns + 1 } else { 0 };
            former_boot = Some(peer.delay.boot);
        }
        let are_two = returns == RETURNS_OF_TWO && last.as_ref().is_some_and(is_other);
        let last = last.filter(|peer| !is_other(peer));
        let mut delay =
            last.map_or_else(|| DelayFilter::new(condition.boot, boottime), |peer| peer.delay);
        let difference_micros = arrived_micros.saturating_sub(sent_micros);
        let excess = delay.record(difference_micros, boottime);
        let Condition { wall_clock, disk_full, is_unfit, release, .. } = condition;
        let sampled_at = boottime;
        let peer = PeerCondition {
            wall_clock,
            sampled_at,
            delay,
            disk_full,
            is_unfit,
            release,
            former_boot,
            returns,
        };
        state.peers.insert(node, peer);
        (Arrival { difference_micros, excess }, are_two)
    }

    /// The wall clock of each of these nodes; `None` without a fresh sample. `own` is that of the
    /// node `local`.
    pub(crate) fn wall_clocks(
        &self,
        nodes: &[NodeId],
        local: NodeId,
        own: ClockReading,
    ) -> Vec<Option<Timestamp>> {
        let state = self.state.lock();
        let wall_clock = |node: &NodeId| match *node == local {
            true => Some(own.wall_clock),
            false => state.peers.get(node).and_then(|peer| peer.at(own.boottime)),
        };
        nodes.iter().map(wall_clock).collect()
    }

    /// Fresh samples of the voters' wall clocks in ascending order, including this node's own;
    /// `None` without those of a quorum.
    pub(crate) fn samples(
        &self,
        voters: &[NodeId],
        local: NodeId,
        own: ClockReading,
    ) -> Option<Vec<Timestamp>> {
        let samples = self.wall_clocks(voters, local, own);
        let mut samples: Vec<Timestamp> = samples.into_iter().flatten().collect();
        samples.sort_unstable();
        (samples.len() > voters.len() / 2).then_some(samples)
    }

    /// Records a stamp that the present leader made, and that this node has applied.
    pub(crate) fn record_stamp(&self, stamp: Timestamp, boottime: Duration) {
        let last = &mut self.state.lock().stamp;
        // A stamp is recorded when it is first seen: the rate counts from then.
        if last.is_none_or(|last| last.stamp < stamp) {
            *last = Some(AppliedStamp { stamp, boottime });
        }
    }

    /// The last recorded stamp.
    pub(crate) fn last_stamp(&self) -> Option<AppliedStamp> {
        self.state.lock().stamp
    }

    /// Time from the last message from `node` to `boottime`; `None` if there was none in this
    /// process.
    pub(crate) fn message_age(&self, node: NodeId, boottime: Duration) -> Option<Duration> {
        let last = self.state.lock().peers.get(&node).map(|peer| peer.sampled_at);
        last.map(|at| boottime.saturating_sub(at))
    }

    /// Records that a leader, acknowledged by a quorum at the local boot time `as_of`, had the commit
    /// index `commit`. This node has applied the log up to `applied`.
    pub(crate) fn record_commit(&self, commit: u64, as_of: Duration, applied: u64) {
        let mut state = self.state.lock();
        state.freshness.as_of(applied);
        state.freshness.record_commit(commit, as_of);
    }

    /// Time from when the state, applied up to `applied`, was last confirmed as the newest, to
    /// `boottime`; `None` if it never was in this process.
    pub(crate) fn staleness(&self, applied: u64, boottime: Duration) -> Option<Duration> {
        let as_of = self.state.lock().freshness.as_of(applied)?;
        Some(boottime.saturating_sub(as_of))
    }
}

/// The base-delay filter for messages of one peer process.
struct DelayFilter {
    boot: u64,
    window_start: Duration,
    /// Least differences of this window and the previous one, in microseconds.
    least: [i64; 2],
}

impl DelayFilter {
    fn new(boot: u64, now: Duration) -> Self {
        Self { boot, window_start: now, least: [i64::MAX; 2] }
    }

    /// Records a difference of arrival and sending time. Returns its excess over the least one.
    fn record(&mut self, difference_micros: i64, now: Duration) -> Duration {
        if now.saturating_sub(self.window_start) > DELAY_WINDOW {
            self.window_start = now;
            self.least = [i64::MAX, self.least[0]];
        }
        self.least[0] = self.least[0].min(difference_micros);
        let excess = difference_micros.saturating_sub(self.least[0].min(self.least[1]));
        Duration::from_micros(u64::try_from(excess).unwrap_or(0))
    }
}

/// The latest time at which the applied state was confirmed as the newest.
#[derive(Default)]
struct Freshness {
    as_of: Option<Duration>,
    /// Commit indexes that are not applied yet, each with its `as_of`. Both are ascending.
    pending: VecDeque<(u64, Duration)>,
}

impl Freshness {
    fn record_commit(&mut self, commit: u64, as_of: Duration) {
        let last = self.pending.back();
        let spaced = last.is_none_or(|(_, at)| as_of.saturating_sub(*at) >= PENDING_SPACING);
        let ascending = last.is_none_or(|(index, _)| commit >= *index);
        // A full queue keeps the oldest entries, because those are applied first.
        if spaced && ascending && self.pending.len() < PENDING_MAX {
            self.pending.push_back((commit, as_of));
        }
    }

    fn as_of(&mut self, applied: u64) -> Option<Duration> {
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
    use crate::system_clock::median;

    const SECOND: i64 = Timestamp::SECOND_MICROS;

    fn clocks(wall_clock: i64) -> Condition {
        let wall_clock = Timestamp(wall_clock);
        Condition { wall_clock, boot: 1, ..Condition::default() }
    }

    #[test]
    fn median_needs_fresh_samples_of_a_quorum() {
        let contact = Contact::new(7);
        let at = |seconds, boottime| ClockReading {
            wall_clock: Timestamp(seconds * SECOND),
            boottime: Duration::from_secs(boottime),
            monotonic: Duration::from_secs(boottime),
        };
        let median = |voters: &[NodeId], own| {
            contact.samples(voters, 1, own).map(|samples| median(&samples).0 / SECOND)
        };
        let own = at(100, 10);
        assert_eq!(median(&[1], own), Some(100));
        assert_eq!(median(&[1, 2, 3], own), None);
        contact.record_condition(2, clocks(90 * SECOND), own.boottime);
        assert_eq!(median(&[1, 2, 3], own), Some(90));
        contact.record_condition(3, clocks(500 * SECOND), own.boottime);
        assert_eq!(median(&[1, 2, 3], own), Some(100), "one bad clock has no effect");
        assert_eq!(median(&[1, 4, 5], own), None, "only voters count");
        assert_eq!(median(&[1, 2, 3], at(864_101, 11)), Some(501), "own step: samples advance");
        contact.record_condition(3, clocks(102 * SECOND), Duration::from_secs(12));
        assert_eq!(median(&[1, 2, 3], at(864_102, 12)), Some(102), "own step has no effect");
        assert_eq!(median(&[1, 2, 3], at(9, 3_610)), Some(3_690), "a silent node still counts");
        assert_eq!(median(&[1, 2, 3], at(3_593, 3_613)), None, "samples are too old");
    }

    #[test]
    fn two_processes_of_one_node_are_noticed_once() {
        let contact = Contact::new(7);
        let send = |boot| {
            let condition = Condition { boot, ..clocks(SECOND) };
            contact.record(2, condition, Duration::from_secs(1)).1
        };
        let restarted = [1, 1, 2, 1, 2, 2, 3, 3, 2, 3].map(send);
        assert!(!restarted.contains(&true), "late messages of the process before");
        let twins = [3, 4, 3, 4, 3, 4, 3, 4, 3].map(send);
        assert_eq!(twins.iter().filter(|are_two| **are_two).count(), 1);
    }

    #[test]
    fn stamp_is_recorded_when_first_seen() {
        let contact = Contact::new(7);
        for (stamp, boottime) in [(5, 1), (5, 2), (9, 3), (7, 4)] {
            contact.record_stamp(Timestamp(stamp), Duration::from_secs(boottime));
        }
        let expected = AppliedStamp { stamp: Timestamp(9), boottime: Duration::from_secs(3) };
        assert_eq!(contact.last_stamp(), Some(expected));
    }

    #[test]
    fn freshness_starts_when_the_commit_is_applied() {
        let (contact, at) = (Contact::new(7), Duration::from_secs);
        assert_eq!(contact.staleness(9, at(10)), None);
        contact.record_commit(5, at(1), 0);
        contact.record_commit(8, at(7), 0);
        assert_eq!(contact.staleness(4, at(10)), None, "no recorded commit is applied yet");
        assert_eq!(contact.staleness(5, at(10)), Some(at(9)));
        assert_eq!(contact.staleness(8, at(10)), Some(at(3)));
    }

    #[test]
    fn freshness_advances_without_reads() {
        let contact = Contact::new(7);
        for beat in 0..=400_u32 {
            contact.record_commit(9, Duration::from_millis(150) * beat, 9);
        }
        assert!(contact.staleness(9, Duration::from_secs(60)).unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn delay_is_bounded_by_messages_the_other_way() {
        // The machine of the follower has been up for 1,000 seconds longer.
        let (leader, follower) = (Contact::new(1), Contact::new(2));
        let at = |micros| Duration::from_micros(micros);
        let sent = |boot, micros| Condition { boot, boottime_micros: micros, ..clocks(0) };
        let offset = 1_000_000_000;
        assert_eq!(leader.least_difference(9), None);
        for (sent_at, delay) in [(5_000_000, 900_000), (6_000_000, 300), (7_000_000, 80_000)] {
            leader.record_condition(9, sent(2, offset + sent_at), at(sent_at + delay));
        }
        // The first message of the leader is late by a second.
        let arrival =
            follower.record_condition(4, sent(1, 8_000_000), at(offset + 8_000_000 + 1_000_000));
        assert_eq!(arrival.excess, Duration::ZERO);
        let least = leader.least_difference(9);
        assert_eq!(follower.delay_max(arrival, least), Some(at(1_000_300)));
        assert_eq!(Contact::new(3).delay_max(arrival, least), None, "of another process");
        assert_eq!(follower.delay_max(arrival, None), None);
    }

    #[test]
    fn late_messages_count_as_delayed() {
        let now = Duration::from_secs(100);
        let mut delay = DelayFilter::new(1, now);
        assert_eq!(delay.record(-5_000_000, now), Duration::ZERO);
        assert_eq!(delay.record(-4_999_000, now), Duration::from_millis(1));
        assert_eq!(delay.record(0, now), Duration::from_secs(5));
        let later = now + DELAY_WINDOW + Duration::from_secs(1);
        assert_eq!(delay.record(-4_000_000, later), Duration::from_secs(1));
        let much_later = later + DELAY_WINDOW + Duration::from_secs(1);
        // The old minimum expires after two windows.
        assert_eq!(delay.record(-4_000_000, much_later), Duration::ZERO);
    }
}
