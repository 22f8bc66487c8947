//! Clock faults on simulated machines with injected clocks, through the rule of the cluster clock
//! and the samples of `contact.rs`.

use std::time::Duration;

use proptest::prelude::*;
use storage::model::id::Timestamp;

use crate::contact::{Condition, Contact};
use crate::leader::clock::{ClockTarget, ClusterClock};
use crate::machine::ClockReading;
use crate::system_clock::AppliedStamp;
use crate::types::NodeId;

const HEARTBEAT: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: i64 = Timestamp::SECOND_MICROS;
const DAY: i64 = Timestamp::DAY_MICROS;
const YEARS: i64 = 3_650 * DAY;

struct Machine {
    contact: Contact,
    /// Its wall clock minus real time.
    error_micros: i64,
    /// Real time since 1970 at its start.
    started_at: Duration,
}

/// A cluster whose leader stamps once per heartbeat.
struct Simulation {
    /// Real time since 1970.
    now: Duration,
    machines: Vec<Machine>,
    /// Machines that send nothing.
    silent: Vec<usize>,
    leader: usize,
    clock: ClusterClock,
    /// The last stamp in the state.
    last: Timestamp,
}

impl Simulation {
    fn new(machines: usize) -> Self {
        let now = Duration::from_secs(1_790_000_000);
        let machine = |at: usize| Machine {
            contact: Contact::new(1),
            error_micros: 0,
            started_at: now - MINUTE * (at as u32 + 1),
        };
        let machines: Vec<Machine> = (0..machines).map(machine).collect();
        let clock = ClusterClock::new(Timestamp::default(), None, MINUTE, true);
        let mut this = Self {
            now,
            machines,
            silent: Vec::new(),
            leader: 0,
            clock,
            last: Timestamp::default(),
        };
        this.stamp();
        this.assert_error(-SECOND, SECOND);
        this
    }

    fn reading(&self, at: usize) -> ClockReading {
        let Machine { error_micros, started_at, .. } = self.machines[at];
        let wall_clock = Timestamp(self.real().0 + error_micros);
        let boottime = self.now - started_at;
        ClockReading { wall_clock, boottime, monotonic: boottime }
    }

    fn real(&self) -> Timestamp {
        Timestamp(self.now.as_micros() as i64)
    }

    /// Heartbeats, then a stamp that all nodes apply.
    fn stamp(&mut self) {
        let own = self.reading(self.leader);
        let voters: Vec<NodeId> = (0..self.machines.len() as NodeId).collect();
        let contact = &self.machines[self.leader].contact;
        let is_peer = |at: &usize| *at != self.leader && !self.silent.contains(at);
        for at in (0..self.machines.len()).filter(is_peer) {
            let wall_clock = self.reading(at).wall_clock;
            let condition = Condition { wall_clock, boot: 1, ..Condition::default() };
            contact.record_condition(at as NodeId, condition, own.boottime);
        }
        let samples = contact.samples(&voters, self.leader as NodeId, own);
        let target =
            samples.map(|samples| ClockTarget::new(own.wall_clock, &samples, voters.len()));
        let stamp = self.clock.stamp(own.boottime, target);
        assert!(stamp > self.last, "{stamp} after {}", self.last);
        self.last = stamp;
        for at in 0..self.machines.len() {
            self.machines[at].contact.record_stamp(stamp, self.reading(at).boottime);
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now += HEARTBEAT;
            self.stamp();
        }
    }

    /// Another node becomes the leader, a second later.
    fn elect(&mut self, leader: usize) {
        self.now += Duration::from_secs(1);
        self.leader = leader;
        let last_stamp = self.machines[leader].contact.last_stamp();
        let boottime = self.reading(leader).boottime;
        self.clock =
            ClusterClock::new(self.last, last_stamp, boottime, self.last == Timestamp::default());
    }

    /// All machines are switched off for this time.
    fn shut_down(&mut self, duration: Duration) {
        self.now += duration;
        let started_at = self.now - MINUTE;
        for machine in &mut self.machines {
            (machine.contact, machine.started_at) = (Contact::new(2), started_at);
        }
        self.elect(0);
    }

    fn step_all(&mut self, error_micros: i64) {
        self.machines.iter_mut().for_each(|machine| machine.error_micros = error_micros);
    }

    /// Checks cluster time minus real time.
    #[track_caller]
    fn assert_error(&self, min: i64, max: i64) {
        let error = self.last.0 - self.real().0;
        assert!((min..=max).contains(&error), "{} s", error as f64 / SECOND as f64);
    }
}

