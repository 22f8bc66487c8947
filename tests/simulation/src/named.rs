//! Plans with a name, for what random faults reach too seldom. A seed decides the details.

use std::time::Duration;

use fastrand::Rng;
use raft::NodeId;
use raft::simulation::DiskStep;
use storage::model::release::LEVEL;

use crate::faults::{Fault, START_TIME};
use crate::plan::{CLIENTS_TIME, Plan};
use crate::process::End;
use crate::world::EndAt;

/// When the fault begins.
const AT: Duration = Duration::from_secs(8);
/// It lasts until the end of the clients.
const LASTING: Duration = Duration::from_secs(60);

/// A plan of a seed.
pub type MakePlan = fn(&mut Rng) -> Plan;

/// The plans, by their names.
pub const NAMED: [(&str, MakePlan); 17] = [
    ("hanging-leader", |random| after(random, vec![(0, Fault::HangingLeader { time: LASTING })])),
    ("slow-disks", |random| {
        let step = [150, 400, 700][random.usize(0..3)];
        let nodes = vec![1, 2, 3, 4, 5];
        let step = Duration::from_millis(step);
        let slow = Fault::SlowDisks { nodes, only: None, step, time: LASTING };
        let ended = end_leader(random);
        after(random, vec![(0, slow), (2, ended)])
    }),
    ("slow-network", |random| {
        let slow =
            Fault::SlowNetwork { to: None, delay: Duration::from_millis(120), time: LASTING };
        let ended = end_leader(random);
        after(random, vec![(0, slow), (2, ended)])
    }),
    ("late-messages", |random| {
        let slow =
            Fault::SlowNetwork { to: Some(2), delay: Duration::from_millis(900), time: LASTING };
        Plan { clients: 12, ..after(random, vec![(0, slow)]) }
    }),
    ("late-after-starts", |random| {
        let slow =
            Fault::SlowNetwork { to: Some(2), delay: Duration::from_millis(900), time: LASTING };
        let ends = (1..12).map(|number| {
            let down = Duration::from_millis(random.u64(100..1_000));
            (3 * number, Fault::End { node: 2, end: End::Kill, down })
        });
        let faults = [(0, slow)].into_iter().chain(ends).collect();
        Plan { clients: 12, ..after(random, faults) }
    }),
    ("begun-node", |random| after(random, vec![(0, Fault::AddBegun { node: 20 })])),
    ("cut-node", |random| {
        after(random, vec![(0, Fault::Cut { paths: both_ways(1), time: LASTING })])
    }),
    ("removed-leader", |random| {
        let paused = Fault::PausedLeader { is_suspended: false, time: Duration::from_secs(3) };
        after(random, vec![(0, paused), (2, Fault::RemoveLeader)])
    }),
    ("long-install", long_install),
    ("empty-disk", empty_disk),
    ("first-start", first_start),
    ("slow-syncs", slow_syncs),
    ("envelope", envelope),
    ("truncated-log", truncated_log),
    ("changed-members", changed_members),
    ("upgrade", upgrade),
    ("suspended-leader", |random| {
        let mut suspended = || {
            let time = Duration::from_millis(random.u64(2_500..4_000));
            Fault::PausedLeader { is_suspended: true, time }
        };
        let faults = (0..7).map(|number| (5 * number, suspended())).collect();
        Plan { clients: 8, ..after(random, faults) }
    }),
];

/// Faults that leave a majority, by the seconds from the first one.
fn after(random: &mut Rng, faults: Vec<(u64, Fault)>) -> Plan {
    let nodes: Vec<NodeId> = (1..=[3, 5][random.usize(0..2)]).collect();
    let faults = faults.into_iter().map(|(at, fault)| (AT + Duration::from_secs(at), fault));
    let faults = faults.collect();
    let (clients, skipped) = (3, Vec::new());
    Plan { nodes, clients, faults, time: CLIENTS_TIME, is_recovered: false, goes_on: true, skipped }
}

fn end_leader(random: &mut Rng) -> Fault {
    Fault::EndLeader { end: any_end(random), down: LASTING }
}

fn any_end(random: &mut Rng) -> End {
    [End::Kill, End::Power][random.usize(0..2)]
}

/// All paths of a node to others, and back.
fn both_ways(node: NodeId) -> Vec<(NodeId, NodeId)> {
    let others = (1..=5).filter(|other| *other != node);
    others.flat_map(|other| [(node, other), (other, node)]).collect()
}

/// Paths, and syncs of the log, take up to what the default timers allow (docs/cluster.md): 0.4 s to another
/// node and back, and 0.9 s with a sync.
fn envelope(random: &mut Rng) -> Plan {
    let (delay, time) = (Duration::from_millis(200), LASTING);
    let network = Fault::SlowNetwork { to: None, delay, time };
    let (only, step) = (Some(DiskStep::LogSync), Duration::from_millis(500));
    let disks = Fault::SlowDisks { nodes: vec![1, 2, 3, 4, 5], only, step, time };
    let same_term = Fault::SameTerm { time: Duration::from_secs(30) };
    after(random, vec![(0, network), (0, disks), (1, same_term)])
}

/// A partitioned leader accepts what no other has. Its log is truncated when it is back, and meanwhile it
/// loses power.
fn truncated_log(random: &mut Rng) -> Plan {
    let steps = [DiskStep::LogWrite, DiskStep::LogSync];
    let mut faults = Vec::new();
    for number in 0..7 {
        let (step, count) = (steps[random.usize(0..2)], random.u32(1..4));
        let at = EndAt { step, count, end: End::Power, down: Duration::from_millis(200) };
        let time = Duration::from_secs(2);
        faults.extend([
            (5 * number, Fault::Cut { paths: both_ways(1), time }),
            (5 * number + 2, Fault::EndAt { node: 1, at }),
            (5 * number + 4, Fault::Transfer { node: 1 }),
        ]);
    }
    Plan { nodes: vec![1, 2, 3], clients: 8, ..after(random, faults) }
}

