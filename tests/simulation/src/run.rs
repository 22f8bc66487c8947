//! A run: a cluster, its clients and its faults, and the checks at its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storage::Command;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::clients::{Client, WRITES};
use crate::commands::{last_command, preparations};
use crate::faults::heal;
use crate::host::request;
use crate::node::{compare, start, supervise};
use crate::plan::{self, Plan};
use crate::process::before_syncs;
use crate::promises::Promises;
use crate::recovery::recover;
use crate::timeline::WINDOW;
use crate::trace::Trace;
use crate::world::{Running, World};

/// Time at the end of that in which a write is acknowledged, if the faults leave a majority.
const GOING_ON_TIME: Duration = Duration::from_secs(20);
/// Time after the last fault in which the cluster must work again.
const RECOVERY_TIME: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The numbers of network and disks are others than those of the plan.
const NETWORK_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What became of a run.
pub struct Summary {
    /// What must not have happened.
    pub violations: Vec<String>,
    /// What happened, and how often.
    pub counts: BTreeMap<&'static str, u64>,
    /// Lines of the trace, and their hash.
    pub trace: (u64, String),
}

/// Runs a plan. The files of the nodes are below `folder`.
pub fn run(seed: u64, plan: Plan, trace: Option<&Path>, folder: &Path) -> std::io::Result<Summary> {
    let world = World::new(seed ^ NETWORK_SEED, &plan.nodes, Trace::new(trace)?, folder);
    let syncing = Arc::clone(&world);
    before_syncs(move |path| syncing.sync(path));
    let (sender, mut ended) = oneshot::channel();
    let running = Arc::clone(&world);
    world.outside.spawn(async move {
        run_plan(&running, plan).await;
        let _ = sender.send(());
    });
    let mut time = Duration::ZERO;
    while ended.try_recv().is_err() {
        world.run(time);
        time += WINDOW;
    }
    Ok(world.with(|state| Summary {
        violations: state.violations.clone(),
        counts: std::mem::take(&mut state.counts),
        trace: state.trace.end(),
    }))
}

/// Runs a plan, and checks what was promised.
async fn run_plan(world: &Arc<World>, plan: Plan) {
    let promises = Arc::new(Promises::default());
    world.trace(&format!("nodes {:?}, {} clients", plan.nodes, plan.clients));
    for node in &plan.nodes {
        world.add_node(*node);
        start(world, *node);
    }
    tokio::spawn(supervise(Arc::clone(world)));
    let faults = tokio::spawn(plan::run(Arc::clone(world), plan.clone()));
    let using = {
        let (world, promises) = (Arc::clone(world), Arc::clone(&promises));
        tokio::spawn(async move {
            prepare(&world).await;
            let clients =
                (0..plan.clients).map(|number| Client::new(&world, &promises, number).run());
            futures::future::join_all(clients).await;
        })
    };
    sleep(plan.time - GOING_ON_TIME).await;
    let writes = || world.with(|state| state.counts.get(WRITES).copied());
    let before = writes();
    sleep(GOING_ON_TIME).await;
    if plan.goes_on && writes() == before {
        world.violate("a majority does not go on".into());
    }
    faults.abort();
    heal(world);
    sleep(Duration::from_secs(5)).await;
    using.abort();
    match plan.is_recovered {
        true => match timeout(RECOVERY_TIME, recover_and_work(world)).await {
            Ok(Some((running, true))) => promises.check(world, &running),
            // A minority's disks may lack what was acknowledged.
            Ok(found) => promises.check_part(world, found.map(|(running, _)| running).as_ref()),
            Err(_) => world.violate("the recovered node does not work".into()),
        },
        false => match timeout(RECOVERY_TIME, work_again(world)).await {
            Ok(all) => all.iter().for_each(|running| promises.check(world, running)),
            Err(_) => world.violate("the cluster does not work again".into()),
        },
    }
}

/// Recovers some disks. The new node then does a command.
async fn recover_and_work(world: &Arc<World>) -> Option<(Running, bool)> {
    let recovered = recover(world).await?;
    submit(world, last_command()).await;
    Some(recovered)
}

/// Waits until some node has done a command. Returns its index.
async fn submit(world: &Arc<World>, command: Command) -> u64 {
    loop {
        // A removed node finds no leader until its time limit.
        let mut members = world.members();
        members.sort_by_key(|(_, running)| !running.handle.is_leader());
        for (node, running) in members {
            let command = command.clone();
            let submitting =
                async move { running.handle.submit(command, Instant::now() + TIMEOUT).await };
            // The process may be paused.
            let Ok(Some(submitted)) = timeout(2 * TIMEOUT, request(world, node, submitting)).await
            else {
                continue;
            };
            match submitted {
                Ok(outcome) if outcome.accepted.is_ok() => return outcome.index,
                // It was done before: its response was lost.
                Ok(outcome) => {
                    world.trace(&format!("not repeated: {:?}", outcome.accepted.err()));
                    return outcome.index;
                }
                Err(_) => {}
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn prepare(world: &Arc<World>) {
    while world.members().is_empty() {
        sleep(Duration::from_millis(200)).await;
    }
    for command in preparations() {
        submit(world, command).await;
    }
}

/// Waits until a command was done and all members have it. Returns the members.
async fn work_again(world: &Arc<World>) -> Vec<Running> {
    prepare(world).await;
    // The preparations were done before: this one is new.
    let index = submit(world, last_command()).await;
    loop {
        sleep(Duration::from_millis(500)).await;
        let running = world.members();
        let leading = running.iter().find(|(_, running)| running.handle.is_leader());
        let Some((node, handle)) = leading.map(|(node, it)| (*node, it.handle.clone())) else {
            continue;
        };
        let status = request(world, node, async move { handle.cluster_status() }).await.flatten();
        let Some(status) = status.filter(|status| !status.changing) else { continue };
        // A node that lost its disk takes no part, until an operator replaces it.
        let has_disk = |node: &u64| world.with_node(*node, |it| it.disks == 1);
        let members = status.members.iter().map(|member| member.node).filter(has_disk);
        let all: Option<Vec<_>> = members
            .map(|member| running.iter().find(|(node, _)| *node == member).cloned())
            .collect();
        let Some(all) = all else { continue };
        let indexes = || all.iter().map(|(_, it)| it.reader.position().index);
        if indexes().min() == indexes().max() && indexes().all(|applied| applied >= index) {
            all.iter().for_each(|(node, running)| compare(world, *node, running));
            return all.into_iter().map(|(_, running)| running).collect();
        }
    }
}
