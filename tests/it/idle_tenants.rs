//! Tenants that do nothing cost next to nothing, however many they are: no commands, and little
//! memory. The long form also claims less than a millisecond of processor time a second.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use super::*;

/// Tenants with a memory each; `make soak` sets as many as there can be.
const TENANTS: u64 = 1_000;
/// Longer than the interval of ticks, and of runs that remove expired data.
const WINDOW: Duration = Duration::from_secs(65);
const COST_MAX: Duration = Duration::from_millis(1);
/// Resident memory per tenant, its rows in caches included.
const BYTES_MAX: u64 = 64 << 10;

/// What a node without requests takes: processor time per second, commands, resident bytes.
/// Restarted first: its caches are empty, and it keeps nothing of earlier requests.
async fn idle(node: &Node, waits_first: bool) -> (Duration, f64, f64) {
    node.crash().await;
    if waits_first {
        // A start looks at each tenant once.
        tokio::time::sleep(WINDOW).await;
    }
    let (pid, commands) = (node.pid(), node.metric("hearth_executor_accepted_total").await);
    let (started, before) = (Instant::now(), cpu_seconds(pid));
    tokio::time::sleep(WINDOW).await;
    let used = (cpu_seconds(pid) - before) / started.elapsed().as_secs_f64();
    let commands = node.metric("hearth_executor_accepted_total").await - commands;
    (Duration::from_secs_f64(used), commands, resident_bytes(pid))
}

async fn create(cluster: &Cluster, number: u64) {
    let key = create_tenant(cluster, json!({"name": format!("tenant {number}")})).await;
    let request = cluster.request_as(&key, Method::POST, "/agent/nodes");
    request.json(&labelled("a fact of an idle tenant")).send().await.ok();
}

#[tokio::test]
async fn idle_tenants_cost_next_to_nothing() {
    let tenants = setting("HEARTH_TENANTS", TENANTS);
    let is_long = tenants > TENANTS;
    let (quiet, cluster) = (options().start(), options().start());
    quiet.store(&labelled("of the first tenant")).await;
    cluster.store(&labelled("of the first tenant")).await;
    stream::iter(0..tenants).for_each_concurrent(16, |number| create(&cluster, number)).await;
    let ((alone, commands_alone, bytes_alone), (beside, commands, bytes)) =
        tokio::join!(idle(&quiet, is_long), idle(&cluster, is_long));
    let cost = beside.saturating_sub(alone);
    let bytes = (bytes - bytes_alone) as u64 / tenants;
    println!("{tenants} idle tenants: {cost:?} a second beside {alone:?}, {bytes} bytes each");
    // Beside other tests, the time that a node takes varies by more than that.
    if is_long {
        assert!(cost <= COST_MAX, "{beside:?} instead of {alone:?}");
    }
    assert!(commands <= commands_alone + 5.0, "{commands} commands, {commands_alone} before");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes per tenant");
}