#[test]
fn one_bad_clock_of_three_has_no_effect() {
    for (machine, error) in [(0, YEARS), (0, -YEARS), (1, YEARS), (1, -YEARS), (0, 10 * DAY)] {
        let mut cluster = Simulation::new(3);
        cluster.machines[machine].error_micros = error;
        for _ in 0..60 {
            cluster.run(Duration::from_secs(1));
            cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
        }
        cluster.elect(machine);
        cluster.run(MINUTE);
        cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
    }
}

#[test]
fn clock_that_jumps_and_returns_has_no_effect() {
    let mut cluster = Simulation::new(3);
    for at in 0..100 {
        cluster.machines[0].error_micros = [YEARS, 0, -YEARS, 0][at % 4];
        cluster.run(Duration::from_millis(700));
        cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
    }
}

#[test]
fn step_of_all_clocks_is_approached_slowly() {
    for (error, min, max) in [(YEARS, 5, 6), (-YEARS, -6, -5)] {
        let mut cluster = Simulation::new(3);
        cluster.run(MINUTE);
        cluster.step_all(error);
        cluster.run(MINUTE);
        cluster.assert_error(min * SECOND, max * SECOND);
        cluster.elect(1);
        cluster.run(MINUTE);
        cluster.assert_error(2 * min * SECOND - SECOND, 2 * max * SECOND + SECOND);
        cluster.step_all(0);
        cluster.run(3 * MINUTE);
        cluster.assert_error(-SECOND, SECOND);
    }
}

#[test]
fn bad_clocks_at_start_do_not_jump() {
    let mut cluster = Simulation::new(3);
    cluster.machines[0].error_micros = YEARS;
    cluster.shut_down(MINUTE);
    cluster.run(MINUTE);
    cluster.assert_error(0, SECOND);
    for error in [YEARS, -YEARS] {
        cluster.step_all(error);
        cluster.shut_down(MINUTE);
        cluster.run(MINUTE);
        cluster.assert_error(-150 * SECOND, 10 * SECOND);
    }
}

/// A minority of bad clocks is a majority of the first samples.
#[test]
fn two_bad_clocks_of_five_are_ineffective() {
    for (leader, errors) in [
        (0, [10 * DAY, 10 * DAY]),
        (0, [YEARS, YEARS]),
        (0, [-YEARS, -YEARS]),
        (0, [-DAY, DAY]),
        (2, [10 * DAY, 10 * DAY]),
        (2, [-YEARS, -YEARS]),
        (2, [YEARS, -DAY]),
    ] {
        for (waits_for_samples, downtime) in [(1, 1), (1, 5 * 1_440), (59, 5 * 1_440)] {
            let mut cluster = Simulation::new(5);
            (cluster.machines[0].error_micros, cluster.machines[1].error_micros) =
                (errors[0], errors[1]);
            cluster.silent = vec![3, 4];
            cluster.shut_down(MINUTE * downtime);
            cluster.elect(leader);
            cluster.run(Duration::from_secs(waits_for_samples));
            // It is not ahead, and behind by the downtime and the wait at most.
            let behind = i64::from(downtime + 2) * 60 * SECOND;
            cluster.assert_error(-behind, SECOND * 6 / 10);
            cluster.silent.clear();
            cluster.run(HEARTBEAT);
            cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
            cluster.run(MINUTE);
            cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
        }
    }
}

#[test]
fn disagreeing_samples_move_the_clock_into_their_interval() {
    let mut cluster = Simulation::new(5);
    cluster.run(MINUTE);
    (cluster.machines[0].error_micros, cluster.machines[1].error_micros) = (YEARS, YEARS);
    cluster.silent = vec![3, 4];
    cluster.now += Duration::from_secs(2 * 3_600);
    cluster.elect(2);
    cluster.run(10 * MINUTE);
    cluster.assert_error(-SECOND * 6 / 10, SECOND * 6 / 10);
}

/// The start waits for a minute. A member that is down, and a bad clock, do not stop the time.
#[test]
fn start_without_agreement_ends() {
    let mut cluster = Simulation::new(3);
    cluster.machines[1].error_micros = -DAY;
    cluster.silent = vec![2];
    cluster.shut_down(MINUTE);
    cluster.run(3 * MINUTE);
    cluster.assert_error(-3 * 60 * SECOND, 0);
    let before = cluster.last;
    cluster.run(MINUTE);
    assert_eq!(cluster.last.0 - before.0, 60 * SECOND);
}

#[test]
fn slow_leader_neither_freezes_nor_jumps() {
    let mut cluster = Simulation::new(3);
    cluster.machines[1].error_micros = -2 * SECOND;
    cluster.elect(1);
    for _ in 0..60 {
        cluster.run(Duration::from_secs(1));
        cluster.assert_error(-SECOND * 6 / 10, 0);
    }
}

