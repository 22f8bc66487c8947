//! Disks that fill cost no memory. A cluster with little space rejects new data and accepts
//! deletions; a node without any space stops, starts again, and recovers by itself.
//!
//! Each node has a file system of its own, of 256 MiB. Mounting needs root: without it, these tests
//! do nothing.

use std::path::Path;
use std::sync::Arc;

use super::model_change::{has_switched, model, model_folder};
use super::*;

const DISK_BYTES: u64 = 256 << 20;
/// Below the reserve of a node of `hearth dev`, 64 MiB.
const LITTLE_BYTES: u64 = 40 << 20;

/// A cluster with small disks; `None` without the right to mount them.
fn small_disks() -> Option<Arc<Cluster>> {
    if !is_privileged() {
        println!("nothing was tested: mounting a disk needs root");
        return None;
    }
    let options = options().nodes(3).disks(DISK_BYTES);
    Some(Arc::new(options.env("HEARTH__LOG_COMPACTION__LOG_BYTES", "16777216").start()))
}

fn fill(node: &Node, leave: u64) -> Filler {
    Filler::leave(&node.data(), leave)
}

async fn create(node: &Node) -> Response {
    node.send(Method::POST, "/agent/nodes", &labelled("one more")).await
}

/// How many nodes report a full disk, as the operator sees it.
async fn full_disks(node: &Node) -> usize {
    let status: Value = node.ops_request(Method::GET, "/cluster").send().await.ok();
    array(&status["members"]).iter().filter(|member| member["disk_full"] == true).count()
}

#[tokio::test]
async fn full_disks_reject_new_data_and_nothing_else() {
    let Some(cluster) = small_disks() else { return };
    let kept = cluster.store(&labelled("kept")).await;
    let deleted = cluster.store(&labelled("deleted")).await;
    let fillers: Vec<_> = cluster.nodes().map(|node| fill(node, LITTLE_BYTES)).collect();
    eventually("all report it", async || full_disks(&cluster).await, |full| *full == 3).await;
    let is_rejected = |created: &Response| created.body["error"] == "disk_full";
    eventually("the leader has seen it", async || create(&cluster).await, is_rejected).await;
    for node in cluster.nodes() {
        let rejected = create(node).await;
        assert_eq!(rejected.headers["retry-after"], "30");
        rejected.assert_error(503, "disk_full");
        let change = node.request(Method::PATCH, &format!("/agent/nodes/{kept}"));
        change.json(&labelled("longer")).send().await.assert_error(503, "disk_full");
        assert_eq!(node.metric("hearth_disk_full").await, 1.0);
        node.ready().await;
    }
    // New tenants, and the vectors of another model, are data too.
    let tenant = ["tenant", "create", "one more", "--ops", cluster.ops()];
    let (succeeded, text) = cluster.run(&tenant).await;
    assert!(!succeeded && text.contains("disk"), "{text}");
    let folder = model_folder(&cluster, 64);
    let (succeeded, text) = cluster.run(&["model", "--ops", cluster.ops(), "set", &folder]).await;
    assert!(succeeded, "{text}");
    let rejected = async || {
        let mut sum = 0.0;
        for node in cluster.nodes() {
            sum += node.metric("hearth_disk_rejected_total").await;
        }
        sum
    };
    assert!(rejected().await >= 6.0);
    cluster.delete(&format!("/agent/nodes/{deleted}")).await;
    cluster.patch("/settings/thermo", &json!({"active_budget_tokens": 999})).await;
    assert_eq!(cluster.get(&format!("/agent/nodes/{kept}")).await["label"], "kept");
    let found = cluster.post("/agent/search", &json!({"query": "kept"})).await;
    assert_eq!(id(&array(&found)[0]), kept);
    assert_eq!(model(&cluster).await["next"]["embedded"], 0);
    drop(fillers);
    eventually("space is back", async || full_disks(&cluster).await, |full| *full == 0).await;
    for node in cluster.nodes() {
        // The change of the model, which continues too, rejects texts for a moment.
        let created = async || create(node).await;
        eventually("it takes data", created, |response| response.status.is_success()).await;
    }
    has_switched(&cluster, 64).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn one_full_disk_stops_no_write() {
    let Some(cluster) = small_disks() else { return };
    converged(&cluster).await;
    let [leader] = cluster.leader_first().await;
    let writers = Writers::start(&cluster, 3);
    let _filler = fill(leader, LITTLE_BYTES);
    eventually("it reports it", async || full_disks(&cluster).await, |full| *full == 1).await;
    let leads = async || cluster.leader().await;
    eventually("another node leads", leads, |at| cluster.at(*at).id() != leader.id()).await;
    writers.acknowledge(300).await;
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, 3).await;
        assert_eq!(node.metric("hearth_disk_rejected_total").await, 0.0);
    }
}

#[tokio::test]
async fn nodes_without_any_space_lose_nothing() {
    let Some(cluster) = small_disks() else { return };
    let kept = cluster.store(&labelled("kept")).await;
    let kept_path = format!("/agent/nodes/{kept}");
    let writers = Writers::start(&cluster, 6);
    writers.acknowledge(300).await;
    let mut fillers = Vec::new();
    // At once, so that the reserve does not stop the writers before the disks are full.
    for node in cluster.nodes() {
        fillers.push(fill(node, 0));
    }
    let ended = |node: &&Node| !Path::new(&format!("/proc/{}", node.pid())).exists();
    let some_ended = async || cluster.nodes().filter(ended).count();
    eventually("a write finds no space", some_ended, |nodes| *nodes > 0).await;
    // Nothing was freed: only the ballast lets them start. Each finds no space at its next write.
    let rejects = async || {
        for node in cluster.nodes().filter(ended) {
            node.wait_gone().await;
            node.start();
        }
        if cluster.nodes().any(|node| node.data().join("ballast").exists()) {
            return false;
        }
        let changed = cluster.request(Method::PATCH, &kept_path).json(&labelled("kept"));
        changed.try_send().await.is_ok_and(|response| response.body["error"] == "disk_full")
    };
    eventually("all run and accept no data", rejects, |rejects| *rejects).await;
    drop(fillers);
    writers.acknowledge(100).await;
    let mut acknowledged = writers.stop().await;
    acknowledged.insert("kept".into(), kept);
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, 6).await;
        eventually("the ballast is back", async || node.data().join("ballast").exists(), |is| *is)
            .await;
    }
    assert_equal_states(&cluster).await;
}
