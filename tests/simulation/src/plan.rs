//! The faults of a run, and when they begin. A seed decides them before the run, so that the same run
//! without some of them is possible.

use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use fastrand::Rng;
use raft::NodeId;
use raft::simulation::DiskStep;

use crate::faults::{Fault, happen};
use crate::named::NAMED;
use crate::process::End;
use crate::timeline::sleep_until;
use crate::world::{EndAt, World};

/// Time of the clients.
pub const CLIENTS_TIME: Duration = Duration::from_secs(45);
/// Time of a run in which faults begin.
const FAULTS_TIME: Duration = Duration::from_secs(40);
/// So many seeds have a run that is so many times as long, with as many faults.
const LONG_ONE_OF: u8 = 20;
const LONG: u32 = 4;
/// The node that takes the place of one with a lost disk.
const REPLACEMENT: NodeId = 31;

/// So many seeds have one with a plan of those with a name.
const NAMED_ONE_OF: u64 = 8;

/// Which plan a run has.
#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    /// The seed.
    #[arg(long)]
    pub seed: u64,
    /// A plan with a name, instead of the one of the seed.
    #[arg(long, value_parser = PossibleValuesParser::new(NAMED.map(|(name, _)| name)))]
    pub plan: Option<String>,
}

impl Choice {
    /// The plan.
    pub fn plan(&self) -> Plan {
        let by_name = |name: &String| NAMED.iter().find(|(known, _)| known == name);
        match self.plan.as_ref().and_then(by_name) {
            Some((_, plan)) => plan(&mut Rng::with_seed(self.seed)),
            None => Plan::new(self.seed),
        }
    }

    /// Arguments that choose it.
    pub fn arguments(&self) -> Vec<String> {
        let plan = self.plan.iter().flat_map(|name| ["--plan".into(), name.clone()]);
        ["--seed".into(), self.seed.to_string()].into_iter().chain(plan).collect()
    }
}

/// The faults of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The first members.
    pub nodes: Vec<NodeId>,
    /// Clients.
    pub clients: u64,
    /// The faults, with the time since the start of the run.
    pub faults: Vec<(Duration, Fault)>,
    /// Time of the clients.
    pub time: Duration,
    /// Whether the cluster is lost at the end, and recovered.
    pub is_recovered: bool,
    /// Whether its faults leave a majority that must go on: until the faults end, writes are acknowledged.
    pub goes_on: bool,
    /// Faults that do not happen, by their numbers.
    pub skipped: Vec<usize>,
}

fn seconds(random: &mut Rng, min: f64, max: f64) -> Duration {
    Duration::from_millis((random.f64() * (max - min) * 1_000.0 + min * 1_000.0) as u64)
}

impl Plan {
    /// The plan of a seed.
    fn new(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        if seed.is_multiple_of(NAMED_ONE_OF) {
            let (_, plan) = NAMED[(seed / NAMED_ONE_OF) as usize % NAMED.len()];
            return plan(random);
        }
        let count = [1, 2, 3, 3, 3, 3, 3, 5, 5, 4][random.usize(0..10)];
        let nodes: Vec<NodeId> = (1..=count).collect();
        let mut faults = Vec::new();
        // Some runs have many faults, some few: a rare one is then alone.
        let pause = [1.0, 3.0, 8.0][random.usize(0..3)];
        let kinds: Vec<u8> = match random.bool() {
            true => (0..KINDS).collect(),
            // Two kinds alone, which then happen more often together.
            false => vec![random.u8(0..KINDS), random.u8(0..KINDS)],
        };
        let mut at = seconds(random, 3.0, 6.0);
        let (long, mut all) =
            (if random.u8(0..LONG_ONE_OF) == 0 { LONG } else { 1 }, nodes.clone());
        while at < FAULTS_TIME * long {
            let fault = fault(random, &nodes, &all, &kinds);
            if let Fault::Add { node } | Fault::AddBegun { node } = fault {
                all.push(node);
            }
            faults.push((at, fault));
            at += seconds(random, 0.05, pause) * long;
        }
        only_one_disk(random, &mut faults, nodes.len());
        let (clients, is_recovered) = (random.u64(1..=4), random.u8(0..6) == 0);
        let time = CLIENTS_TIME * long;
        Self { nodes, clients, faults, time, is_recovered, goes_on: false, skipped: Vec::new() }
    }
}

/// Leaves the first lost disk only, and none to clusters that cannot lose one. No other member is removed then:
/// two of three that are left could not lose it. Some operators replace its node.
fn only_one_disk(random: &mut Rng, faults: &mut Vec<(Duration, Fault)>, nodes: usize) {
    let is_lost = |fault: &Fault| matches!(fault, Fault::LostDisk { .. });
    let mut left = usize::from(nodes > 2 && faults.iter().any(|(_, fault)| is_lost(fault)));
    if left > 0 {
        faults.retain(|(_, fault)| !matches!(fault, Fault::Remove { .. }));
    }
    faults.retain(|(_, fault)| {
        let is_kept = !is_lost(fault) || left > 0;
        left -= usize::from(is_lost(fault) && is_kept);
        is_kept
    });
    if let Some((at, Fault::LostDisk { node, .. })) = faults.iter().find(|(_, it)| is_lost(it))
        && random.bool()
    {
        let replacement = Fault::Replace { node: *node, by: REPLACEMENT };
        faults.push((*at + seconds(random, 1.0, 10.0), replacement));
        faults.sort_by_key(|(at, _)| *at);
    }
}

