//! A tenant that does all it may, on every node at once, and what another tenant notices, also
//! after the leader was killed.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use tokio::io::AsyncWriteExt;

use super::attacker::{ALONE, Attack, address, connect, latency, over_tls, tls};
use super::*;

/// A quiet tenant waits for so many requests of a busy one at most, each as long as on a quiet
/// cluster, or [`SLOWER`] times as long as without it. In one queue it would wait for those of all
/// [`CONNECTIONS`]. It is the bar of `make soak`, where nothing else runs; beside other tests,
/// [`SHARED`] times as much.
const TURNS_MAX: u32 = 8;
const SHARED: u64 = 2;
const SLOWER: u32 = 3;
/// Connections of the busy tenant to each node.
const CONNECTIONS: usize = 32;
/// Keys of the busy tenant with a trigger on recall.
const OWNERS: usize = 700;
/// From the death of the leader to the next write of the other tenant.
const FAILOVER_MAX: Duration = Duration::from_secs(3);

/// Latencies of creates, searches and reads at a node.
async fn measure(node: &Node, tenant: &Value) -> [Duration; 3] {
    let create = || create(node, tenant);
    let search = || {
        let request = node.request_as(tenant, Method::POST, "/agent/search");
        request.json(&json!({"query": "short"}))
    };
    let get = || node.request_as(tenant, Method::GET, "/agent/nodes?limit=1");
    [latency(create).await, latency(search).await, latency(get).await]
}

fn create(node: &Node, tenant: &Value) -> Request {
    let request = node.request_as(tenant, Method::POST, "/agent/nodes");
    request.json(&labelled("a short memory"))
}

async fn assert_others_served(
    prepare: impl AsyncFnOnce(&Cluster, &Value),
    (path, body): (&str, &Value),
) -> (Cluster, Value) {
    let _alone = ALONE.lock().await;
    let cluster = options().nodes(3).start();
    let busy = create_tenant(&cluster, json!({"name": "busy"})).await;
    let quiet = create_tenant(&cluster, json!({"name": "quiet"})).await;
    prepare(&cluster, &busy).await;
    converged(&cluster).await;
    let [leader, node, other] = cluster.leader_first().await;
    let turn = latency(|| node.request_as(&busy, Method::POST, path).json(body)).await;
    let before = measure(node, &quiet).await;
    let attack = |node| Attack::requests(&cluster, node, CONNECTIONS, &busy, (path, body));
    let attacks = [node, other].map(attack);
    let on_leader = attack(leader);
    let running = async || node.metric("hearth_requests_in_progress").await;
    eventually("the tenant is busy", running, |requests| *requests >= 8.0).await;
    let beside = measure(node, &quiet).await;
    drop(on_leader);
    leader.kill();
    let killed = Instant::now();
    let write =
        async || create(node, &quiet).try_send().await.ok().map(|it| it.status.is_success());
    eventually("the quiet tenant writes", write, |done| *done == Some(true)).await;
    let failover = killed.elapsed();
    let afterwards = measure(node, &quiet).await;
    drop(attacks);
    println!(
        "{path}: a turn {turn:?}, quiet {before:?}, beside a busy tenant {beside:?}; leader killed, \
         next write after {failover:?}, then {afterwards:?}"
    );
    let latency_max = turn * TURNS_MAX * setting("HEARTH_SHARED", SHARED) as u32;
    for (before, beside) in
        before.into_iter().chain(before).zip(beside.into_iter().chain(afterwards))
    {
        assert!(beside <= latency_max.max(SLOWER * before), "{before:?}, then {beside:?}");
    }
    assert!(failover <= FAILOVER_MAX, "{failover:?}");
    (cluster, busy)
}

#[tokio::test]
async fn creates_of_a_tenant_do_not_delay_another() {
    let words: String = (0..100).map(|at| format!("word{at} ")).collect();
    let create = labelled(words);
    assert_others_served(async |_, _| (), ("/agent/nodes", &create)).await;
}

#[tokio::test]
async fn searches_of_a_tenant_do_not_delay_another() {
    let prepare = async |cluster: &Cluster, busy: &Value| store_results(cluster, busy).await;
    assert_others_served(prepare, ("/agent/search", &search())).await;
}

/// 50 memories that [`search`] returns.
async fn store_results(cluster: &Cluster, tenant: &Value) {
    let nodes: Vec<_> = (0..50).map(|at| labelled(format!("river stone {at}"))).collect();
    let batch = cluster.request_as(tenant, Method::POST, "/agent/nodes/batch");
    batch.json(&json!({"nodes": nodes})).send().await.ok();
}

fn search() -> Value {
    json!({"query": "river stone", "limit": 50})
}

/// Each of many keys waits for each result.
#[tokio::test]
async fn searches_that_fire_triggers_delay_no_other() {
    let prepare = async |cluster: &Cluster, busy: &Value| {
        let post = |key: &Value, path: &str| cluster.request_as(key, Method::POST, path);
        let owners = (0..OWNERS).map(async |at| {
            let key = json!({"name": format!("owner {at}"), "role": "agent"});
            let key = post(busy, "/keys").json(&key).send().await.ok();
            let trigger = json!({"event": "on_recall", "action": "pin"});
            post(&key, "/triggers").json(&trigger).send().await.ok();
        });
        stream::iter(owners).buffer_unordered(16).collect::<Vec<_>>().await;
        store_results(cluster, busy).await;
    };
    let (cluster, busy) = assert_others_served(prepare, ("/agent/search", &search())).await;
    // The queues were full, and triggers fired.
    let leader = cluster.at(cluster.leader().await);
    assert!(leader.metric("hearth_recalls_dropped_total").await > 0.0);
    let triggers = leader.request_as(&busy, Method::GET, "/triggers?limit=100").send().await.ok();
    let fired = array(&triggers["items"]).iter().filter(|it| it["fire_count"] != 0).count();
    assert!(fired > 50, "{fired} of {OWNERS}");
}

#[tokio::test]
async fn slow_bodies_hold_no_turns() {
    let _alone = ALONE.lock().await;
    let cluster = options().nodes(3).start();
    let busy = create_tenant(&cluster, json!({"name": "busy"})).await;
    let quiet = create_tenant(&cluster, json!({"name": "quiet"})).await;
    converged(&cluster).await;
    let [_, node, _] = cluster.leader_first().await;
    let head = format!(
        "POST /api/v1/agent/nodes HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        address(node.url()),
        string(&busy["key"]),
    );
    let mut slow = Vec::new();
    for _ in 0..40 {
        // Both tenants write, so turns are in force.
        create(node, &quiet).send().await.ok();
        let stream = connect(address(node.url())).await;
        let mut stream = over_tls(&tls(&cluster, false), stream).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    let start = Instant::now();
    create(node, &busy).send().await.ok();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