/// Two nodes acknowledge what the third does not receive. One of them loses its disk, and the other ends. The
/// empty one must not vote: the third would lead, without what was acknowledged.
fn empty_disk(random: &mut Rng) -> Plan {
    let down = Duration::from_millis(random.u64(200..2_000));
    let cut = Fault::Cut { paths: both_ways(2), time: Duration::from_secs(6) };
    let ended = Fault::End { node: 1, end: End::Kill, down: Duration::from_secs(20) };
    let faults = vec![
        (0, Fault::Transfer { node: 1 }),
        (2, cut),
        (6, Fault::LostDisk { node: 3, down }),
        (6, ended),
    ];
    Plan { nodes: vec![1, 2, 3], clients: 8, goes_on: false, ..after(random, faults) }
}

/// Nodes are added and removed, and the leader ends before one of the steps that its disk takes for that.
fn changed_members(random: &mut Rng) -> Plan {
    let mut plan = after(random, Vec::new());
    for number in 0..12 {
        let step = [DiskStep::LogWrite, DiskStep::LogSync, DiskStep::Apply][random.usize(0..3)];
        let (end, down) = (any_end(random), Duration::from_millis(random.u64(100..1_000)));
        let at = EndAt { step, count: random.u32(1..6), end, down };
        let (node, begins) = (10 + u64::from(number / 2), AT + Duration::from_secs(3) * number);
        // An added node is started first.
        let (change, starts) = match number % 2 {
            0 => (Fault::Add { node }, START_TIME),
            _ => (Fault::Remove { node }, Duration::ZERO),
        };
        plan.faults.extend([(begins, change), (begins + starts, Fault::EndLeaderAt { at })]);
    }
    plan
}

/// Nodes are upgraded one after the other, the first one back and again, while leaders end. It goes back once more
/// while the level rises, and after that.
fn upgrade(random: &mut Rng) -> Plan {
    let mut plan = after(random, Vec::new());
    let (next, down) = (LEVEL + 1, Duration::from_millis(200));
    let mut order = plan.nodes.clone();
    random.shuffle(&mut order);
    let (first, last) = (order[0], order[order.len() - 1]);
    let steps = order[..order.len() - 1].iter().map(|node| (*node, next));
    let steps = steps.chain([(first, LEVEL), (first, next), (last, next)]);
    for (number, (node, level)) in steps.enumerate() {
        let at = AT + Duration::from_secs(3) * number as u32;
        plan.faults.push((at, Fault::LevelIs { level: LEVEL }));
        plan.faults.push((at, Fault::Upgrade { node, level, down }));
        let ended = Fault::EndLeader { end: any_end(random), down: Duration::from_millis(700) };
        plan.faults.push((at + Duration::from_millis(random.u64(300..2_000)), ended));
    }
    let all = AT + Duration::from_secs(3) * order.len() as u32;
    let (back, down) = (random.u64(3_000..5_000), Duration::from_millis(random.u64(200..2_000)));
    let back = all + Duration::from_millis(back);
    plan.faults.push((back, Fault::Upgrade { node: first, level: LEVEL, down }));
    plan.faults.push((back + down * 2, Fault::Upgrade { node: first, level: next, down }));
    let end = CLIENTS_TIME - Duration::from_secs(8);
    plan.faults.push((end, Fault::LevelIs { level: next }));
    plan.faults.push((end, Fault::Upgrade { node: first, level: LEVEL, down }));
    plan
}

/// A node loses its disk again and again. Power fails during the first start on the new one: three
/// seeds reach each of its 24 syncs.
fn first_start(random: &mut Rng) -> Plan {
    let down = Duration::from_millis(1_500);
    let first = random.u32(1..4);
    let starts = (0..8).flat_map(|number| {
        let ended = Fault::EndAtSync { node: 3, count: first + 3 * number, down };
        let at = 4 * u64::from(number);
        [(at, Fault::LostDisk { node: 3, down }), (at + 1, ended)]
    });
    let faults = starts.collect();
    Plan { nodes: vec![1, 2, 3], ..after(random, faults) }
}

/// The syncs of a node are late, its state is flushed meanwhile, and then it loses power.
fn slow_syncs(random: &mut Rng) -> Plan {
    let (only, step) = (Some(DiskStep::LogSync), Duration::from_secs(4));
    let slow = Fault::SlowDisks { nodes: vec![2], only, step, time: LASTING };
    let ends = (1..8).map(|number| {
        let down = Duration::from_millis(random.u64(100..3_000));
        (5 * number, Fault::End { node: 2, end: End::Power, down })
    });
    let faults = [(0, slow)].into_iter().chain(ends).collect();
    after(random, faults)
}

/// A node was down for so long that it needs a snapshot, and opens it for 20 seconds. The leader ends
/// meanwhile: of two nodes that are left, both must vote for the next one. Nothing can be written before the
/// snapshot is installed.
fn long_install(random: &mut Rng) -> Plan {
    let open = Duration::from_secs(20);
    let (end, down) = (End::Kill, Duration::from_secs(17));
    let faults = vec![
        (0, Fault::SlowSnapshots { transfer: Duration::ZERO, open, time: LASTING }),
        (0, Fault::End { node: 3, end, down }),
        (21, end_leader(random)),
        (33, Fault::LeaderIsThere),
    ];
    Plan { nodes: vec![1, 2, 3], goes_on: false, ..after(random, faults) }
}