#[test]
fn cluster_of_one_approaches_a_step_slowly() {
    let mut cluster = Simulation::new(1);
    cluster.step_all(10 * DAY);
    cluster.run(10 * MINUTE);
    cluster.assert_error(59 * SECOND, 61 * SECOND);
    cluster.step_all(0);
    cluster.run(11 * MINUTE);
    cluster.assert_error(-SECOND, SECOND);
    cluster.step_all(YEARS);
    cluster.shut_down(MINUTE);
    cluster.run(MINUTE);
    cluster.assert_error(-61 * SECOND, 0);
}

#[test]
fn first_stamp_after_days_is_right() {
    for machines in [1, 3] {
        let mut cluster = Simulation::new(machines);
        cluster.shut_down(Duration::from_secs(5 * 86_400));
        cluster.run(HEARTBEAT);
        cluster.assert_error(-SECOND, SECOND);
    }
}

#[test]
fn operator_ends_a_gap_of_months() {
    let mut cluster = Simulation::new(3);
    cluster.shut_down(Duration::from_secs(60 * 86_400));
    cluster.run(MINUTE);
    cluster.assert_error(-60 * DAY, -59 * DAY);
    cluster.clock.allow_jump();
    cluster.run(HEARTBEAT);
    cluster.assert_error(-SECOND, SECOND);
    cluster.elect(2);
    cluster.run(MINUTE);
    cluster.assert_error(-SECOND, SECOND);
}

/// A target on which all samples agree.
fn agreed(at: i64) -> ClockTarget {
    ClockTarget::new(Timestamp(at), &[Timestamp(at)], 1)
}

#[test]
fn restored_cluster_jumps_by_30_days_at_most() {
    let backup = Timestamp(DAY);
    for (days, jumps) in [(29, true), (399, false)] {
        let now = Timestamp(DAY + days * DAY);
        let stamp =
            ClusterClock::new(backup, None, MINUTE, false).stamp(MINUTE, Some(agreed(now.0)));
        assert_eq!(stamp == now, jumps, "{days} days");
    }
}

#[test]
fn new_cluster_begins_at_the_present() {
    let (never, now) = (Timestamp::default(), Timestamp(400 * DAY));
    let mut clock = ClusterClock::new(never, None, MINUTE, true);
    assert_eq!(clock.stamp(MINUTE, Some(agreed(now.0))), now);
    // The next stamps are at the limited rate.
    let stamp = clock.stamp(2 * MINUTE, Some(agreed(500 * DAY)));
    assert_eq!(stamp, Timestamp(now.0 + 66 * SECOND));
}

/// A follower that was not informed of an operator's jump before it became the leader does not
/// wait it out.
#[test]
fn unseen_jump_does_not_freeze_the_next_leader() {
    let boottime = Duration::from_secs(9);
    let applied = AppliedStamp { stamp: Timestamp(SECOND), boottime };
    let mut clock = ClusterClock::new(Timestamp(YEARS), Some(applied), boottime, false);
    let stamp = clock.stamp(boottime + MINUTE, Some(agreed(2 * YEARS)));
    assert_eq!(stamp, Timestamp(YEARS + 66 * SECOND));
}

#[test]
fn without_samples_the_rate_is_one() {
    let start = AppliedStamp { stamp: Timestamp(SECOND), boottime: MINUTE };
    let mut clock = ClusterClock::new(start.stamp, Some(start), MINUTE, false);
    assert_eq!(clock.stamp(2 * MINUTE, None), Timestamp(61 * SECOND));
    // The first stamp of a process waits for samples before it jumps.
    let mut clock = ClusterClock::new(start.stamp, None, MINUTE, false);
    assert_eq!(clock.stamp(2 * MINUTE, None), Timestamp(SECOND + 1));
    assert_eq!(clock.stamp(2 * MINUTE, Some(agreed(DAY))), Timestamp(DAY));
}

proptest! {
    #[test]
    fn stamps_ascend_at_a_limited_rate(
        rounds in prop::collection::vec(
            (0..10_000_000_u64, prop::option::of(-YEARS..YEARS)),
            1..200,
        ),
    ) {
        let (mut boottime, mut last) = (MINUTE, Timestamp(YEARS));
        let applied = AppliedStamp { stamp: last, boottime };
        let mut clock = ClusterClock::new(last, Some(applied), boottime, false);
        for (elapsed, distance) in rounds {
            boottime += Duration::from_micros(elapsed);
            let target = distance.map(|distance| agreed(last.0 + distance));
            let stamp = clock.stamp(boottime, target);
            let (advance, elapsed) = (stamp.0 - last.0, elapsed as i64);
            prop_assert!(advance >= 1 && advance >= elapsed * 9 / 10);
            prop_assert!(advance == 1 || advance <= elapsed * 11 / 10);
            last = stamp;
        }
    }
}