/// Kinds of faults.
const KINDS: u8 = 21;

/// A fault of the `founders`, or of one of `all` nodes.
fn fault(random: &mut Rng, founders: &[NodeId], all: &[NodeId], kinds: &[u8]) -> Fault {
    let node = all[random.usize(..all.len())];
    let end = [End::Kill, End::Power][random.usize(0..2)];
    let down = seconds(random, 0.05, 6.0);
    let time = seconds(random, 0.2, 8.0);
    match kinds[random.usize(..kinds.len())] {
        0 | 1 => Fault::End { node, end, down },
        2 => Fault::EndAtSync { node, count: random.u32(1..60), down },
        3 => {
            let step = disk_step(random);
            // Processes flush seldom, and few open a snapshot.
            let most = if matches!(step, DiskStep::Flush | DiskStep::Open) { 3 } else { 20 };
            Fault::EndAt { node, at: EndAt { step, count: random.u32(1..most), end, down } }
        }
        4 => Fault::EndAll { end, down },
        5 | 6 => Fault::Cut { paths: paths(random, all), time },
        7 => {
            let delay = [60, 120, 400, 900][random.usize(0..4)];
            let (to, delay) = (random.bool().then_some(node), Duration::from_millis(delay));
            Fault::SlowNetwork { to, delay, time }
        }
        8 => {
            Fault::Noise { lost_percent: random.u8(0..20), doubled_percent: random.u8(0..20), time }
        }
        9 => Fault::Pause { node, is_suspended: random.bool(), time },
        10 => {
            let step = [20, 150, 700, 2_500][random.usize(0..4)];
            let mut slow = all.to_vec();
            random.shuffle(&mut slow);
            slow.truncate(random.usize(1..=all.len()));
            let only = random.bool().then(|| disk_step(random));
            Fault::SlowDisks { nodes: slow, only, step: Duration::from_millis(step), time }
        }
        11 => Fault::HangingDisk { node, time: seconds(random, 1.0, 15.0) },
        12 => Fault::FullDisk { node, time },
        13 => {
            let days = random.i64(-400..400) * 86_400_000_000;
            let micros = if random.bool() { days } else { random.i64(-5_000_000..5_000_000) };
            Fault::ClockStep { node, micros }
        }
        14 => {
            let [transfer, open] = [0; 2].map(|_| seconds(random, 0.0, 10.0));
            Fault::SlowSnapshots { transfer, open, time }
        }
        15 => match random.bool() {
            true => Fault::Transfer { node },
            false => Fault::Verify,
        },
        16 => Fault::LostDisk { node: founders[random.usize(..founders.len())], down },
        17 => Fault::ShortDisk { node, time },
        18 => Fault::ShortMemory { node, time },
        19 => Fault::AddBegun { node: random.u64(20..30) },
        _ => match random.bool() {
            // An id is never used twice.
            true => Fault::Add { node: random.u64(6..20) },
            false => Fault::Remove { node },
        },
    }
}

fn disk_step(random: &mut Rng) -> DiskStep {
    use DiskStep::{Apply, Flush, LogMark, LogSync, LogWrite, Open};
    [LogWrite, LogSync, LogMark, Apply, Flush, Open][random.usize(0..6)]
}

/// Directed paths that are cut: a partition, a part of one, one direction, or a bridge between two halves.
fn paths(random: &mut Rng, nodes: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let mut order = nodes.to_vec();
    random.shuffle(&mut order);
    let kind = random.u8(0..4);
    // Both parts have a node, and that of a bridge has a second one. A node alone has no paths.
    let least = if kind == 2 { 2 } else { 1 };
    let (left, right) =
        order.split_at(random.usize(least..nodes.len().max(least + 1)).min(nodes.len()));
    let pairs = |from: &[NodeId], to: &[NodeId]| {
        let all = from.iter().flat_map(|from| to.iter().map(|to| (*from, *to)));
        all.collect::<Vec<_>>()
    };
    match kind {
        0 => [pairs(left, right), pairs(right, left)].concat(),
        1 => pairs(left, right),
        // One node of the left half reaches both halves.
        2 => {
            let left = left.get(1..).unwrap_or_default();
            [pairs(left, right), pairs(right, left)].concat()
        }
        _ => {
            let mut some = pairs(&order, &order);
            some.retain(|(from, to)| from != to && random.u8(0..3) == 0);
            some
        }
    }
}

/// Lets the faults happen.
pub async fn run(world: Arc<World>, plan: Plan) {
    for (number, (at, fault)) in plan.faults.into_iter().enumerate() {
        sleep_until(at).await;
        if !plan.skipped.contains(&number) {
            world.trace(&format!("fault {number}: {fault:?}"));
            tokio::spawn(happen(Arc::clone(&world), number, fault));
        }
    }
}
